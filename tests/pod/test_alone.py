"""The launcher reports processes that bypass it: a rank that does not join the job, or whose
arguments conflict with the job.
"""

from pathlib import Path

import pytest
from pod.boxes import NET_NAMESPACE, Box, shown
from pod.processes import answer, end, line

# An interpreter with the name of Python, so that the command line looks as in an image. It ends
# when its stdin is closed.
FAKE = "#!{python}\nimport os, sys\nos.write(1, b'ready\\n')\nsys.stdin.read()\n"


def looked(
    box: Box,
    command: list[str],
    programs: int = 1,
    namespace: tuple[str, ...] = (),
    nodes: str = "127.0.0.1",
) -> str:
    """Return stderr of launch after its watcher has inspected the processes twice, at its fifth and
    its thirtieth check. The programs run all the time.
    """
    pipe = box.pipe()
    process = box.start([*namespace, box.launch, *command], DI_RANK="0", DIJOB_NAP="0.02")
    # The second time that it reads the list is at its first check, which lasts until the programs
    # are ready.
    answer(pipe, [shown("1", nodes)], removed=False)
    for _ in range(programs):
        assert line(process) == "ready"
    answer(pipe, [shown("1", nodes)] * 32)
    assert end(process)[0] == 0
    return box.err()


IS_BLIND = {
    "isolated": "python3 -I {image}/ditask --package a",
    "no folder": "unset PYTHONPATH; {image}/ditask",
}
IS_RIGHT = [
    "{image}/ditask --package a",
    "export PATH={image}:$PATH; ditask --package a; true",
    "python3 -u -X dev -W ignore {image}/ditask --labels platform",
    "python3 -m ding.entry.cli_ditask --package a",
    "PYTHONPATH=/mine:$PYTHONPATH {image}/ditask",
    "ditask --package a",
    "export PATH={image}:$PATH; {bin}/path/ditask --package a; true",
    "{image}/ditask --package a --platform k8s",
    "{image}/ditask --platform=slurm",
    "python3 {image}/train --package {image}/ditask",
    "python3 {image}/train 'runs ditask'; : ditask",
]


@pytest.fixture
def image(box: Box) -> Path:
    """A directory in PATH with a ditask and another program."""
    fake = FAKE.format(python=box.path / "python" / "python3")
    box.script("image/train", fake)
    box.script("ding/entry/cli_ditask.py", fake)
    image = box.script("image/ditask", fake).parent
    box.env["PATH"] += f":{image}"
    return image


@pytest.mark.parametrize("name", IS_BLIND)
def test_a_program_that_cannot_know_its_peers_is_reported_once_and_at_the_end(
    box: Box, image: Path, name: str
) -> None:
    err = looked(box, ["sh", "-c", IS_BLIND[name].format(image=image)])
    assert err.count("dijob: WARNING: this rank has not joined the job: ") == 1, err
    assert f"Run {box.ditask} instead, or add --platform k8s --topology mesh" in err
    assert box.said_last().startswith("dijob: this rank works alone: process ")


def test_a_program_that_can_know_its_peers_is_not_reported(box: Box, image: Path) -> None:
    commands = [command.format(image=image, bin=box.bin) for command in IS_RIGHT]
    together = "exec 3<&0; " + "".join(f"( {command} ) <&3 & " for command in commands) + "wait"
    assert looked(box, ["sh", "-c", together], len(commands)).count("dijob: WARNING") == 0
    assert box.said_last() == ""


IPC = """
import os, socket, sys
where = socket.socket(socket.AF_UNIX)
where.bind(os.environ["HOME"] + "/ditask_a1b2_0.ipc")
where.listen()
print("ready", flush=True)
sys.stdin.read()
"""


def test_a_program_with_unreachable_sockets_works_alone(box: Box) -> None:
    program = IPC
    box.env["HOME"] = str(box.path)
    # A network namespace has the sockets of one pod.
    err = looked(box, ["python3", "-c", program], namespace=tuple(NET_NAMESPACE))
    assert "listens on an ipc:// address" in err
    assert box.said_last().startswith("dijob: this rank works alone: DI-engine's Parallel listens")


def test_r10_a_socket_of_another_pod_on_the_node_is_not_this_ranks(box: Box) -> None:
    """R10: with hostNetwork, /proc/net/unix has the sockets of the whole node."""
    box.env["HOME"] = str(box.path)
    neighbour = box.start([str(box.path / "python/python3"), "-c", IPC])
    assert line(neighbour) == "ready"
    assert "ditask_a1b2_0.ipc" in Path("/proc/net/unix").read_text()
    err = looked(box, ["sh", "-c", "echo ready; cat"])
    assert "has not joined" not in err
    assert box.said_last() == ""
    end(neighbour)


def test_c5_a_command_that_leaves_the_job_is_named_if_it_may_have_wanted_peers(
    box: Box, image: Path
) -> None:
    """C5: the log reports it at once, and a condition of the job when the program has succeeded."""
    command = f"{image}/ditask --package a --address 127.0.0.1"
    err = looked(box, ["sh", "-c", command], nodes="10.0.0.1,10.0.0.2")
    assert err.count("dijob: WARNING: this rank has not joined the job: ") == 1
    assert "Remove --address 127.0.0.1 to join them, or add --topology alone" in err
    assert "this rank works alone: process " in box.said_last()
