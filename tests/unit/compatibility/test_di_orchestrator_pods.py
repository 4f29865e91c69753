"""Pods in comparison with those of DI-orchestrator: labels, variables, names, volumes, priority."""

import re

import pytest
from apiserver.theirs import GOBIGGER, NORMAL, body, job
from dijob import names
from dijob.api.parse import parse_job
from dijob.core.options import Options
from dijob.core.render import service
from samples.builders import manifest, pod_env
from simulator.environment import environment_of


def test_labels_and_annotations_of_a_pod_of_a_task() -> None:
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


def test_variables_of_di_orchestrator_are_set() -> None:
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
    # In DI-orchestrator a pod had only the list of its own task.
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
def test_variables_of_di_orchestrator_that_are_not_set(name: str, file: str) -> None:
    assert name not in pod_env(manifest(job(file), 1))


def test_only_the_main_container_has_the_variables_of_the_world() -> None:
    made = body(NORMAL)
    made["spec"]["tasks"][0]["template"]["spec"]["containers"].append(
        {"name": "side", "image": "x"}
    )
    beside = manifest(parse_job(made), 0)["spec"]["containers"][1]
    known = {entry["name"] for entry in beside["env"]}
    assert known.isdisjoint({"DI_NODES", "DI_LEARNER_NODES", "DI_TOPOLOGY"})


@pytest.mark.parametrize(
    ("policy", "kept"), [("Never", "Never"), ("OnFailure", "OnFailure"), (None, "OnFailure")]
)
def test_the_templates_restart_policy_is_kept(policy: str | None, kept: str) -> None:
    made = body(NORMAL)
    made["spec"]["tasks"][0]["template"]["spec"]["restartPolicy"] = policy
    assert manifest(parse_job(made), 0)["spec"]["restartPolicy"] == kept


def test_names_of_pods_and_service() -> None:
    spec, made = manifest(job(), 3)["spec"], service.headless_manifests(job(), Options())[0]
    assert (spec["hostname"], spec["subdomain"]) == ("normal-job-collector-1", "normal-job")
    assert made["metadata"]["name"] == "normal-job"
    assert made["spec"]["ports"] == [{"name": "di-port", "port": 50515}]
    assert (made["metadata"]["labels"]["diengine/job"], made["spec"]["clusterIP"]) == (
        "normal-job",
        "None",
    )


def test_all_tasks_have_the_volumes_of_the_job() -> None:
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
def test_the_priority_becomes_a_priority_class(
    priority: str, classes: dict[str, str], expected: str | None
) -> None:
    made = manifest(job(priority=priority), 0, Options(priority_classes=classes))
    assert made["spec"].get("priorityClassName") == expected
