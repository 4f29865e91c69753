"""`cp` into a job: packing, targets, and a real tar on the other side of a connection."""

import io
import os
import tarfile
from pathlib import Path

import pytest
from dijob.cli.copying.copy import copy_from_rank
from dijob.cli.copying.packing import list_items, pack_items
from dijob.cli.copying.places import Inside, RankPath, find_volume, helper_manifest, parse_ends
from dijob.cli.copying.progress import CopyProgress, format_size
from dijob.cli.copying.send import copy_to_rank
from dijob.cli.errors import CliError, Exit
from dijob.client import AsyncClient
from unit.cli.test_copying import OUT, job
from unit.client.kubelets import kubelets


@pytest.mark.parametrize(
    ("first", "second", "found"),
    [
        ("a:/x", "here", (RankPath("a", 0, "/x"), "here")),
        ("./data", "a:2:/x", ("./data", RankPath("a", 2, "/x"))),
        ("./a:b", "c:d", ("./a:b", RankPath("c", 0, "d"))),
        ("/tmp/a:b", "c:d", ("/tmp/a:b", RankPath("c", 0, "d"))),
    ],
)
def test_which_end_is_in_a_job(first: str, second: str, found: tuple[object, object]) -> None:
    assert parse_ends(first, second) == found


@pytest.mark.parametrize(("first", "second"), [("a:/x", "b:/y"), ("a", "b"), ("a", "./b:c")])
def test_one_end_must_be_in_a_job(first: str, second: str) -> None:
    with pytest.raises(CliError, match=r"one of .* must be a path in a job") as caught:
        parse_ends(first, second)
    assert caught.value.code is Exit.USAGE


@pytest.mark.parametrize(
    ("path", "root", "names", "whole"),
    [
        ("/data", "/", ("data", "data/a"), "/data"),
        ("/data/", "/", ("data/mine", "data/mine/a"), "/data"),
        ("/", "/", ("mine", "mine/a"), "/"),
        ("deep/data", ".", ("deep/data", "deep/data/a"), "deep/data"),
        (".", ".", ("mine", "mine/a"), "."),
        ("//x//y", "/", ("x/y", "x/y/a"), "/x/y"),
    ],
)
def test_where_it_goes(path: str, root: str, names: tuple[str, str], whole: str) -> None:
    inside = Inside.of(path)
    assert (inside.root, inside.whole) == (root, whole)
    assert (inside.named("mine"), inside.named("mine/a")) == names


@pytest.mark.parametrize("path", ["../x", "/data/../../etc", "a/.."])
def test_no_path_goes_up(path: str) -> None:
    with pytest.raises(CliError, match="without"):
        Inside.of(path)


def test_the_helper_that_writes_has_the_mount_as_the_template_has_it() -> None:
    source = RankPath("test", 0, "/out/ckpt")
    made = helper_manifest(
        job(OUT), source, find_volume(job(OUT), source), "test-cp-1", writes=True
    )
    assert made["spec"]["containers"][0]["volumeMounts"] == [OUT]


def tree(folder: Path) -> Path:
    """Create files, an empty folder, and links to a file and a folder outside."""
    (folder / "outside").mkdir(parents=True)
    (folder / "outside/far").write_text("far")
    mine = folder / "mine"
    (mine / "empty").mkdir(parents=True)
    (mine / "deep").mkdir()
    (mine / "deep/run").write_bytes(bytes(range(256)) * 4096)
    (mine / "deep/run").chmod(0o755)
    (mine / "near").symlink_to(folder / "outside/far")
    (mine / "linked").symlink_to(folder / "outside")
    return mine


def test_only_files_and_folders_are_sent(tmp_path: Path) -> None:
    stream = io.BytesIO()
    found = list_items(tree(tmp_path))
    pack_items(stream, found)
    stream.seek(0)
    with tarfile.open(fileobj=stream) as archive:
        members = archive.getmembers()
    assert [item.name for item in found] == [member.name for member in members]
    assert {m.name: m.isdir() for m in members} == {
        "mine": True,
        "mine/deep": True,
        "mine/deep/run": False,
        "mine/empty": True,
        "mine/linked": True,
        "mine/linked/far": False,
        "mine/near": False,
    }
    assert all(m.isdir() or m.isreg() for m in members)
    assert {(m.uid, m.gid, m.uname, m.gname) for m in members} == {(0, 0, "", "")}


def test_a_folder_that_has_no_end_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a/b").mkdir(parents=True)
    (tmp_path / "a/b/again").symlink_to(tmp_path / "a")
    with pytest.raises(CliError, match="again is a link to a folder that contains it"):
        list_items(tmp_path / "a")


