"""The launcher answers the kubelet's readiness probe if its program listens and is connected to its
peers.

C23: with a proxy that accepts every connection, a program starts without a rank for which it has
waited.
"""

import socket
import subprocess
from collections.abc import Iterator

import pytest
from cluster.waiting import until_true
from pod.boxes import NET_NAMESPACE, Box
from pod.processes import end, line
from ports import free_port

# Listens on the port that it reads from stdin, and then prints the next line that it reads.
PROGRAM = """
import socket, sys
port = int(sys.argv[1])
input()
where = socket.create_server(("127.0.0.1", port))
print("listens", flush=True)
input()
"""


def is_open(port: int) -> bool:
    """Whether a probe of the kubelet would succeed."""
    try:
        socket.create_connection(("127.0.0.1", port), 1).close()
    except OSError:
        return False
    return True


class Rank:
    """A launcher with a program, and the port to which the kubelet connects."""

    def __init__(self, box: Box) -> None:
        self.asked, listens = free_port(), free_port()
        self.file = box.path / "without-peers-1"
        self.env = {"DIJOB_READY": f"{self.asked} {listens}", "DI_POD_IP": "127.0.0.1"}
        box.shows("1", "127.0.0.1,127.0.0.2")
        python = str(box.path / "python/python3")
        command = [box.launch, python, "-S", "-c", PROGRAM, str(listens)]
        self.process: subprocess.Popen[str] = box.start(command, DI_RANK="0", **self.env)

    def is_ready(self) -> bool:
        return is_open(self.asked)

    def begins(self) -> None:
        """Let the program listen."""
        self.tell()
        assert line(self.process) == "listens"
        until_true("the rank is ready", self.is_ready)

    def tell(self) -> None:
        assert self.process.stdin
        self.process.stdin.write("\n")
        self.process.stdin.flush()


@pytest.fixture
def rank(box: Box) -> Iterator[Rank]:
    rank = Rank(box)
    yield rank
    if rank.process.poll() is None:
        end(rank.process)


def test_c23_a_rank_is_ready_once_its_program_listens(rank: Rank, box: Box) -> None:
    """C23: the result is the same as with a probe of the program's own port."""
    until_true("the launcher looks", lambda: (box.path / "launch.lock").exists())
    assert not rank.is_ready()
    rank.begins()
    assert end(rank.process)[0] == 1  # when its stdin is closed


def test_c23_a_rank_without_its_peers_is_not_ready_until_they_have_come(rank: Rank) -> None:
    """C23: the file of dijob_runtime exists as long as peers are missing."""
    rank.begins()
    rank.file.write_text("rank 0\n")
    until_true("the rank is not ready", lambda: not rank.is_ready())
    rank.file.unlink()
    until_true("the rank is ready again", rank.is_ready)


def test_c23_files_of_an_earlier_start_are_removed(box: Box) -> None:
    """C23: the directory outlives the container."""
    (box.path / "without-peers-0").write_text("rank 1\n")
    rank = Rank(box)
    rank.begins()
    end(rank.process)


def test_c23_a_second_launcher_in_the_container_answers_nothing(rank: Rank, box: Box) -> None:
    """C23: `kubectl exec POD -- /run/dijob/bin/launch bash` has the same environment."""
    rank.begins()
    rank.file.write_text("rank 0\n")
    until_true("the rank is not ready", lambda: not rank.is_ready())
    wait = ["sh", "-c", "sleep 1"]
    assert box.run([box.launch, *wait], DI_RANK="0", **rank.env)[0] == 0
    assert not rank.is_ready()


def test_c23_without_a_probe_nothing_listens(box: Box) -> None:
    """C23: the template of such a pod has its own probe."""
    box.shows("1", "127.0.0.1")
    show = ["sh", "-c", "cat /proc/net/tcp"]
    env = {"DI_RANK": "0", "DI_POD_IP": "127.0.0.1"}
    rc, out, _ = box.run([*NET_NAMESPACE, box.launch, *show], **env)
    assert (rc, len(out.splitlines())) == (0, 1)
