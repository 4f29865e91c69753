"""DI-orchestrator's own manifests, fields and names: what this operator makes of each
(docs/compatibility.md).
"""

import re
from pathlib import Path
from typing import Any

import pytest
from apiserver.theirs import ACCEPTED, FILES, GOBIGGER, NORMAL, REFUSED, body
from dijob import names
from dijob.api.model import DIJob
from dijob.api.parse import parse_job, stored
from dijob.api.problems import SpecError
from dijob.api.warnings import warnings
from dijob.core.decide.plan import Plan
from dijob.core.members import gang_of
from dijob.core.observed.containers import Ending
from dijob.core.options import Options
from dijob.core.render import service
from dijob.core.report.summary import ended
from dijob.names import CleanPodPolicy, Topology
from unit import builders
from unit.builders import manifest, plan, pod_env
from unit.launched import environment_of

Body = dict[str, Any]

ROOT = Path(__file__).parents[2]


def job(file: str = NORMAL, **spec: Any) -> DIJob:
    made = body(file)
    made["spec"] |= spec
    return parse_job(made)


def test_each_manifest_has_its_row() -> None:
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
    assert warnings(made) == ()


@pytest.mark.parametrize("file", REFUSED)
def test_refused_for_the_reason_in_its_name(file: str) -> None:
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


def test_labels_and_annotations_of_a_tasks_pod() -> None:
    meta = manifest(job(), 3)["metadata"]
    own = {key: value for key, value in meta["labels"].items() if key.startswith("diengine/")}
    assert meta["name"] == "normal-job-collector-1"
    assert own == {
        "diengine/operator": "di-operator",
        "diengine/group": "diengine",
        "diengine/job": "normal-job",
        "diengine/pod": "normal-job-collector-1",
        "diengine/rank": "3",
        "diengine/task-type": "collector",
        "diengine/task-name": "collector",
    }
    assert {
        key: value for key, value in meta["annotations"].items() if key.startswith("diengine/")
    } == {
        "diengine/replicas": "4",
        "diengine/rank": "3",
        "diengine/task-rank": "1",
    }


def test_labels_of_a_pod_without_task_and_group() -> None:
    meta = manifest(job(GOBIGGER, group=""), 1)["metadata"]
    assert meta["name"] == "gobigger-test-1"
    own = {key for key in meta["labels"] if key.startswith("diengine/")}
    assert own == {"diengine/operator", "diengine/job", "diengine/pod", "diengine/rank"}


def test_labels_of_the_template_are_kept() -> None:
    made = body(NORMAL)
    made["spec"]["tasks"][0]["template"]["metadata"] = {
        "labels": {"mine": "1"},
        "annotations": {"also": "2"},
    }
    meta = manifest(parse_job(made), 0)["metadata"]
    assert (meta["labels"]["mine"], meta["annotations"]["also"]) == ("1", "2")


def test_variables() -> None:
    pod = manifest(job(), 3)
    pod["metadata"]["annotations"] |= {
        names.ANNOTATION_IPS: "a,b,c,d",
        names.ANNOTATION_LIST_NUMBER: "1",
    }
    seen = environment_of(pod)
    assert (seen["DI_JOB_ID"], seen["DI_JOB_NAMESPACE"], seen["DI_JOB_NAME"]) == (
        "the-uid",
        "ns",
        "normal-job",
    )
    assert (seen["DI_RANK"], seen["DI_LABELS"]) == ("3", "collector")
    assert seen["DI_NODES"] == "a,b,c,d"
    # There only the pod's own task had its list.
    lists = {name: seen[name] for name in seen if re.fullmatch("DI_[A-Z]+(?<!NUM)_NODES", name)}
    assert lists == {
        "DI_LEARNER_NODES": "a",
        "DI_EVALUATOR_NODES": "b",
        "DI_COLLECTOR_NODES": "c,d",
    }


@pytest.mark.parametrize("file", [NORMAL, GOBIGGER])
@pytest.mark.parametrize(
    "name",
    [
        "DI_SERVER_URL",
        "DI_JOB_GENERATION",
        "DI_PARALLEL_WORKERS_ARG",
        "DI_PORTS_ARG",
        "DI_NODE_IDS_ARG",
        "DI_ATTACHED_NODES_ARG",
    ],
)
def test_variables_that_are_not_there(name: str, file: str) -> None:
    assert name not in pod_env(manifest(job(file), 1))


def test_variables_are_those_of_the_main_container_alone() -> None:
    made = body(NORMAL)
    made["spec"]["tasks"][0]["template"]["spec"]["containers"].append(
        {"name": "side", "image": "x"}
    )
    assert "env" not in manifest(parse_job(made), 0)["spec"]["containers"][1]


@pytest.mark.parametrize(
    ("policy", "kept"), [("Never", "Never"), ("OnFailure", "OnFailure"), (None, "OnFailure")]
)
def test_the_templates_restart_policy_is_kept(policy: str | None, kept: str) -> None:
    made = body(NORMAL)
    made["spec"]["tasks"][0]["template"]["spec"]["restartPolicy"] = policy
    assert manifest(parse_job(made), 0)["spec"]["restartPolicy"] == kept


