"""The time from an edit of the code to the output of the changed program, and to the end of the
job: with one command, and with the four commands that it replaces (docs/own-code.md).
"""

import os
import subprocess
import time
from pathlib import Path
from statistics import median

import pytest
from archives import ROOT
from jobs import LIGHT
from space import Space, measured
from test_cli import Cli

pytestmark = [pytest.mark.e2e, pytest.mark.long]

CYCLES = 10
MAIN = """
import os, time
print("edit {edit} of rank", os.environ["DI_RANK"], flush=True)
time.sleep(1)
"""
PROGRAM = ("--", "python3", "main.py")


def seconds(cli: Cli, edit: int, *commands: tuple[str, ...]) -> tuple[float, float]:
    """Run commands one after the other. Return the seconds until both ranks have printed the edit,
    and until the end of the last command.
    """
    began, printed, seen, output = time.monotonic(), 0.0, set[str](), ""
    env = {**os.environ, "PYTHONPATH": str(ROOT / "operator")}
    for words in commands:
        argv, pipe = cli.command(*words), subprocess.PIPE
        with subprocess.Popen(
            argv, stdout=pipe, stderr=subprocess.STDOUT, text=True, env=env
        ) as one:
            for line in one.stdout or ():
                output += line
                seen |= {line.split()[-1]} if f"edit {edit} of rank" in line else set()
                if len(seen) == 2 and not printed:
                    printed = time.monotonic() - began
        assert one.returncode == 0, output
    assert seen == {"0", "1"}, output
    return printed, time.monotonic() - began


def test_ten_edits_with_one_command_and_with_four(space: Space, tmp_path: Path) -> None:
    cli, file = Cli(space), tmp_path / "main.py"
    shape = ("--image", LIGHT, "--replicas", "2", "--cpu", "50m", "--code", str(tmp_path))
    four = (
        ("delete", "loop"),
        ("run", "loop", *shape, *PROGRAM),
        ("wait", "loop", "--for", "running"),
        ("logs", "loop", "-f"),
    )
    ways = {"one command": (("run", "loop", "--code", str(tmp_path), "--replace"),), "four": four}
    found: dict[str, list[tuple[float, float]]] = {way: [] for way in ways}
    file.write_text(MAIN.format(edit=0))
    cli("run", "loop", *shape, "--wait", *PROGRAM)
    for cycle in range(CYCLES):
        for at, (way, commands) in enumerate(ways.items(), 1):
            edit = 2 * cycle + at
            file.write_text(MAIN.format(edit=edit))
            found[way].append(seconds(cli, edit, *commands))
    for way, times in found.items():
        first, last = (median(column) for column in zip(*times, strict=True))
        measured(f"{way}: seconds until the output, until the end", f"{first:.1f}, {last:.1f}")
        measured(f"{way}: seconds of {CYCLES} cycles", f"{sum(end for _, end in times):.0f}")
