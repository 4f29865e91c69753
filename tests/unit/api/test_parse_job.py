"""parse_job: the values and defaults that are read from a valid spec and status."""

from typing import Any

import pytest
from dijob import names
from dijob.api.parse import parse_job
from dijob.names import Topology
from samples.builders import job
from samples.specs import Body, body, named, with_command, with_pod


@pytest.mark.parametrize(
    ("spec", "sizes"),
    [
        pytest.param({"replicas": 4}, (4, 4, 4), id="replicas alone means all three"),
        pytest.param({"minReplicas": 4}, (4, 4, 4), id="minReplicas alone"),
        pytest.param({"maxReplicas": 4}, (4, 4, 4), id="maxReplicas alone"),
        pytest.param({"minReplicas": 2, "maxReplicas": 4}, (2, 4, 4), id="the wish is maxReplicas"),
        pytest.param(
            {"minReplicas": 2, "maxReplicas": 4, "replicas": 3}, (2, 3, 4), id="all three"
        ),
        pytest.param({"maxReplicas": 4, "replicas": 3}, (3, 3, 4), id="no minimum"),
        pytest.param({"minReplicas": 2, "replicas": 3}, (2, 3, 3), id="no maximum"),
        pytest.param({"replicas": names.MAX_REPLICAS}, (1500, 1500, 1500), id="the largest"),
    ],
)
def test_sizes(spec: Body, sizes: tuple[int, int, int]) -> None:
    parsed = parse_job(body(**spec)).spec
    assert (parsed.minimum, parsed.desired, parsed.maximum) == sizes


@pytest.mark.parametrize(
    "manager",
    [
        pytest.param("kueue.x-k8s.io/multikueue", id="MultiKueue"),
        pytest.param(names.OWN_MANAGER, id="this operator"),
        pytest.param("a/" + 61 * "b", id="the longest"),
        pytest.param("example.com/A/b~c%20", id="a path with several parts"),
        pytest.param(None, id="null"),
    ],
)
def test_names_of_managers(manager: str | None) -> None:
    assert parse_job(body(managedBy=manager)).spec.managed_by == manager


@pytest.mark.parametrize("length", [1, 58])
def test_the_longest_and_shortest_names_are_accepted(length: int) -> None:
    assert parse_job(named("a" * length)).metadata.name == "a" * length


@pytest.mark.parametrize(
    ("line", "spec", "workers"),
    [
        pytest.param("ditask --parallel-workers 2", {}, 2, id="the command's"),
        pytest.param("ditask", {"parallelWorkers": 3}, 3, id="the field's"),
        pytest.param("ditask --parallel-workers 3", {"parallelWorkers": 3}, 3, id="equal"),
        pytest.param(
            "ditask --parallel-workers $N", {"parallelWorkers": 3}, 3, id="field beside a variable"
        ),
        pytest.param("ditask", {}, 1, id="DI-engine's default"),
        pytest.param("sleep 1", {}, 1, id="another program"),
    ],
)
def test_workers(line: str, spec: Body, workers: int) -> None:
    assert parse_job(with_command(line, **spec)).workers == workers


@pytest.mark.parametrize(
    ("line", "spec", "assumed"),
    [
        ("ditask", {}, False),
        ("ditask --parallel-workers 2", {}, False),
        ("python3 main.py", {"parallelWorkers": 1}, False),
        ("python3 main.py", {}, True),
        ("ditask --parallel-workers $N", {}, True),
        ("torchrun main.py", {}, True),
    ],
)
def test_whether_only_the_program_knows_its_processes(line: str, spec: Body, assumed: bool) -> None:
    """N1: Parallel.runner(n_parallel_workers=2) in the script."""
    assert parse_job(with_command(line, **spec)).workers_assumed is assumed


@pytest.mark.parametrize(
    ("line", "spec", "topology"),
    [
        pytest.param("ditask", {}, Topology.MESH, id="default"),
        pytest.param("ditask --topology star", {}, Topology.STAR, id="the command's wins"),
        pytest.param("ditask", {"topology": "star"}, Topology.STAR, id="the field's"),
        pytest.param("ditask --topology alone", {"topology": "alone"}, Topology.ALONE, id="equal"),
        pytest.param("ditask --topology $T", {}, Topology.MESH, id="a variable is not guessed"),
    ],
)
def test_topology(line: str, spec: Body, topology: Topology) -> None:
    assert parse_job(with_command(line, **spec)).topology is topology


def test_the_main_container_is_the_named_one_else_the_first() -> None:
    made = with_pod(
        containers=[{"name": "side", "command": ["x"]}, {"name": "di-container", "command": ["y"]}]
    )
    assert parse_job(made).pod_sets[0].main_container["command"] == ["y"]
    made["spec"]["template"]["spec"]["containers"][1]["name"] = "other"
    assert parse_job(made).pod_sets[0].main_container["command"] == ["x"]


@pytest.mark.parametrize(
    ("status", "read"),
    [
        pytest.param(
            {"phase": "Running", "listNumber": 3, "profilings": {}},
            {"phase": "Running", "listNumber": 3},
            id="unknown",
        ),
        pytest.param(
            {"replicas": {"a": 1}, "listNumber": 3}, {"listNumber": 3}, id="another shape"
        ),
        pytest.param(
            {"replicas": -1, "restarts": -2, "listNumber": 3}, {"listNumber": 3}, id="out of bounds"
        ),
        pytest.param(
            {"conditions": [{"type": "Failed"}], "listNumber": 3},
            {"listNumber": 3},
            id="something below it lacks",
        ),
        pytest.param(
            {"ready_replicas": -1, "listNumber": 3}, {"listNumber": 3}, id="our own name of it"
        ),
        pytest.param("Running", {}, id="text"),
        pytest.param(None, {}, id="null"),
    ],
)
def test_unreadable_fields_of_a_status_count_as_absent(status: object, read: Body) -> None:
    assert (
        parse_job(body() | {"status": status}).status.model_dump(
            by_alias=True, exclude_defaults=True
        )
        == read
    )


ABSURD: dict[str, dict[str, Any]] = {
    "number": {"listNumber": 2**53},
    "restarts": {"restarts": 2**31 - 1},
    "renewals": {"renewals": 2**31 - 1},
    "last list": {"lastRenewal": {"listNumber": 2**53}},
    "a charge": {"restartsSeen": [{"rank": 0, "uid": "u", "restarts": 2**31 - 1}]},
}


@pytest.mark.parametrize("forged", ABSURD.values(), ids=ABSURD)
def test_numbers_in_a_status_that_are_too_large_count_as_absent(forged: dict[str, Any]) -> None:
    seen = job(status={"phase": "Running", **forged}).status
    assert seen.phase == "Running"
    assert (
        seen.list_number,
        seen.restarts,
        seen.renewals,
        seen.last_renewal,
        seen.restarts_seen,
    ) == (
        0,
        0,
        0,
        None,
        (),
    )