@pytest.mark.parametrize("kind", ["none", "fifo", "broken"])
def test_files_that_cannot_be_sent_are_named(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "x"
    if kind == "fifo":
        os.mkfifo(path)
    if kind == "broken":
        path.symlink_to(tmp_path / "gone")
    words = "it is neither a file nor a folder" if kind == "fifo" else "no such file or directory"
    with pytest.raises(CliError, match=f"x.*{words}") as caught:
        list_items(path)
    assert caught.value.code is Exit.USAGE


@pytest.mark.parametrize(
    ("there", "path", "wanted"),
    [
        pytest.param("", "data", "data", id="under a new name"),
        pytest.param("data", "data", "data/mine", id="into an existing folder"),
        pytest.param("", "new/deep/", "new/deep/mine", id="into a new folder"),
    ],
)
async def test_a_folder_arrives_whole(tmp_path: Path, there: str, path: str, wanted: str) -> None:
    mine, away = tree(tmp_path / "here"), tmp_path / "away"
    (away / there).mkdir(parents=True)
    async with kubelets(tmp_path) as (made, kubeconfig), AsyncClient(kubeconfig) as client:
        await made.start(1)
        done = await copy_to_rank(client, mine, RankPath("test", 1, f"{away}/{path}"))
    assert (done.files, done.size) == (3, 2**20 + 6)
    assert done.where == f"test-1:{away}/{wanted}"
    assert (away / wanted / "deep/run").read_bytes() == (mine / "deep/run").read_bytes()
    assert (away / wanted / "deep/run").stat().st_mode & 0o777 == 0o755
    assert (away / wanted / "linked/far").read_text() == "far"
    assert not (away / wanted / "linked").is_symlink()


async def test_no_pod_is_created_for_a_rank_that_the_job_lacks(tmp_path: Path) -> None:
    async with kubelets(tmp_path) as (made, kubeconfig), AsyncClient(kubeconfig) as client:
        assert made.job is not None
        made.job["status"] = {"desired": 2}
        await made.start(1)
        with pytest.raises(CliError, match="test has no rank 5: its ranks are 0 to 1") as caught:
            await copy_from_rank(client, RankPath("test", 5, "/x"), tmp_path)
    assert caught.value.code is Exit.NOT_FOUND


async def test_a_rank_that_is_terminating_is_still_used(tmp_path: Path) -> None:
    (tmp_path / "x").write_text("kept")
    (tmp_path / "to").mkdir()
    async with kubelets(tmp_path) as (made, kubeconfig), AsyncClient(kubeconfig) as client:
        assert made.job is not None
        made.job["status"] = {"desired": 1}
        await made.start(1)
        await copy_from_rank(client, RankPath("test", 1, f"{tmp_path}/x"), tmp_path / "to/x")
    assert (tmp_path / "to/x").read_text() == "kept"


async def test_the_reason_of_a_failed_write_is_reported(tmp_path: Path) -> None:
    mine = tree(tmp_path / "here")
    (tmp_path / "file").write_text("kept")
    async with kubelets(tmp_path) as (made, kubeconfig), AsyncClient(kubeconfig) as client:
        await made.start(0)
        to = RankPath("test", 0, f"{tmp_path}/file/mine")
        with pytest.raises(CliError, match=r"cannot write .*file/mine in test-0: tar: "):
            await copy_to_rank(client, mine, to)
    assert (tmp_path / "file").read_text() == "kept"


async def test_a_file_that_shrinks_meanwhile_is_an_error_and_no_short_copy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mine = tmp_path / "mine"
    mine.write_bytes(b"x" * 100)
    known = tarfile.TarFile.gettarinfo

    def longer(*args: object, **more: object) -> tarfile.TarInfo:
        info: tarfile.TarInfo = known(*args, **more)  # type: ignore[arg-type]
        info.size = 2**21
        return info

    monkeypatch.setattr(tarfile.TarFile, "gettarinfo", longer)
    async with kubelets(tmp_path) as (made, kubeconfig), AsyncClient(kubeconfig) as client:
        await made.start(0)
        with pytest.raises(CliError, match=r"cannot read .*mine"):
            await copy_to_rank(client, mine, RankPath("test", 0, f"{tmp_path}/away"))


@pytest.mark.parametrize(
    ("whole", "added", "text"),
    [
        (0, 2048, "2.0 KiB"),
        (4096, 1024, "1.0 KiB of 4.0 KiB, 25 %"),
        (4096, 9999, "4.0 KiB of 4.0 KiB, 99 %"),
    ],
)
def test_how_far_it_is(whole: int, added: int, text: str) -> None:
    progress = CopyProgress(whole)
    progress.add(added)
    assert progress.text == text


@pytest.mark.parametrize(
    ("count", "text"), [(5, "5 bytes"), (2**20, "1.0 MiB"), (3 * 2**29, "1.5 GiB")]
)
def test_size(count: int, text: str) -> None:
    assert format_size(count) == text
