"""The patches of DI-engine's runner and queues, on test doubles with their interfaces (ding 0.5.3).
tests/e2e/test_runtimes.py tests them with DI-engine itself.
"""

import os
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from threading import Thread
from types import ModuleType, SimpleNamespace
from typing import Any, cast

import pytest
from dijob.cli.topology import sockets
from dijob_runtime.hook import distributer, nng, redis, task
from dijob_runtime.hook.kept import OWN_WIRING
from dijob_runtime.parallel import find_conflicts
from dijob_runtime.world import PodWorld
from runtime.standins import PubSub, di_engine, queue

MESH = {
    "DI_NODES": "10.0.0.1,10.0.0.2",
    "DI_RANK": "1",
    "DI_PARALLEL_WORKERS": "1",
    "DIJOB_REACH_SECONDS": "0",
}


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The environment of rank 1 of two. Changes are reverted after the test."""
    before = dict(os.environ)
    for name, value in MESH.items():
        monkeypatch.setenv(name, value)
    yield
    os.environ.clear()
    os.environ.update(before)


def test_a_plain_runner_dials_the_other_pods_with_its_own_number_of_workers(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("DIJOB_WORKERS_ASSUMED", "1")
    told = di_engine().Parallel.runner(2).told
    links = ["tcp://10.0.0.1:50515", "tcp://10.0.0.1:50516"]
    assert (told["protocol"], told["attach_to"]) == ("tcp", links)
    found = [os.environ[name] for name in ("DI_WORLD_SIZE", "DI_NODE_IDS", "DI_PARALLEL_WORKERS")]
    assert found == ["4", "2,3", "2"]
    assert OWN_WIRING not in os.environ
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("workers", [1, 3])
def test_the_number_of_processes_is_reported(
    workers: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """N1: if only the script states the number, `topology` and `doctor` read it in the pod."""
    monkeypatch.setenv("DIJOB_WORKERS_ASSUMED", "1")
    monkeypatch.setattr("dijob_runtime.parallel.WORKERS", tmp_path / "workers")
    di_engine().Parallel.runner(workers)
    assert sockets.parse_sockets((tmp_path / "workers").read_text()).workers == workers


def test_conflicting_arguments_are_logged_and_reported_to_the_launcher(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    told_launcher = tmp_path / "says-otherwise"
    monkeypatch.setattr("dijob_runtime.parallel.OTHERWISE", told_launcher)
    assert di_engine().Parallel.runner(2).told["n_parallel_workers"] == 2
    sentence = "n_parallel_workers=2, but the job has 1: set spec.parallelWorkers to the same value"
    assert (
        f"dijob: WARNING: the program's arguments conflict with the job: {sentence}"
        in capsys.readouterr().err
    )
    assert told_launcher.read_text() == sentence + "\n"


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"topology": "mesh", "mq_type": "nng"}, []),
        ({"topology": "star"}, ["topology='star', but the job has 'mesh'"]),
        ({"mq_type": "redis"}, ["mq_type='redis', but the job has 'nng'"]),
    ],
    ids=["the same", "topology", "queue"],
)
def test_arguments_that_conflict_with_the_job(given: dict[str, Any], said: list[str]) -> None:
    world = PodWorld(1, ("a", "b"), 1, "mesh")
    assert [each.partition(":")[0] for each in find_conflicts(world, given)] == said


def test_arguments_without_an_effect_are_not_a_conflict() -> None:
    assert find_conflicts(PodWorld(0, ("a",), 1, "mesh"), {"topology": "star"}) == []
    torchrpc = PodWorld(0, ("a", "b"), 1, "mesh", mq_type="torchrpc")
    assert find_conflicts(torchrpc, {"mq_type": "torchrpc:cpu"}) == []


@pytest.mark.parametrize("given", [{"attach_to": ["tcp://other:1"]}, {"attach_to": []}])
def test_a_program_that_sets_its_own_peers_is_left_unchanged(given: dict[str, Any]) -> None:
    assert di_engine().Parallel.runner(1, **given).told["attach_to"] == given["attach_to"]
    assert os.environ[OWN_WIRING] == "1"


@pytest.mark.parametrize("name", ["mq_type", "attach_to", "protocol", "ports"])
def test_none_leaves_a_script_in_its_jobs_world(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    told = di_engine().Parallel.runner(1, **{name: None}).told
    assert (told["protocol"], told["attach_to"]) == ("tcp", ["tcp://10.0.0.1:50515"])
    assert OWN_WIRING not in os.environ
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("nodes", ["10.0.0.1,10.0.0.2", "job-0.job,job-1.job"])
def test_a_name_of_slurms_is_that_of_its_rank(nodes: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def look_up(host: str, _: None) -> list[Any]:
        address = {"job-0": "10.0.0.1", "job-0.job": "10.0.0.1"}.get(host, host)
        return [(None, None, None, "", (address, 0))]

    monkeypatch.setenv("DI_NODES", nodes)
    monkeypatch.setattr("socket.getaddrinfo", look_up)
    di_engine().Parallel.runner(1, attach_to=["tcp://job-0:15151"], ports=15151)
    assert OWN_WIRING not in os.environ


def test_ditask_passes_every_argument_itself() -> None:
    space = {"Parallel": di_engine().Parallel, "__name__": "ding.entry.cli_ditask"}
    given = "n_parallel_workers=1, attach_to=['tcp://10.0.0.1:50515'], protocol='tcp'"
    exec(f"told = Parallel.runner({given})", space)
    assert space["told"].told["protocol"] == "tcp"
    assert OWN_WIRING not in os.environ


def test_outside_a_job_nothing_is_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in MESH:
        monkeypatch.delenv(name)
    assert di_engine().Parallel.runner(3).told["protocol"] == "ipc"


@pytest.mark.parametrize(
    ("mq", "late"),
    [
        (queue("a", "c"), set()),
        (queue("a"), {2}),
        (queue(), {0, 2}),
        (queue("name", dials=0), {0, 2}),
    ],
    ids=["all", "one is late", "nobody yet", "of addresses that the list does not have"],
)
def test_missing_connections_are_named_by_rank(mq: Any, late: set[int]) -> None:
    world = PodWorld(1, ("a", "b", "c"), 1, "mesh")
    assert nng.find_missing_ranks(mq, world, {(0, 0), (2, 0)}) == late


def test_a_program_with_its_own_connections_waits_for_those_that_it_dials() -> None:
    world = PodWorld(1, ("a", "b"), 1, "mesh")
    assert nng.find_missing_ranks(queue(dials=1), world, set()) == {0}
    assert nng.find_missing_ranks(queue("z", dials=1), world, set()) == set()


@pytest.mark.parametrize("heard", [False, True], ids=["the first", "whom another has told"])
def test_the_end_of_the_task_is_repeated_until_all_peers_have_left(
    heard: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """DI-engine stops a queue a second time when it is garbage collected (nng.py, __del__)."""

    class Queue:
        dijob_finish_heard = False

        def __init__(self) -> None:
            self._running, self._sock, self.said = True, queue("a", "b")._sock, list[str]()

        def publish(self, topic: str, data: bytes) -> None:
            self.said.append(topic)
            if len(self.said) > 1:  # a peer has received it and leaves
                self._sock.pipes.pop()

        def stop(self) -> None:
            self._running, self._sock = False, None

    module: Any = SimpleNamespace(NNGMQ=Queue, Bus0=object)
    nng.patch(module)
    monkeypatch.setattr(nng, "SAY_AGAIN_SECONDS", 0.0)
    mq = Queue()
    mq.dijob_finish_heard = heard
    mq.publish("task.finish", b"true")
    for _ in range(2):
        mq.stop()
    assert mq.said == ["task.finish"] * (1 if heard else 3)


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (None, "finish"),
        (SystemExit(0), "finish"),
        (SystemExit(1), "finish here"),
        (ValueError("x"), "finish here"),
        (distributer.Ended(), "finish"),
    ],
    ids=["its end", "sys.exit(0)", "sys.exit(1)", "an exception", "a wait that was given up"],
)
def test_a_process_that_fails_does_not_end_the_others(
    error: BaseException | None, said: str
) -> None:
    """ding 0.5.3, ding/framework/task.py: __exit__ calls stop, which emits the event for the
    end of the task.
    """
    told: list[str] = []

    class Task:
        def emit(self, event: str, *_: Any, only_local: bool = False) -> None:
            told.append(f"{event} here" if only_local else event)

        def __enter__(self) -> "Task":
            return self

        def __exit__(self, *_: Any) -> None:
            self.emit("finish", True)

    task.patch(cast(ModuleType, SimpleNamespace(Task=Task)))
    running = Task()
    with suppress(BaseException), running:
        if error:
            raise error
    running.emit("later")
    assert told == [said, "later"]


@pytest.mark.parametrize("ended", [False, True], ids=["runs", "was ended"])
def test_a_step_waits_for_others_as_long_as_the_task_runs(
    ended: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """ding 0.5.3, ding/framework/middleware/distributer.py: a loop that sleeps."""
    monkeypatch.setattr(distributer, "GRACE_SECONDS", 0.0)

    class Task:
        finish = ended

        def run(self, waits: int) -> None:
            for _ in range(waits):
                module.sleep(0.001)
            self.waited = waits

    module: Any = SimpleNamespace(task=Task(), sleep=time.sleep)
    distributer.patch(module)
    module.task.run(5)
    assert hasattr(module.task, "waited") == (not ended)


def test_a_context_exchanger_takes_complete_messages_and_loses_none() -> None:
    """ding 0.5.3, ContextExchanger: the router's thread adds the fields of messages to a dict, over
    which a step iterates.
    """

    class ContextExchanger:
        def __init__(self) -> None:
            self._state: Any = {}

        def put(self, payload: dict[str, int]) -> None:
            for field, value in payload.items():
                self._state[field] = self._state.get(field, 0) + value
                time.sleep(0)

        def merge(self) -> dict[str, int]:
            merged = {}
            for field, value in self._state.items():
                merged[field] = value
                time.sleep(0)
            self._state = {}
            return merged

    class Task:
        def run(self) -> None:
            """Run the task."""

    module: Any = SimpleNamespace(task=Task(), sleep=time.sleep, ContextExchanger=ContextExchanger)
    distributer.patch(module)
    one, other, messages = ContextExchanger(), ContextExchanger(), 300

    def receive() -> None:
        for _ in range(messages):
            one.put({"env_step": 1, "trajectories": 1})

    router = Thread(target=receive)
    router.start()
    steps: list[dict[str, int]] = []
    while router.is_alive():
        steps.append(one.merge())
    router.join()
    steps.append(one.merge())
    assert all(step["env_step"] == step["trajectories"] for step in steps if step)
    assert sum(step.get("trajectories", 0) for step in steps) == messages
    assert other.merge() == {}


SAID = b"0123456789abcdef0123456789abcdef::hello"


@pytest.mark.parametrize(
    ("messages", "heard"),
    [
        ([("pmessage", b"a", SAID)], [SAID]),
        ([("message", b"a", SAID), ("pmessage", b"a", SAID)], [SAID, None]),
        ([("pmessage", b"a", b"of another program")], [None]),
        ([("message", b"a", b"odd")], [b"odd"]),
    ],
    ids=["before its listener", "once", "of others", "subscribed to"],
)
def test_each_message_is_received_once(messages: Any, heard: list[bytes | None]) -> None:
    found = redis.Subscriptions(PubSub(*messages))
    said = [found.get_message() for _ in messages]
    assert [one and one["data"] for one in said] == heard


def test_after_a_while_only_subscribed_events_are_received(monkeypatch: pytest.MonkeyPatch) -> None:
    pubsub = PubSub()
    found = redis.Subscriptions(pubsub)
    now = time.monotonic() + redis.HEARS_ALL_SECONDS + 1
    monkeypatch.setattr(time, "monotonic", lambda: now)
    for _ in range(3):
        found.get_message()
    assert pubsub.left == ["*"]