def test_names_and_service() -> None:
    spec, made = manifest(job(), 3)["spec"], service.manifests(job(), Options())[0]
    assert (spec["hostname"], spec["subdomain"]) == ("normal-job-collector-1", "normal-job")
    assert made["metadata"]["name"] == "normal-job"
    assert made["spec"]["ports"] == [{"name": "di-port", "port": 50515}]
    assert (made["metadata"]["labels"]["diengine/job"], made["spec"]["clusterIP"]) == (
        "normal-job",
        "None",
    )


def test_volumes_are_every_tasks() -> None:
    made = job("v1.1.3/atari-dqn-dist-config.yaml")
    for rank in range(3):
        names = [volume["name"] for volume in manifest(made, rank)["spec"]["volumes"]]
        assert names[:2] == ["cache-volume", "config-py"]


@pytest.mark.parametrize(
    ("priority", "classes", "expected"),
    [
        pytest.param("high", {"high": "gold"}, "gold", id="a class of the operator's values"),
        pytest.param("high", {}, None, id="no class is known"),
        pytest.param("normal", {"high": "gold"}, None, id="normal"),
    ],
)
def test_priority_is_a_priority_class(
    priority: str, classes: dict[str, str], expected: str | None
) -> None:
    made = manifest(job(priority=priority), 0, Options(priority_classes=classes))
    assert made["spec"].get("priorityClassName") == expected


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


# What DI-orchestrator accepts and this operator does not: field, words.
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
def test_refused_here(row: str) -> None:
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
def test_tasks_refused_here(row: str) -> None:
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
        pytest.param({"replicas": 2}, 2, id="replicas says otherwise"),
    ],
)
def test_how_many_pods_a_job_of_1_0_wishes(spec: Body, wish: int) -> None:
    assert job(GOBIGGER, **spec).spec.desired == wish


@pytest.mark.parametrize("preemptible", [True, False])
def test_an_end_with_143_is_free_where_the_job_is_preemptible(preemptible: bool) -> None:
    made = builders.job(preemptible=preemptible, backoffLimit=0)
    killed = {"phase": "Failed", "failures": 1, "last_end": Ending(143, 15, "Error", "")}
    seen = builders.observed(
        *(builders.listed(rank, owner=made, **(killed if rank == 1 else {})) for rank in range(3))
    )
    assert ended(plan(made, seen, builders.NOW).status) is not preemptible


def _theirs(phase: str, **more: Any) -> Body:
    """The status of a job as DI-orchestrator 1.1 writes it."""
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
def test_a_job_that_ended_there_has_ended_here(phase: str, policy: CleanPodPolicy) -> None:
    made = body(NORMAL)
    made["spec"]["cleanPodPolicy"] = policy.value
    made["status"] = _theirs(phase)
    decided = plan(parse_job(made), builders.observed(), builders.NOW)
    assert (decided.status.phase, decided.actions, decided.status.restarts) == (phase, (), 1)


def test_a_status_of_1_0_is_read_too() -> None:
    # Its HTTP API took from status.replicas without looking.
    seen = stored({"status": _theirs("Succeeded", generation=3, replicas=-1)})
    assert ended(seen)
    assert seen.completion_time is None  # theirs has another name: such a job has no time to live


def test_the_tasks_pods_are_counted_by_phase() -> None:
    made = job()
    names = [member.name for member in gang_of(made).members]
    pods = [builders.view(rank, name=name, phase="Running") for rank, name in enumerate(names)]
    decided: Plan = plan(made, builders.observed(*pods), builders.NOW)
    assert decided.status.task_status == {
        "learner": {"Running": 1},
        "evaluator": {"Running": 1},
        "collector": {"Running": 2},
    }


DOC = ROOT / "docs/compatibility.md"


def test_the_tests_that_the_document_names_exist() -> None:
    named = set(re.findall(r"`(\w+)/(test_\w+)\.(test_\w+)`", DOC.read_text()))
    assert named
    lost = [
        f"{folder}/{file}.{name}"
        for folder, file, name in named
        if f"def {name}(" not in (ROOT / f"tests/{folder}/{file}.py").read_text()
    ]
    assert lost == []


# pkg/api/v2alpha1/dijob_types.go, pkg/common/config.go and pkg/context/ of v1.0.0 and v1.1.0 to
# v1.1.3.
THEIRS = """
spec.group spec.priority spec.engineFields.topology spec.engineFields.parallelWorkers
spec.cleanPodPolicy spec.preemptible spec.minReplicas spec.maxReplicas spec.template
spec.backoffLimit spec.volumes spec.tasks
tasks[].replicas tasks[].type tasks[].name tasks[].template
status.completionTimestamp status.generation status.phase status.replicas
status.readyReplicas status.allocation
status.profilings status.conditions status.restarts status.reschedules status.taskStatus
diengine/operator diengine/group diengine/job diengine/rank diengine/pod
diengine/task-type diengine/task-name
diengine/generation diengine/replicas diengine/node diengine/task-rank
DI_JOB_ID DI_JOB_GENERATION DI_SERVER_URL DI_PARALLEL_WORKERS_ARG
DI_PORTS_ARG DI_NODE_IDS_ARG DI_ATTACHED_NODES_ARG
DI_RANK DI_NODES DI_<TASK>_NODES DI_JOB_DEFAULT_RESOURCES
"""


def test_the_document_has_a_row_for_each_field_label_annotation_and_variable() -> None:
    text = DOC.read_text()
    assert [thing for thing in THEIRS.split() if f"\n| `{thing}`" not in text] == []
