"""`cp` from a job ends with a message if it cannot write locally, or if the stream is not a tar
archive. Real sockets and threads: a test that hangs fails after a bound.
"""

import asyncio
import io
import os
import resource
import tarfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import IO, Literal

import pytest
from dijob.cli.copying.copy import copy_from_rank
from dijob.cli.copying.places import RankPath
from dijob.cli.copying.threads import RunningThread, run_in_thread
from dijob.cli.copying.unpacking import unpack_tar
from dijob.cli.errors import CliError
from dijob.client import AsyncClient
from unit.client.kubelets import kubelets

# More than a pipe and all buffers between both ends can hold.
LARGE = 8 * 2**20
SECONDS = 30


def archive(*members: tarfile.TarInfo, content: bytes = b"") -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for member in members:
            member.size = len(content) if member.isreg() else 0
            tar.addfile(member, io.BytesIO(content))
    return out.getvalue()


def member(name: str = "ckpt", **fields: object) -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    for key, value in fields.items():
        setattr(info, key, value)
    return info


def a_tar_that_sends(stream: bytes, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Install a tar, as a tenant could, that sends these bytes and exits 0."""
    folder.mkdir()
    (folder / "stream").write_bytes(stream)
    program = folder / "tar"
    program.write_text(f"#!/bin/sh\nexec cat {folder}/stream\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")


async def rejection(folder: Path, to: Path) -> str:
    """Return the error with which a copy of /x/ckpt fails."""
    async with kubelets(folder) as (made, kubeconfig):
        await made.start(0)
        async with asyncio.timeout(SECONDS), AsyncClient(kubeconfig) as client:
            with pytest.raises(CliError) as caught:
                await copy_from_rank(client, RankPath("test", 0, "/x/ckpt"), to)
    return str(caught.value)


def left_in(folder: Path) -> list[Path]:
    """Return leftover temporary files."""
    return list(folder.rglob(".dijob-cp-*"))


@contextmanager
def a_full_disk(folder: Path) -> Iterator[Path]:
    """Limit files to 1 MiB, which fails a write like a full disk."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (2**20, before[1]))
    try:
        yield folder / "out"
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


@contextmanager
def a_file_for_a_folder(folder: Path) -> Iterator[Path]:
    (folder / "file").write_text("kept")
    yield folder / "file/out"


@contextmanager
def a_folder_for_a_file(folder: Path) -> Iterator[Path]:
    (folder / "out").mkdir()
    yield folder / "out"


@contextmanager
def nowhere(folder: Path) -> Iterator[Path]:
    yield Path("/proc/out")


@pytest.mark.parametrize(
    ("where", "words"),
    [
        (a_full_disk, "out: file too large"),
        (a_file_for_a_folder, "file is a file, not a folder"),
        (a_folder_for_a_file, "out: it is a folder"),
        (nowhere, "no such file or directory"),
    ],
)
async def test_a_target_that_cannot_be_written(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    where: Callable[[Path], AbstractContextManager[Path]],
    words: str,
) -> None:
    """H4, R1: the copy hung if more data followed than a pipe can hold."""
    sent = archive(member(), content=bytes(LARGE))
    a_tar_that_sends(sent, tmp_path / "bin", monkeypatch)
    with where(tmp_path) as to:
        assert words in await rejection(tmp_path, to)
    assert left_in(tmp_path) == []


@pytest.mark.parametrize(
    ("stream", "words"),
    [
        pytest.param(
            b"garbage " * 50_000, "sent an incomplete or invalid tar archive", id="no tar"
        ),
        pytest.param(archive(member(), content=b"1" * 2**20)[:700], "invalid tar", id="in a file"),
        pytest.param(archive(member())[:300], "invalid tar archive", id="in the first header"),
        pytest.param(
            archive(member(type=tarfile.DIRTYPE))[:512], "invalid tar archive", id="without an end"
        ),
        pytest.param(
            archive(member(type=tarfile.DIRTYPE), member("ckpt/a"))[:700],
            "invalid tar archive",
            id="in a later header",
        ),
        pytest.param(
            archive(member(type=tarfile.DIRTYPE))[:512] + b"x" * LARGE,
            "invalid tar archive",
            id="damaged",
        ),
        pytest.param(b"", "invalid tar archive: empty header", id="nothing"),
        pytest.param(bytes(10240), "sent an empty tar archive, without ckpt", id="no member"),
        pytest.param(
            archive(member("/".join(["ckpt"] + ["d"] * 1500))),
            "nested too deeply",
            id="a deep folder",
        ),
        pytest.param(
            archive(member(type=tarfile.LNKTYPE, linkname="ckpt")),
            "a hard link to a file that it did not send",
            id="a hard link to itself",
        ),
        pytest.param(
            archive(member(pax_headers={"path": "ckpt/\0x"})), "invalid tar archive", id="NUL"
        ),
    ],
)
async def test_a_stream_that_is_not_a_whole_archive(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stream: bytes, words: str
) -> None:
    """H30: garbage hung, and a truncated stream was a success with 0 files."""
    a_tar_that_sends(stream, tmp_path / "bin", monkeypatch)
    to = tmp_path / "out"
    assert words in await rejection(tmp_path, to)
    assert not to.is_file()
    assert left_in(tmp_path) == []


async def test_a_broken_stream_leaves_the_file_that_was_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """H30."""
    sent = archive(member(), content=b"1" * 2**20)
    a_tar_that_sends(sent[: 2**19], tmp_path / "bin", monkeypatch)
    (tmp_path / "out").write_text("kept")
    await rejection(tmp_path, tmp_path / "out")
    assert (tmp_path / "out").read_text() == "kept"


@pytest.mark.parametrize("mtime", ["1" + "0" * 30, "-1" + "0" * 30, "nan", "inf"])
def test_a_time_that_this_machine_does_not_know(tmp_path: Path, mtime: str) -> None:
    """H30: this was reported as an internal error."""
    sent = archive(member(pax_headers={"mtime": mtime}), content=b"12")
    assert unpack_tar(io.BytesIO(sent), tmp_path / "out", "ckpt").files == 1
    assert (tmp_path / "out").read_bytes() == b"12"


def test_a_device_is_not_replaced(tmp_path: Path) -> None:
    """H4: as root, `cp JOB:FILE /dev/null` removed the device."""
    os.mkfifo(tmp_path / "out")
    with pytest.raises(CliError, match="it is a device, a pipe or a socket"):
        unpack_tar(io.BytesIO(archive(member())), tmp_path / "out", "ckpt")
    assert (tmp_path / "out").is_fifo()


def test_a_hard_link_does_not_write_through_a_link_that_is_there(tmp_path: Path) -> None:
    """H30."""
    (tmp_path / "other").write_text("kept")
    (tmp_path / "out").mkdir()
    (tmp_path / "out/b").symlink_to(tmp_path / "other")
    hard = member("ckpt/b", type=tarfile.LNKTYPE, linkname="ckpt/a")
    unpack_tar(io.BytesIO(archive(member("ckpt/a"), hard, content=b"12")), tmp_path / "out", "ckpt")
    assert (tmp_path / "other").read_text() == "kept"
    assert (tmp_path / "out/b").read_bytes() == b"12"


async def everything(thread: RunningThread[None], pieces: Iterable[bytes]) -> None:
    for piece in pieces:
        await thread.write(piece)


async def test_a_thread_that_reads_no_more_ends_the_writer() -> None:
    """H4: the side that fails wakes the other side."""

    def fails(stream: IO[bytes]) -> None:
        stream.read(1)
        raise CliError("no space")

    async with asyncio.timeout(SECONDS), run_in_thread(fails, "rb") as thread:
        pieces = (bytes(2**20) for _ in range(LARGE))
        with pytest.raises(ConnectionError):
            await everything(thread, pieces)
    with pytest.raises(CliError, match="no space"):
        thread.result.result()


@pytest.mark.parametrize("mode", ["rb", "wb"])
async def test_a_thread_ends_if_the_event_loop_is_interrupted(mode: Literal["rb", "wb"]) -> None:
    """H4: Ctrl-C during a copy, in both directions."""

    def works(stream: IO[bytes]) -> None:
        while stream.read(1) if mode == "rb" else stream.write(bytes(2**20)):
            pass

    async with asyncio.timeout(SECONDS):
        with pytest.raises(InterruptedError):
            async with run_in_thread(works, mode) as thread:
                raise InterruptedError
        assert thread.result.done()
