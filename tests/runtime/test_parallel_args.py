"""The arguments that a user's script passes to Parallel.runner are those that ditask would pass."""

from collections.abc import Mapping
from pathlib import Path

import pytest
from dijob_runtime import NotReachable, PodWorld, parallel_args, world

MESH = {
    "DI_NODES": "10.0.0.1,10.0.0.2,10.0.0.3",
    "DI_RANK": "2",
    "DI_PARALLEL_WORKERS": "2",
    "DI_TOPOLOGY": "mesh",
}


@pytest.fixture(autouse=True)
def outside(monkeypatch: pytest.MonkeyPatch) -> None:
    """Remove all variables of a DIJob from the environment of the tests."""
    for name in (
        "DI_NODES",
        "DI_RANK",
        "DI_PARALLEL_WORKERS",
        "DI_TOPOLOGY",
        "DI_LABELS",
        "DI_MQ_TYPE",
    ):
        monkeypatch.delenv(name, raising=False)


def put(monkeypatch: pytest.MonkeyPatch, env: Mapping[str, str]) -> None:
    for name, value in env.items():
        monkeypatch.setenv(name, value)


def test_as_ditask_in_a_mesh(monkeypatch: pytest.MonkeyPatch) -> None:
    """The expected values are those that k8s_parser.py of ding 0.5.3 passes to _cli_ditask for rank
    2, and that _cli_ditask passes to Parallel.runner.
    """
    put(monkeypatch, MESH)
    assert parallel_args() == {
        "n_parallel_workers": 2,
        "mq_type": "nng",
        "topology": "mesh",
        "labels": None,
        "node_ids": [4, 5],
        "protocol": "tcp",
        "address": "10.0.0.3",
        "ports": 50515,
        "attach_to": [
            "tcp://10.0.0.1:50515",
            "tcp://10.0.0.1:50516",
            "tcp://10.0.0.2:50515",
            "tcp://10.0.0.2:50516",
        ],
    }


@pytest.mark.parametrize(
    ("env", "attached"),
    [
        ({"DI_RANK": "0"}, []),
        ({"DI_TOPOLOGY": "star"}, ["tcp://10.0.0.1:50515", "tcp://10.0.0.1:50516"]),
        ({"DI_TOPOLOGY": "star", "DI_RANK": "0"}, []),
        ({"DI_TOPOLOGY": "alone"}, []),
        (
            {"DI_NODES": "fd00::1,fd00::2", "DI_RANK": "1", "DI_PARALLEL_WORKERS": "1"},
            ["tcp://[fd00::1]:50515"],
        ),
        (
            {"DI_NODES": "[fd00::1],[fd00::2]", "DI_RANK": "1", "DI_PARALLEL_WORKERS": ""},
            ["tcp://[fd00::1]:50515"],
        ),
    ],
    ids=["rank-0", "star", "hub", "alone", "IPv6", "brackets-already"],
)
def test_which_addresses_are_dialed(
    monkeypatch: pytest.MonkeyPatch, env: dict[str, str], attached: list[str]
) -> None:
    put(monkeypatch, MESH | env)
    assert parallel_args()["attach_to"] == attached


def test_outside_a_dijob_it_is_one_machine() -> None:
    assert parallel_args() == {"n_parallel_workers": 1}
    assert parallel_args(n_parallel_workers=4, topology="star") == {
        "n_parallel_workers": 4,
        "topology": "star",
    }


def test_given_arguments_take_precedence(monkeypatch: pytest.MonkeyPatch) -> None:
    put(monkeypatch, {**MESH, "DI_LABELS": "learner, gpu"})
    found = parallel_args(topology="alone", ports=6000)
    assert (found["topology"], found["ports"], found["labels"]) == (
        "alone",
        6000,
        {"learner", "gpu"},
    )
    assert found["attach_to"] == []


