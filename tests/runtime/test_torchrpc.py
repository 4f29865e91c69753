"""The parts of torchrpc that do not need torch: discovery of peers, and options for GPUs."""

import json
import socket
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from cluster.waiting import until_true
from dijob_runtime.torchrpc.devices import Link, device_map, find_misfit, misfit_of_peer, parse_gpus
from dijob_runtime.torchrpc.neighbours import Card, Neighbours, interface_of
from ports import free_port


class Process:
    """A process with its discovered peers."""

    def __init__(self, node: int, life: str = "first") -> None:
        self.card = Card(node, f"uv://127.0.0.1:{node}", f"{node}-{life}", gpus=node)
        self.here: set[Card] = set()
        self.said: list[str] = []
        self.neighbours = Neighbours(self.card, self.here.add, self.here.remove, self.said.append)

    def start(self, port: int, *dial: int) -> "Process":
        self.neighbours.start(
            f"tcp://127.0.0.1:{port}", [f"tcp://127.0.0.1:{other}" for other in dial]
        )
        return self


@pytest.fixture
def process() -> Iterator[Callable[..., Process]]:
    made: list[Process] = []

    def make(*args: Any) -> Process:
        made.append(Process(*args))
        return made[-1]

    yield make
    for one in made:
        one.neighbours.stop()


Make = Callable[..., Process]


def test_both_ends_of_a_connection_know_each_other(process: Make) -> None:
    first, second = free_port(), free_port()
    a, b = process(0).start(first), process(1).start(second, first)
    until_true("both know each other", lambda: (a.here, b.here) == ({b.card}, {a.card}))


def test_a_peer_that_starts_later_is_dialed_until_it_answers(process: Make) -> None:
    late, other = free_port(), free_port()
    b = process(1).start(other, late)
    time.sleep(0.1)
    a = process(0).start(late)
    until_true("both know each other", lambda: (a.here, b.here) == ({b.card}, {a.card}))


def test_a_peer_that_leaves_is_noticed_at_once_and_returns_as_another(process: Make) -> None:
    first, second = free_port(), free_port()
    a, b = process(0), process(1).start(second, first)
    a.start(first)
    until_true("it has come", lambda: b.here == {a.card})
    a.neighbours.stop()
    until_true("it has gone", lambda: not b.here)
    again = process(0, "second").start(first)
    until_true("it has come back", lambda: b.here == {again.card})
    assert again.card != a.card


def test_two_that_dial_each_other_are_one_peer(process: Make) -> None:
    first, second = free_port(), free_port()
    a, b = process(0).start(first, second), process(1).start(second, first)
    until_true("both know each other", lambda: (a.here, b.here) == ({b.card}, {a.card}))
    a.neighbours.stop()
    until_true("it has gone", lambda: not b.here)


def test_a_peer_that_could_not_join_is_tried_again(process: Make) -> None:
    """R15: such a peer counted as connected, but never joined."""
    first, second = free_port(), free_port()
    a, failures = process(0), [RuntimeError("no room"), ValueError("no room")]

    def join(card: Card) -> None:
        if failures:
            raise failures.pop()
        a.here.add(card)

    a.neighbours._joined = join
    a.start(first)
    b = process(1).start(second, first)
    until_true("it has joined", lambda: a.here == {b.card})
    assert a.said == ["node 1 cannot join, retrying: no room"]
    b.neighbours.stop()
    until_true("it has gone", lambda: not a.here)


@pytest.mark.parametrize(
    "words",
    [b"", b"GET / HTTP/1.0\r\n", b"[1]\n", b'{"node": 1}\n', b"x" * 9000],
    ids=["", "http", "list", "part", "long"],
)
def test_a_connection_that_is_not_from_a_peer_is_closed(process: Make, words: bytes) -> None:
    port = free_port()
    a = process(0).start(port)
    with socket.create_connection(("127.0.0.1", port), 5) as link:
        link.sendall(words)
        link.shutdown(socket.SHUT_WR)
        answer = b""
        while part := link.recv(4096):
            answer += part
    assert json.loads(answer)["node"] == 0
    assert not a.here


def test_a_port_that_is_taken_is_an_error(process: Make) -> None:
    port = free_port()
    process(0).start(port)
    with pytest.raises(OSError, match="address already in use"):
        process(1).start(port)


def test_the_interface_that_has_an_address() -> None:
    assert interface_of("127.0.0.1") == "lo"
    assert interface_of("203.0.113.9") == ""


@pytest.mark.parametrize(
    ("text", "links"),
    [("", ()), ("1_0_1,2_0_2, 0_0_0", (Link(1, 0, 1), Link(2, 0, 2), Link(0, 0, 0)))],
)
def test_a_device_map_as_the_page_writes_it(text: str, links: tuple[Link, ...]) -> None:
    assert device_map(text) == links


@pytest.mark.parametrize("text", ["1_0", "a_0_1", "1_0_1;2_0_2", "1_0_1_1"])
def test_an_invalid_device_map_is_rejected(text: str) -> None:
    with pytest.raises(
        ValueError, match=r"--cuda-device-map: .* is not <peer node id>_<local gpu>_<peer gpu>"
    ):
        device_map(text)


@pytest.mark.parametrize("text", ["a", "²", "1_0"])
def test_gpus_are_numbers(text: str) -> None:
    assert parse_gpus("0, 2") == (0, 2)
    with pytest.raises(ValueError, match=f"'{text}' is not a GPU number"):
        parse_gpus(f"0,{text}")


@pytest.mark.parametrize(
    ("links", "words"),
    [
        ([Link(1, 0, 3)], ""),
        (
            [Link(1, 2, 0)],
            "--cuda-device-map 1_2_0 names local GPU 2, but this process has 2 in total",
        ),
        (
            [Link(4, 0, 0)],
            "--cuda-device-map 4_0_0 names node 4, but the job's node ids are 0 to 3",
        ),
    ],
)
def test_a_device_map_that_does_not_fit(links: list[Link], words: str) -> None:
    assert find_misfit(links, 2, 4) == words


def test_a_peer_that_has_too_few_gpus() -> None:
    assert misfit_of_peer([Link(1, 0, 0)], 1, 1) == ""
    assert misfit_of_peer([Link(2, 0, 9)], 1, 1) == ""
    assert (
        misfit_of_peer([Link(1, 0, 1)], 1, 1)
        == "--cuda-device-map 1_0_1 names GPU 1 of node 1, which has 1 in total"
    )


def test_a_peer_that_takes_no_tensors_on_the_gpu_that_the_map_names() -> None:
    assert misfit_of_peer([Link(1, 0, 1)], 1, 2, (0, 1)) == ""
    named = "--cuda-device-map 1_0_1 names GPU 1 of node 1, which accepts tensors only on"
    assert misfit_of_peer([Link(1, 0, 1)], 1, 2, (0,)) == f"{named} GPU 0"
    assert misfit_of_peer([Link(1, 0, 1)], 1, 2, ()) == f"{named} the CPU"


@pytest.mark.parametrize(
    "second", [Link(1, 0, 1), Link(1, 1, 0)], ids=["from one GPU", "to one GPU"]
)
def test_two_links_of_one_gpu_to_one_peer(second: Link) -> None:
    assert find_misfit([Link(1, 0, 0), Link(2, 0, 0), Link(1, 0, 0)], 2, 4) == ""
    words = f"--cuda-device-map 1_{second.local}_{second.remote} names a GPU that another link"
    assert find_misfit([Link(1, 0, 0), second], 2, 4).startswith(words)
