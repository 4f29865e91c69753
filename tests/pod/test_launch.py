"""The launcher behaves like the command that it runs: arguments, stdin, exit code and costs."""

import json
import signal
import subprocess
import sys
import time

import pytest
from pod.boxes import JOB, PID_NAMESPACE, WITHOUT_PROC, Box
from pod.processes import LISTEN, WHERE, end, line, python

ARGS = [
    "two words",
    "",
    "'",
    '"',
    "new\nline",
    "$HOME",
    "`id`",
    "*",
    "?",
    "\\",
    "--",
    "-n",
    "--platform",
    "a=b",
    "é",
]
ECHO = "import json, sys; print(json.dumps(sys.argv[1:]))"


@WHERE
def test_arguments_arrive_unchanged(box: Box, namespace: list[str]) -> None:
    rc, out, err = box.run([*namespace, box.launch, *python(ECHO, *ARGS)])
    assert (rc, json.loads(out), err) == (0, ARGS, "")


@pytest.mark.parametrize("code", [0, 1, 85, 126, 127, 255])
def test_the_exit_code_is_the_commands(box: Box, code: int) -> None:
    rc, _, err = box.run([box.launch, "sh", "-c", f"exit {code}"])
    assert (rc, err) == (code, "")


@pytest.mark.parametrize("name", ["TERM", "KILL", "INT"])
@WHERE
def test_a_command_ended_by_a_signal_is_128_and_its_number(
    box: Box, namespace: list[str], name: str
) -> None:
    suicide = (
        "import os, signal, sys; signal.signal(int(sys.argv[1]), 0) if sys.argv[1] != '9' else 0;"
    )
    number = getattr(signal, f"SIG{name}")
    rc, _, _ = box.run(
        [
            *namespace,
            box.launch,
            *python(suicide + "os.kill(os.getpid(), int(sys.argv[1]))", str(+number)),
        ]
    )
    assert rc == 128 + number


@WHERE
def test_stdin_goes_to_the_command(box: Box, namespace: list[str]) -> None:
    text = "one\ntwo \\n three\n" * 5000
    assert box.run([*namespace, box.launch, "cat"], stdin=text) == (0, text, "")


def test_no_command(box: Box) -> None:
    rc, _, err = box.run([box.launch])
    assert (rc, err) == (2, f"dijob: usage: {box.launch} COMMAND [ARGUMENT...]\n")


def test_its_folder_comes_first_in_path(box: Box, shell: list[str]) -> None:
    rc, out, _ = box.run([box.launch, *shell, "-c", 'echo "$PATH"; command -v ditask'])
    assert (rc, out) == (0, f"{box.bin}/path:{box.env['PATH']}\n{box.ditask}\n")


@pytest.mark.parametrize("name", ["launch", "gate", "reach"])
def test_a_program_of_the_image_may_have_the_name_of_one_of_the_launchers(
    box: Box, name: str
) -> None:
    box.shows("1", JOB["DI_NODES"])
    folder = box.script(f"image/{name}", '#!/bin/sh\necho "the image\'s $*"\n').parent
    said = box.run([box.launch, name, "it"], PATH=f"{box.env['PATH']}:{folder}", **JOB)
    assert said == (0, "the image's it\n", "")


def test_works_where_proc_cannot_be_read(box: Box) -> None:
    process = box.start([*WITHOUT_PROC, box.launch, *python(LISTEN)], DI_NODES="a")
    assert line(process) == "ready"
    process.terminate()
    assert end(process) == (7, ["SIGTERM", "saved"])
    assert box.err() == ""


def test_orphaned_processes_do_not_remain_as_zombies(box: Box) -> None:
    orphans = """
import os, sys, time
for _ in range(20):
    if (child := os.fork()) == 0:
        if os.fork(): os._exit(0)
        os._exit(0)
    os.waitpid(child, 0)
end = time.monotonic() + 5
def dead():
    found = 0
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try: found += ") Z " in open(f"/proc/{pid}/stat").read()
        except OSError: pass
    return found
while (found := dead()) and time.monotonic() < end: time.sleep(0.01)
print("dead", found)
"""
    assert box.run([*PID_NAMESPACE, box.launch, *python(orphans)]) == (0, "dead 0\n", "")


def test_costs_next_to_nothing(box: Box) -> None:
    def cost(command: list[str]) -> float:
        start = time.perf_counter()
        subprocess.run(command, env=box.env | {"DI_NODES": "a"}, check=True)
        return time.perf_counter() - start

    alone = [cost(["true"]) for _ in range(9)]
    launched = [cost([box.launch, "true"]) for _ in range(9)]
    more = min(launched) - min(alone)  # the time if no other process uses the CPU
    print(f"launch adds {more * 1000:.1f} ms to a program's start and end ({sys.platform})")
    assert more < 0.5


def test_the_runtime_hook_precedes_the_users_own_pythonpath(box: Box) -> None:
    box.shows("1", JOB["DI_NODES"])
    said = ["sh", "-c", "echo $PYTHONPATH"]
    own = str(box.bin / "python")
    assert box.run([box.launch, *said], **JOB)[1] == f"{own}\n"
    assert box.run([box.launch, *said], **JOB, PYTHONPATH="/mine")[1] == f"{own}:/mine\n"
    assert box.run([box.launch, *said], PYTHONPATH="/mine")[1] == "/mine\n"
