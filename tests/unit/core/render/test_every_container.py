"""C6, C29: each container of a pod knows its rank, and kubectl selects the container of the
program.
"""

from typing import Any

import pytest
from dijob import names
from samples.builders import Body, container, job, manifest
from samples.specs import rejection, with_env

SIDE: Body = {"name": "side", "image": "x"}
INIT: Body = {"name": "stage", "image": "x"}
NATIVE: Body = {"name": "proxy", "image": "x", "restartPolicy": "Always"}


def env_of(body: Body, name: str) -> dict[str, Any]:
    given = (*body["spec"]["initContainers"], *body["spec"]["containers"])
    (found,) = (one for one in given if one["name"] == name)
    return {one["name"]: one.get("value", one.get("valueFrom")) for one in found["env"]}


def made(rank: int = 1, *others: Body, **spec: Any) -> Body:
    pod = {"containers": [SIDE, *others, container()], "initContainers": [INIT, NATIVE]}
    return manifest(job(pod, **spec), rank)


@pytest.mark.parametrize("name", ["side", "stage", "proxy", "di-container"])
def test_each_container_of_the_template_has_rank_and_job(name: str) -> None:
    found = env_of(made(), name)
    assert (found["DI_RANK"], found["DI_JOB_ID"], found["DI_JOB_NAME"]) == ("1", "job-uid", "job")
    assert found["DI_JOB_NAMESPACE"] == "ns"
    assert found["DI_POD_IP"] == {"fieldRef": {"fieldPath": "status.podIP"}}


@pytest.mark.parametrize("name", ["side", "stage", "proxy"])
def test_other_containers_have_the_number_of_ranks(name: str) -> None:
    assert env_of(made(), name)["DI_NUM_NODES"] == "3"


def test_the_number_of_ranks_includes_all_tasks() -> None:
    pod = {"spec": {"containers": [container(), SIDE]}}
    tasks = [{"type": kind, "replicas": 2, "template": pod} for kind in ("learner", "collector")]
    found = env_of(manifest(job(tasks=tasks, template=None, replicas=None), 3), "side")
    assert (found["DI_RANK"], found["DI_NUM_NODES"]) == ("3", "4")


@pytest.mark.parametrize(
    ("task", "labels"),
    [
        ({"type": "learner"}, "learner"),
        ({"type": "collector", "name": "fast"}, "collector,fast"),
        ({"type": "none", "name": "replay"}, "replay"),
    ],
    ids=["the type is the name", "type and name", "only a name"],
)
def test_other_containers_have_the_task_of_the_rank(task: Body, labels: str) -> None:
    pod = {"spec": {"containers": [container(), SIDE], "initContainers": [INIT]}}
    tasks = [{**task, "replicas": 2, "template": pod}]
    body = manifest(job(tasks=tasks, template=None, replicas=None), 1)
    for name in ("side", "stage", "di-container"):
        assert env_of(body, name)["DI_LABELS"] == labels, name


def test_without_tasks_other_containers_have_no_labels() -> None:
    assert "DI_LABELS" not in env_of(made(), "side")


@pytest.mark.parametrize("name", ["DI_JOB_ID", "DI_LABELS"])
def test_a_variable_of_the_user_wins_in_other_containers(name: str) -> None:
    pod = {"spec": {"containers": [container(), {**SIDE, "env": [{"name": name, "value": "own"}]}]}}
    tasks = [{"type": "learner", "replicas": 1, "template": pod}]
    found = manifest(job(tasks=tasks, template=None, replicas=None), 0)["spec"]["containers"][1]
    assert [one["value"] for one in found["env"] if one["name"] == name] == ["own"]


def test_a_value_of_the_user_is_kept_and_may_refer_to_ours() -> None:
    own = [{"name": "DI_JOB_NAME", "value": "mine"}, {"name": "X", "value": "$(DI_RANK)"}]
    body = made(0, {"name": "other", "image": "x", "env": own})
    found = env_of(body, "other")
    assert (found["DI_JOB_NAME"], found["X"]) == ("mine", "$(DI_RANK)")
    assert list(found).index("DI_RANK") < list(found).index("X")


@pytest.mark.parametrize("env", ["text", {"A": "b"}, 7])
def test_an_env_that_is_not_a_list_is_left_to_the_apiserver(env: object) -> None:
    pod = {"containers": [container(), {**SIDE, "env": env}]}
    assert manifest(job(pod))["spec"]["containers"][1]["env"] == env


@pytest.mark.parametrize("key", ["containers", "initContainers"])
def test_the_rejection_of_a_reserved_variable_names_a_remedy(key: str) -> None:
    ((_, message),) = rejection(with_env("DI_RANK", key))
    assert message.startswith("DI_RANK is set by the operator and cannot be overridden")
    assert "Every container has DI_RANK" in message
    assert f"metadata.annotations[{names.ANNOTATION_IPS}]" in message


def test_kubectl_selects_the_program_and_not_the_first_container() -> None:
    annotations = made()["metadata"]["annotations"]
    assert annotations["kubectl.kubernetes.io/default-container"] == "di-container"
    unnamed = manifest(job({"containers": [container(name="trainer"), SIDE]}))
    assert unnamed["metadata"]["annotations"][names.DEFAULT_CONTAINER] == "trainer"


def test_a_default_container_of_the_template_is_kept() -> None:
    template = {
        "metadata": {"annotations": {names.DEFAULT_CONTAINER: "side"}},
        "spec": {"containers": [SIDE, container()]},
    }
    body = manifest(job(template=template))
    assert body["metadata"]["annotations"][names.DEFAULT_CONTAINER] == "side"
