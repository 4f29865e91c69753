"""`kubectl dijob` against real pods: `run --code`, logs across a rank that is killed and one that a
`drill` deletes, `cp` of a checkpoint, and the outcome.
"""

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from archives import ROOT
from identity import kill_program
from jobs import LIGHT
from space import Space
from volumes import volume

pytestmark = pytest.mark.e2e

CLAIM = """
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: out}
spec:
  storageClassName: ""
  accessModes: [ReadWriteMany]
  resources: {requests: {storage: 1Gi}}
"""
MAIN = """
import os
import pathlib
import time

from pkg.words import GREETING

rank, out = os.environ["DI_RANK"], pathlib.Path("/out")
print(GREETING, rank)
pathlib.Path("scratch").write_text("rank " + rank)
(out / "ckpt").mkdir(exist_ok=True)
(out / "ckpt" / f"{rank}.pth").write_text("weights of " + rank)
number = 0
while not (out / "go").exists():
    number += 1
    print("step", number)
    time.sleep(0.1)
print("done")
"""
RUN = ("--image", LIGHT, "--replicas", "2", "--cpu", "50m", "--volume", "out:/out", "--code")


@dataclass(frozen=True)
class Cli:
    """Runs `kubectl dijob` as a process in a test's namespace."""

    space: Space

    def command(self, *words: str) -> list[str]:
        where = ("-n", self.space.name, "--kubeconfig", str(self.space.cluster.kubeconfig))
        name, *rest = words
        return [sys.executable, "-m", "dijob.cli.main", name, *where, *rest]

    def __call__(self, *words: str) -> str:
        """Return the output. If the command fails, an AssertionError contains all of it."""
        env = {**os.environ, "PYTHONPATH": str(ROOT / "operator")}
        done = subprocess.run(
            self.command(*words), capture_output=True, text=True, timeout=180, env=env
        )
        assert done.returncode == 0, f"{words}: {done.returncode}: {done.stdout}{done.stderr}"
        return done.stdout

    @contextmanager
    def going(self, file: Path, *words: str) -> Iterator[subprocess.Popen[bytes]]:
        """Run the command in the background, with its output in a file."""
        env = {**os.environ, "PYTHONPATH": str(ROOT / "operator")}
        with file.open("wb") as out:
            process = subprocess.Popen(self.command(*words), stdout=out, stderr=out, env=env)
            try:
                yield process
            finally:
                process.terminate()
                process.wait(20)


def until_said(space: Space, file: Path, pattern: str, times: int = 1) -> None:
    def problem() -> str:
        found = len(re.findall(pattern, file.read_text()))
        return "" if found >= times else f"{found} times in: {file.read_text()[-1500:]}"

    space.until(f"{file.name} has {pattern!r} {times} times", problem, 90)


def steps_in_a_row(text: str, rank: int) -> int:
    """Return how often a rank's program started.

    Asserts that the steps of each run are 1, 2, 3 ..., so no line is missing or duplicated.
    """
    begun = expected = 0
    for line in re.findall(rf"^\[{rank}\] (.*)$", text, re.MULTILINE):
        if line.startswith("hello"):
            begun, expected = begun + 1, 1
        elif line.startswith("step"):
            assert line == f"step {expected}", f"rank {rank}, run {begun}: {line} in {text[-3000:]}"
            expected += 1
    return begun


def check_drill(text: str, rank: int) -> None:
    """Check what a drill reports about the loss of one rank."""
    drill = json.loads(text)
    took = drill["seconds"]
    assert 0 < took["detection"] <= took["restart"] <= took["connected"] < 60, drill
    assert (drill["ranks"], drill["failures"], took["progress"]) == ([rank], 0, None), drill


def check_replacement(cli: Cli, code: Path) -> None:
    """Change the code, so that it no longer fits into one ConfigMap, and run it again."""
    (code / "pkg/words.py").write_text('GREETING = "changed in"\n')
    (code / "weights").write_bytes(os.urandom(1_500_000))
    text = cli("run", "work", "--code", str(code), "--replace")
    assert "[0] changed in 0" in text
    assert text.splitlines()[-1].startswith("work: Succeeded: "), text
    assert "work-code-1" in cli.space.kubectl("get", "configmaps", "-o", "name")


