"""`cp` copies a folder to which a program writes, and warns about files that changed."""

import asyncio
import os
import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from dijob.cli.errors import Exit
from dijob.cli.main import group
from unit.client.kubelets import kubelets

CHANGED = "tar: log: file changed as we read it"
REFUSED = "tar: log: no such file"


def tar_that_ends(folder: Path, code: int, said: str) -> str:
    """Return a PATH with a tar that works, but prints `said` and exits with `code`."""
    real = shutil.which("tar")
    folder.mkdir()
    program = folder / "tar"
    program.write_text(f'#!/bin/sh\n{real} "$@"\necho "{said}" >&2\nexit {code}\n')
    program.chmod(0o755)
    return f"{folder}:{os.environ['PATH']}"


def checkpoint(folder: Path) -> Path:
    folder.mkdir()
    (folder / "model.pt").write_text("weights")
    return folder


def content(file: Path) -> str:
    return file.read_text() if file.exists() else ""


async def copied(kubeconfig: str, source: Path, to: Path) -> Result:
    args = ["cp", f"test:{source}", str(to), "--kubeconfig", kubeconfig]
    return await asyncio.to_thread(lambda: CliRunner().invoke(group, args))


@pytest.mark.parametrize(
    ("code", "said", "exit_code"),
    [(1, CHANGED, Exit.OK), (1, REFUSED, Exit.NOT_FOUND), (2, CHANGED, Exit.NOT_FOUND)],
    ids=["a file changed", "busybox's tar", "another exit code"],
)
async def test_a_file_that_changes_meanwhile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int, said: str, exit_code: Exit
) -> None:
    source = checkpoint(tmp_path / "ckpt")
    monkeypatch.setenv("PATH", tar_that_ends(tmp_path / "bin", code, said))
    async with kubelets(tmp_path) as (made, kubeconfig):
        await made.start(0)
        done = await copied(kubeconfig, source, tmp_path / "out")
    assert done.exit_code == exit_code, done.output
    assert said in done.output
    assert content(tmp_path / "out" / "model.pt") == "weights"
    if exit_code is Exit.OK:
        assert f"Warning: a file changed while it was being copied: {said}" in done.stderr
