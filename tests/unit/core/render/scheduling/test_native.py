"""The PodGroup of a job, and which engine a job has."""

from typing import Any

import pytest
from dijob.core.options import Options
from dijob.core.render.pod import pod_manifest
from dijob.core.render.scheduling import ENGINES, Membership, engine_of, object_name
from dijob.names import Engine
from samples.builders import Body, changed, gang, job, view

NATIVE = ENGINES[Engine.NATIVE]


def group_spec(options: Options | None = None, pod: Body | None = None, **spec: Any) -> Body:
    made = NATIVE.manifest(job(pod, **spec), "x", 2, options or Options())
    assert (made["apiVersion"], made["kind"]) == ("scheduling.k8s.io/v1beta1", "PodGroup")
    assert made["metadata"]["name"] == "x"
    assert made["metadata"]["ownerReferences"][0]["name"] == "job"
    found: Body = made["spec"]
    assert found.pop("schedulingPolicy") == {"gang": {"minCount": 2}}
    return found


SINGLE: Body = {"disruptionMode": {"single": {}}}


@pytest.mark.parametrize(
    ("spec", "options", "wanted"),
    [
        pytest.param({}, Options(), SINGLE, id="ranks restart one by one"),
        pytest.param(
            {"runtime": "torch"},
            Options(),
            {"disruptionMode": {"all": {}}},
            id="torch",
        ),
        pytest.param(
            {"restart": {"scope": "Job"}},
            Options(),
            {"disruptionMode": {"all": {}}},
            id="a loss restarts all",
        ),
        pytest.param(
            {"scheduling": {"topology": {"key": "rack"}}},
            Options(),
            {**SINGLE, "schedulingConstraints": {"topology": [{"key": "rack"}]}},
            id="one rack",
        ),
        pytest.param(
            {"priority": "high"},
            Options(priority_classes={"high": "urgent"}),
            {**SINGLE, "priorityClassName": "urgent"},
            id="the priority of the pods",
        ),
    ],
)
def test_a_pod_group_follows_the_job(spec: Body, options: Options, wanted: Body) -> None:
    assert group_spec(options, **spec) == wanted


def test_the_group_has_the_priority_class_of_the_template() -> None:
    """The scheduler rejects a group whose pods have another priority."""
    pod: Body = {"containers": [{"name": "x", "image": "i"}], "priorityClassName": "own"}
    options = Options(priority_classes={"high": "urgent"})
    assert group_spec(options, pod, priority="high")["priorityClassName"] == "own"


def test_a_pod_names_its_group() -> None:
    owner, member = job(), gang().member(0)
    assert "schedulingGroup" not in pod_manifest(owner, member, Options())["spec"]
    marks = NATIVE.marks(Membership(owner, owner.pod_sets[0], "x", 3))
    made = pod_manifest(owner, member, Options(), "", marks)
    assert made["spec"]["schedulingGroup"] == {"podGroupName": "x"}


@pytest.mark.parametrize(
    ("spec", "count"),
    [
        ({"schedulingPolicy": {"gang": {"minCount": 3}}}, 3),
        ({"schedulingPolicy": {"basic": {}}}, 0),
        ({}, 0),
    ],
    ids=["a gang", "no gang", "empty"],
)
def test_the_count_of_a_pod_group(spec: Body, count: int) -> None:
    assert NATIVE.count(spec) == count


def test_a_constraint_that_the_cluster_has_dropped_is_named() -> None:
    wanted, free = job(scheduling={"topology": {"key": "rack"}}), job()
    stored = {"schedulingConstraints": {"topology": [{"key": "rack"}]}}
    assert NATIVE.dropped(wanted, stored) == NATIVE.dropped(free, {}) == ""
    assert "TopologyAwareWorkloadScheduling" in NATIVE.dropped(wanted, {})


MEMBER = changed(view(0), engine="Native")
OWN_GROUP: Body = {
    "containers": [{"name": "x", "image": "i"}],
    "schedulingGroup": {"podGroupName": "mine"},
}


@pytest.mark.parametrize(
    ("pod", "chosen", "default", "pods", "engine"),
    [
        pytest.param(None, None, Engine.NONE, (), Engine.NONE, id="none"),
        pytest.param(None, None, Engine.NATIVE, (), Engine.NATIVE, id="the operator's"),
        pytest.param(None, "Native", Engine.NONE, (), Engine.NATIVE, id="the job's"),
        pytest.param(None, "None", Engine.NATIVE, (), Engine.NONE, id="the job has none"),
        pytest.param(None, None, Engine.NATIVE, (view(0),), Engine.NONE, id="older pods"),
        pytest.param(None, None, Engine.NONE, (MEMBER,), Engine.NATIVE, id="pods of a group"),
        pytest.param(OWN_GROUP, None, Engine.NATIVE, (), Engine.NONE, id="the user's own group"),
    ],
)
def test_the_engine_of_a_job(
    pod: Body | None, chosen: str | None, default: Engine, pods: Any, engine: Engine
) -> None:
    owner = job(pod, **({"scheduling": {"engine": chosen}} if chosen else {}))
    assert engine_of(owner, default, pods) is engine


def test_each_life_of_a_job_has_its_own_group() -> None:
    resumed = job(status={"resumeTime": "2026-01-01T00:00:00Z"})
    assert object_name(job()) == "job"
    assert object_name(resumed) == "job-1767225600"