@pytest.mark.long
def test_own_code_from_the_first_line_to_the_checkpoint(space: Space, tmp_path: Path) -> None:
    cli, code, out = Cli(space), tmp_path / "code", tmp_path / "out"
    (code / "pkg").mkdir(parents=True)
    (code / "main.py").write_text(MAIN)
    (code / "pkg/words.py").write_text('GREETING = "hello from"\n')
    log, seen = tmp_path / "log", tmp_path / "seen"
    with volume(space, "out", out):
        space.kubectl("apply", "-f", "-", stdin=CLAIM)
        cli("run", "work", *RUN, str(code), "--", "python3", "main.py")
        with (
            cli.going(log, "logs", "work", "-f") as logs,
            cli.going(seen, "watch", "work") as watch,
        ):
            for rank in (0, 1):
                until_said(space, log, rf"(?m)^\[{rank}\] step 5$")
            cli("cp", "work:1:/out/ckpt", str(tmp_path / "early"))
            assert (tmp_path / "early/1.pth").read_text() == "weights of 1"
            cli("cp", "work:1:scratch", str(tmp_path))
            assert (tmp_path / "scratch").read_text() == "rank 1"
            cli("cp", str(code), "work:1:/tmp/new/")
            said = space.execute("work-1", "cat", "/tmp/new/code/pkg/words.py")
            assert said == (code / "pkg/words.py").read_text()
            kill_program(space, "work-0")
            until_said(space, log, r"(?m)^\[0\] hello from 0$", 2)
            space.until_true("work", "PeersReady", 60)
            check_drill(cli("drill", "work", "--rank", "1", "--yes", "-o", "json"), 1)
            until_said(space, log, r"(?m)^\[1\] hello from 1$", 2)
            (out / "go").touch()
            assert (logs.wait(90), watch.wait(30)) == (0, 0), seen.read_text() + log.read_text()
        text = log.read_text()
        assert [steps_in_a_row(text, rank) for rank in (0, 1)] == [2, 2], text
        assert text.count("] done") == 2
        assert seen.read_text().splitlines()[-1].startswith("work: Succeeded: ")
        assert "rank 0: Ready" in seen.read_text() or "rank 0: Running" in seen.read_text()
        assert cli("wait", "work").startswith("work: Succeeded: ")
        cli("cp", "work:/out/ckpt", str(tmp_path / "late"))
        assert (tmp_path / "late/0.pth").read_text() == "weights of 0"
        # No rank runs any more, so a helper pod writes to the volume.
        cli("cp", str(tmp_path / "early"), "work:/out/back")
        assert (out / "back/1.pth").read_text() == "weights of 1"
        space.until_gone("the helper pod", lambda: re.findall(r"\S+-cp-\S+", _pods(space)), 30)
        cli("restart", "work", "--wait", "--timeout", "120s")
        assert "hello from 0" in cli("logs", "work", "--rank", "0")
        check_replacement(cli, code)
        cli("delete", "work")
        assert "work-code" not in space.kubectl("get", "configmaps", "-o", "name")


def test_a_copy_that_cannot_be_written_ends(space: Space, tmp_path: Path) -> None:
    """H4: the copy hung if more data followed than a pipe can hold."""
    cli = Cli(space)
    make = "mkdir /tmp/d; head -c 30000000 /dev/zero | tee /tmp/big > /tmp/d/a; echo made"
    script = f"{make}; exec sleep 3600"
    cli("run", "big", "--image", LIGHT, "--", "bash", "-c", script)
    space.until("its files", lambda: "" if "made" in space.printed("big-0") else "not made", 180)
    (tmp_path / "file").write_text("kept")
    refused = [
        ("/tmp/big", f"{tmp_path}/file/x", "is a file, not a folder"),
        ("/tmp/d", f"{tmp_path}/file", "is a file, not a folder"),
        ("/tmp/big", "/proc/x", "cannot write /proc/"),
    ]
    for path, to, words in refused:
        done = subprocess.run(
            cli.command("cp", f"big:{path}", to),
            capture_output=True,
            text=True,
            timeout=60,
            env={**os.environ, "PYTHONPATH": str(ROOT / "operator")},
        )
        assert done.returncode == 1, done.stderr
        assert words in done.stderr
    cli("cp", "big:/tmp/big", str(tmp_path / "whole"))
    assert (tmp_path / "whole").stat().st_size == 30_000_000
    assert (tmp_path / "file").read_text() == "kept"


def _pods(space: Space) -> str:
    return space.kubectl("get", "pods", "-o", "name")
