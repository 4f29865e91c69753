"""The processes for which a process waits before its program starts."""

import threading
from pathlib import Path
from types import SimpleNamespace

import pytest
from dijob_runtime.hook import connected, kept
from dijob_runtime.hook.connected import PLACEHOLDER, select_peers
from dijob_runtime.world import PodWorld

Processes = set[tuple[int, int]]


def world(topology: str, rank: int, worker: int, **more: str) -> PodWorld:
    """Return the world of one process in a job of three pods with two workers each."""
    return PodWorld(rank, ("a", "b", "c"), 2, topology, worker=worker, **more)  # type: ignore[arg-type]


ALL = {(rank, worker) for rank in range(3) for worker in range(2)}


@pytest.mark.parametrize(
    ("place", "wanted"),
    [
        (world("mesh", 1, 0), ALL - {(1, 0)}),
        (world("alone", 1, 0), set()),
        (world("star", 0, 0), ALL - {(0, 0)}),
        (world("star", 0, 1), {(0, 0), (1, 0), (1, 1), (2, 0), (2, 1)}),
        (world("star", 2, 0), {(2, 1), (0, 0), (0, 1)}),
        (world("star", 2, 1), {(2, 0), (0, 0), (0, 1)}),
        (world("star", 2, 1, mq_type="redis"), ALL - {(2, 1)}),
    ],
    ids=["mesh", "alone", "hub", "beside the hub", "leaf", "beside a leaf", "redis"],
)
def test_the_topology_determines_the_connections(place: PodWorld, wanted: Processes) -> None:
    assert select_peers(place) == wanted


def test_both_ends_of_a_connection_wait_for_it() -> None:
    for topology in ("mesh", "star"):
        for rank, worker in ALL:
            for other in select_peers(world(topology, rank, worker)):
                assert (rank, worker) in select_peers(world(topology, *other)), (
                    topology,
                    rank,
                    other,
                )


def test_a_rank_that_has_succeeded_is_not_waited_for() -> None:
    place = PodWorld(0, ("a", PLACEHOLDER, "c"), 1, "mesh")
    assert select_peers(place) == {(2, 0)}


class Queue:
    """A message queue whose peers connect when the test says so."""

    def __init__(self) -> None:
        self.here = False

    def missing(self, _world: PodWorld, _wanted: Processes) -> set[int]:
        return set() if self.here else {0}


@pytest.fixture
def lacking(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """The file in which process 1, of rank 1 of two, reports missing peers."""
    for name, value in {"DI_NODES": "a,b", "DI_RANK": "1", "DIJOB_CONNECT_SECONDS": "0.1"}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(connected, "LACKING", tmp_path / "without-peers")
    monkeypatch.setattr(connected, "LATE_LOOK_SECONDS", 0.01)
    return tmp_path / "without-peers-1"


def test_c23_a_program_that_begins_without_a_rank_tells_the_launcher_until_it_comes(
    lacking: Path,
) -> None:
    """C23: as long as the file exists, the launcher keeps the rank not Ready."""
    over = threading.Event()
    listener = threading.Thread(target=over.wait, daemon=True)
    listener.start()
    router = SimpleNamespace(_mq=Queue(), _listener=listener, node_id=1)
    before = set(threading.enumerate())
    connected.wait_until_connected(router)
    assert lacking.read_text() == "rank 0\n"
    router._mq.here = True
    for thread in set(threading.enumerate()) - before:
        thread.join(20)
    assert not lacking.exists()
    over.set()


def test_c23_a_program_with_its_own_connections_has_no_missing_peers(
    lacking: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """C23: the program itself determines to which addresses it connects."""
    monkeypatch.setenv("DIJOB_OWN_WIRING", "1")
    router = SimpleNamespace(_mq=Queue(), _listener=threading.current_thread(), node_id=1)
    connected.wait_until_connected(router)
    assert not lacking.exists()


def test_a_program_does_not_wait_for_ranks_that_have_ended_the_task(
    lacking: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Rank 0 saw the connection, trained and ended the task while this process still imported its
    modules. Without this, the process would wait 120 s for a rank that never returns.
    """

    class Parallel:
        on = once = _handle_message = staticmethod(lambda *_: None)
        _mq, _listener, node_id = Queue(), threading.current_thread(), 1

    kept.patch(Parallel)
    router = Parallel()
    router._handle_message(kept.FINISH, b"")
    connected.wait_until_connected(router)
    assert not lacking.exists()
    assert "not waiting for rank 0: the task has already ended" in capsys.readouterr().err