def test_values_that_are_derived_from_given_arguments(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Every rank runs the same script, so each has this number of workers on these ports."""
    put(monkeypatch, MESH)
    found = parallel_args(n_parallel_workers=1, topology="star", ports=6000)
    assert (found["n_parallel_workers"], found["node_ids"]) == (1, [2])
    assert (found["ports"], found["attach_to"]) == (6000, ["tcp://10.0.0.1:6000"])
    said = capsys.readouterr().err
    assert "n_parallel_workers=1, but the job has 2: set spec.parallelWorkers to the same" in said
    assert "topology='star', but the job has 'mesh': set spec.topology to the same" in said


# The arguments of DI-engine's runner (ding 0.5.3, ding/framework/parallel.py).
ARGUMENTS = (
    "n_parallel_workers",
    "mq_type",
    "attach_to",
    "protocol",
    "address",
    "ports",
    "topology",
    "labels",
    "node_ids",
    "auto_recover",
    "max_retries",
    "redis_host",
    "redis_port",
    "startup_interval",
)


@pytest.mark.parametrize("name", ARGUMENTS)
@pytest.mark.parametrize(
    "env",
    [{}, MESH, {**MESH, "DI_MQ_TYPE": "redis", "DI_LABELS": "learner"}],
    ids=["outside", "nng", "redis"],
)
def test_none_is_as_good_as_not_given(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    env: Mapping[str, str],
    name: str,
) -> None:
    """A script passes its own options on, with DI-engine's own defaults."""
    put(monkeypatch, env)
    assert parallel_args(**{name: None}) == parallel_args()
    assert capsys.readouterr().err == ""


def test_a_rank_that_dials_no_other_gets_an_empty_list(monkeypatch: pytest.MonkeyPatch) -> None:
    put(monkeypatch, MESH)
    assert parallel_args(attach_to=[])["attach_to"] == []


def test_ports_that_the_peers_cannot_know_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    put(monkeypatch, MESH)
    for ports in [6000, 7000], [6000, 6001, 6002], [6001, 6000], [6000]:
        with pytest.raises(ValueError, match=rf"pass only the first port: {ports[0]}$"):
            parallel_args(ports=ports)
    given = parallel_args(ports=[6000, 7000], attach_to=["tcp://10.0.0.1:6000"])
    assert (given["ports"], given["attach_to"]) == ([6000, 7000], ["tcp://10.0.0.1:6000"])


def test_a_list_of_the_ports_of_all_workers_is_its_first_port(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    put(monkeypatch, MESH)
    assert parallel_args(ports=[6000, 6001]) == parallel_args(ports=6000)


def test_with_another_queue_no_rank_is_dialed(monkeypatch: pytest.MonkeyPatch) -> None:
    put(
        monkeypatch,
        {**MESH, "DI_MQ_TYPE": "redis", "DI_REDIS_HOST": "10.0.0.9", "DI_REDIS_PORT": "6379"},
    )
    found = parallel_args()
    assert (found["mq_type"], found["redis_host"], found["redis_port"]) == (
        "redis",
        "10.0.0.9",
        6379,
    )
    assert found["node_ids"] == [4, 5]
    assert "attach_to" not in found


@pytest.mark.parametrize(
    ("env", "words"),
    [
        ({"DI_RANK": ""}, "DI_RANK is ''"),
        ({"DI_RANK": "3"}, "DI_RANK is 3, but DI_NODES has 3 addresses"),
        ({"DI_PARALLEL_WORKERS": "two"}, "DI_PARALLEL_WORKERS is 'two'"),
        ({"DI_PARALLEL_WORKERS": "²"}, "DI_PARALLEL_WORKERS is '²'"),
        ({"DI_NODES": ""}, "DI_NODES is empty"),
    ],
    ids=["no-rank", "no-such-rank", "workers", "superscript", "no-list"],
)
def test_an_invalid_variable_is_named(env: dict[str, str], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        PodWorld.read(MESH | env)


@pytest.fixture
def reach(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Replaces the launcher's `reach`. It writes its arguments to the file `asked` next to it, and
    exits with the code in $CODE.
    """
    program = tmp_path / "reach"
    program.write_text(f'#!/bin/sh\necho "$*" >{tmp_path}/asked\nexit $CODE\n')
    program.chmod(0o755)
    monkeypatch.setattr(world, "REACH", program)
    return program


QUEUE = {"DI_MQ_TYPE": "redis", "DI_REDIS_HOST": "10.0.0.9", "DI_REDIS_PORT": "7000"}


@pytest.mark.parametrize(
    ("env", "asked"),
    [(MESH, "mesh 50515 2\n"), ({**MESH, **QUEUE}, "redis 10.0.0.9 7000\n")],
    ids=["mesh", "redis"],
)
@pytest.mark.parametrize("code", [0, 3, 2], ids=["reached", "not reached", "broken"])
def test_it_waits_until_the_dialed_addresses_can_be_reached(
    monkeypatch: pytest.MonkeyPatch, reach: Path, env: dict[str, str], asked: str, code: int
) -> None:
    """The launcher's `reach` makes the check, as for ditask, and logs the unreachable ranks. If the
    check itself fails, the program continues.
    """
    put(monkeypatch, {**env, "CODE": str(code)})
    if code == 3:
        with pytest.raises(NotReachable):
            parallel_args()
    else:
        parallel_args()
    assert reach.with_name("asked").read_text() == asked


@pytest.mark.parametrize("how", ["switched off", "not there", "cannot run"])
def test_no_address_is_checked(monkeypatch: pytest.MonkeyPatch, reach: Path, how: str) -> None:
    put(monkeypatch, {**MESH, "CODE": "3"})
    if how == "switched off":
        monkeypatch.setenv("DIJOB_REACH_SECONDS", "0")
    elif how == "not there":
        reach.unlink()
    else:
        reach.chmod(0o644)
    parallel_args()
    assert not reach.with_name("asked").exists()
