"""How this operator treats DI-orchestrator's own manifests, and the fields of its spec and status
(docs/migration.md).
"""

from typing import Any

import pytest
from apiserver.theirs import ACCEPTED, FILES, GOBIGGER, NORMAL, REFUSED, Body, body, job
from dijob.api.parse import parse_job, parse_status
from dijob.api.problems import SpecError
from dijob.api.warnings import job_warnings
from dijob.core.members import gang_of
from dijob.core.observed.endings import ContainerEnding
from dijob.core.plan import Plan
from dijob.names import CleanPodPolicy, Topology
from samples import builders
from samples.builders import manifest, plan


def test_each_manifest_of_di_orchestrator_is_tested() -> None:
    assert sorted([*ACCEPTED, *REFUSED]) == FILES


@pytest.mark.parametrize("file", ACCEPTED)
def test_accepted(file: str) -> None:
    world, workers, topology, tasks = ACCEPTED[file]
    made = job(file)
    named = ", ".join(
        f"{pod_set.name} {pod_set.replicas}" for pod_set in made.pod_sets if pod_set.name
    )
    assert (made.spec.desired * made.workers, made.workers, made.topology, named) == (
        world,
        workers,
        topology,
        tasks,
    )
    assert job_warnings(made) == ()


@pytest.mark.parametrize("file", REFUSED)
def test_rejected_for_the_reason_in_its_name(file: str) -> None:
    field, words = REFUSED[file]
    with pytest.raises(SpecError) as caught:
        job(file)
    (problem,) = caught.value.problems
    assert problem.field == field
    assert words in problem.message


def test_a_task_without_a_name_is_named_after_its_type() -> None:
    made = job("v1.1.0/name-validate-without-name.yaml")
    assert [(pod_set.name, pod_set.type.value) for pod_set in made.pod_sets] == [
        ("learner", "learner"),
        ("evaluator", "evaluator"),
        ("collector", "collector"),
    ]
    assert manifest(made, 3)["metadata"]["name"] == "validate-task-without-name-collector-1"


@pytest.mark.parametrize(
    ("fields", "topology", "workers"),
    [
        pytest.param({}, Topology.STAR, 1, id="empty means star and 1"),
        pytest.param({"topology": "mesh"}, Topology.MESH, 1, id="topology"),
        pytest.param({"topology": "alone", "parallelWorkers": 3}, Topology.ALONE, 3, id="both"),
    ],
)
def test_engine_fields(fields: Body, topology: Topology, workers: int) -> None:
    made = job(GOBIGGER, engineFields=fields)
    assert (made.topology, made.workers) == (topology, workers)


# Values that DI-orchestrator accepts and this operator rejects, with the field and the message.
DIFFERENCES: dict[str, tuple[Body, str, str]] = {
    "minReplicas 0": ({"minReplicas": 0}, "spec.minReplicas", "at least 1"),
    "a negative backoffLimit": ({"backoffLimit": -1}, "spec.backoffLimit", "at least 0"),
    "another priority": ({"priority": "low"}, "spec.priority", "normal"),
    "another cleanPodPolicy": ({"cleanPodPolicy": "Never"}, "spec.cleanPodPolicy", "Running"),
    "0 workers": (
        {"engineFields": {"parallelWorkers": 0}},
        "spec.engineFields.parallelWorkers",
        "at least 1",
    ),
    "another topology": (
        {"engineFields": {"topology": "ring"}},
        "spec.engineFields.topology",
        "mesh",
    ),
    "a group that is no label": ({"group": "a b"}, "spec.group", "becomes a label"),
}


@pytest.mark.parametrize("row", DIFFERENCES)
def test_values_that_only_this_operator_rejects(row: str) -> None:
    spec, field, words = DIFFERENCES[row]
    with pytest.raises(SpecError) as caught:
        job(GOBIGGER, **spec)
    (problem,) = caught.value.problems
    assert problem.field == field
    assert words in problem.message


TASKS: dict[str, tuple[Body, str, str]] = {
    "0 replicas": ({"replicas": 0}, "spec.tasks[0].replicas", "at least 1"),
    "another type": ({"type": "actor"}, "spec.tasks[0].type", "learner"),
    "a name with capitals": ({"name": "Learner"}, "spec.tasks[0].name", "must match"),
}


@pytest.mark.parametrize("row", TASKS)
def test_tasks_that_only_this_operator_rejects(row: str) -> None:
    change, field, words = TASKS[row]
    made = body(NORMAL)
    made["spec"]["tasks"][0] |= change
    with pytest.raises(SpecError) as caught:
        parse_job(made)
    assert [(problem.field, words in problem.message) for problem in caught.value.problems] == [
        (field, True)
    ]


@pytest.mark.parametrize(
    ("spec", "wish"),
    [
        pytest.param({}, 5, id="maxReplicas, where 1.0 ran minReplicas"),
        pytest.param({"replicas": 2}, 2, id="replicas takes precedence"),
    ],
)
def test_the_number_of_pods_of_a_job_of_1_0(spec: Body, wish: int) -> None:
    assert job(GOBIGGER, **spec).spec.desired == wish


@pytest.mark.parametrize("preemptible", [True, False])
def test_exit_code_143_does_not_count_in_a_preemptible_job(preemptible: bool) -> None:
    made = builders.job(preemptible=preemptible, backoffLimit=0)
    killed = {"phase": "Failed", "failures": 1, "last_end": ContainerEnding(143, 15, "Error", "")}
    seen = builders.observed(
        *(builders.listed(rank, owner=made, **(killed if rank == 1 else {})) for rank in range(3))
    )
    assert plan(made, seen, builders.NOW).status.ended is not preemptible


def _theirs(phase: str, **more: Any) -> Body:
    """Return the status of a job as DI-orchestrator 1.1 writes it."""
    time = "2022-07-01T08:00:00Z"
    condition = {"type": phase, "status": "True", "reason": f"Job{phase}", "message": "m"}
    return {
        "phase": phase,
        "conditions": [{**condition, "lastUpdateTime": time, "lastTransitionTime": time}],
        "completionTimestamp": time,
        "replicas": 4,
        "readyReplicas": 0,
        "restarts": 1,
        "reschedules": 2,
        "profilings": {},
        "allocation": ["node-a"],
        **more,
    }


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
@pytest.mark.parametrize("policy", list(CleanPodPolicy))
def test_a_job_that_ended_under_di_orchestrator_stays_ended(
    phase: str, policy: CleanPodPolicy
) -> None:
    made = body(NORMAL)
    made["spec"]["cleanPodPolicy"] = policy.value
    made["status"] = _theirs(phase)
    decided = plan(parse_job(made), builders.observed(), builders.NOW)
    assert (decided.status.phase, decided.actions, decided.status.restarts) == (phase, (), 1)


def test_a_status_of_1_0_is_readable() -> None:
    # Its HTTP API decreased status.replicas without a check, so the value can be negative.
    seen = parse_status({"status": _theirs("Succeeded", generation=3, replicas=-1)})
    assert seen.ended
    # The field has another name in 1.0, so the TTL does not apply to such a job.
    assert seen.completion_time is None


def test_the_status_counts_pods_by_task_and_phase() -> None:
    made = job()
    names = [member.name for member in gang_of(made).members]
    pods = [builders.view(rank, name=name, phase="Running") for rank, name in enumerate(names)]
    decided: Plan = plan(made, builders.observed(*pods), builders.NOW)
    assert decided.status.task_status == {
        "learner": {"Running": 1},
        "evaluator": {"Running": 1},
        "collector": {"Running": 2},
    }
