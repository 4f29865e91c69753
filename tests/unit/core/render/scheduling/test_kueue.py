"""The Workload of a job, and what its pods get from an admission."""

from typing import Any

import pytest
from dijob.api.model import DIJob
from dijob.api.parse import parse_job
from dijob.core.actions import CreateWorkload
from dijob.core.observed.queue_views import Flavor
from dijob.core.observed.workloads import parse_workload
from dijob.core.options import Options
from dijob.core.render.redis import server_manifests
from dijob.core.render.scheduling import NO_MARKS, kueue
from samples.builders import container, job_body, tasks_body

QUEUE = {"kueue.x-k8s.io/queue-name": "team-a"}


def queued(body: dict[str, Any] | None = None, labels: dict[str, str] | None = None) -> DIJob:
    made = body or job_body()
    meta = {**made["metadata"], "labels": {**QUEUE, **(labels or {})}}
    return parse_job({**made, "metadata": meta})


def spec_of(job: DIJob, priority: int = 0) -> dict[str, Any]:
    spec: dict[str, Any] = kueue.workload(job, priority, Options())["spec"]
    return spec


def test_the_workload_belongs_to_the_job_and_names_its_queue() -> None:
    made = kueue.workload(queued(), 7, Options())
    assert made["metadata"]["ownerReferences"][0]["kind"] == "DIJob"
    assert made["metadata"]["name"].startswith("dijob-job-")
    assert (made["spec"]["queueName"], made["spec"]["priority"]) == ("team-a", 7)
    (pod_set,) = made["spec"]["podSets"]
    assert (pod_set["name"], pod_set["count"]) == ("main", 3)
    assert "minCount" not in pod_set


def test_a_template_has_the_resources_and_no_command() -> None:
    requests = {"requests": {"cpu": "2"}}
    job = queued(job_body({"containers": [container(resources=requests)], "nodeName": None}))
    (pod_set,) = spec_of(job)["podSets"]
    (main,) = pod_set["template"]["spec"]["containers"]
    assert main["resources"] == requests
    assert not {"command", "args", "env"} & main.keys()
    assert "hostname" not in pod_set["template"]["spec"]


@pytest.mark.parametrize(
    ("body", "counts"),
    [
        (job_body(replicas=4, minReplicas=2), [("main", 4, 2)]),
        (job_body(replicas=4, minReplicas=4), [("main", 4, None)]),
        (tasks_body(1, 3), [("learner", 1, None), ("evaluator", 3, None)]),
    ],
    ids=["elastic", "not elastic", "tasks"],
)
def test_only_the_last_pod_set_of_an_elastic_job_has_a_minimum(
    body: dict[str, Any], counts: list[tuple[str, int, int | None]]
) -> None:
    sets = spec_of(queued(body))["podSets"]
    assert [(one["name"], one["count"], one.get("minCount")) for one in sets] == counts


@pytest.mark.parametrize(
    ("labels", "pod", "reference"),
    [
        ({}, {}, None),
        (
            {"kueue.x-k8s.io/priority-class": "high"},
            {"priorityClassName": "of-pods"},
            ("kueue.x-k8s.io", "WorkloadPriorityClass", "high"),
        ),
        ({}, {"priorityClassName": "of-pods"}, ("scheduling.k8s.io", "PriorityClass", "of-pods")),
    ],
    ids=["none", "of the label", "of the pods"],
)
def test_the_priority_class(
    labels: dict[str, str], pod: dict[str, Any], reference: tuple[str, ...] | None
) -> None:
    job = queued(job_body({"containers": [container()], **pod}), labels)
    found = spec_of(job).get("priorityClassRef")
    assert (tuple(found.values()) if found else None) == reference


def test_the_time_limit_is_that_of_the_label() -> None:
    limited = queued(labels={"kueue.x-k8s.io/max-exec-time-seconds": "60"})
    assert spec_of(limited)["maximumExecutionTimeSeconds"] == 60
    deadline = queued(job_body(activeDeadlineSeconds=60))
    assert "maximumExecutionTimeSeconds" not in spec_of(deadline)


def test_the_topology_is_that_of_the_template_or_of_the_job() -> None:
    job = queued(job_body(scheduling={"topology": {"key": "rack", "mode": "Preferred"}}))
    (pod_set,) = spec_of(job)["podSets"]
    assert pod_set["topologyRequest"]["preferred"] == "rack"
    body = job_body()
    key = "kueue.x-k8s.io/podset-required-topology"
    body["spec"]["template"]["metadata"] = {"annotations": {key: "block"}}
    (pod_set,) = spec_of(queued(body))["podSets"]
    assert pod_set["topologyRequest"]["required"] == "block"


@pytest.mark.parametrize(
    "changed",
    [
        queued(job_body(replicas=4)),
        queued(labels={"kueue.x-k8s.io/queue-name": "team-b"}),
        queued(labels={"kueue.x-k8s.io/priority-class": "high"}),
        queued(job_body({"containers": [container(image="another")]})),
    ],
    ids=["size", "queue", "priority", "template"],
)
def test_a_change_of_the_job_changes_the_digest(changed: DIJob) -> None:
    assert kueue.workload_digest(changed) != kueue.workload_digest(queued())


def test_pods_get_the_flavors_the_updates_and_the_gate() -> None:
    assignment = {"name": "main", "count": 3, "flavors": {"cpu": "a", "gpu": "a"}}
    update = {"name": "main", "nodeSelector": {"zone": "z"}, "annotations": {"n": "1"}}
    body = {
        "metadata": {"name": "w", "uid": "u"},
        "spec": {"podSets": [{"name": "main", "count": 3}]},
        "status": {
            "admission": {"podSetAssignments": [{**assignment, "topologyAssignment": {"a": 1}}]},
            "admissionChecks": [{"name": "c", "podSetUpdates": [update]}],
        },
    }
    job = queued()
    flavor = Flavor({"pool": "a"}, ({"key": "pool"}, {"key": "pool"}))
    marks = kueue.pod_marks(job, job.pod_sets[0], parse_workload(body), {"a": flavor})
    assert marks.node_selector == {"pool": "a", "zone": "z"}
    assert marks.tolerations == ({"key": "pool"},)
    assert marks.gates == ("kueue.x-k8s.io/topology",)
    assert marks.labels["kueue.x-k8s.io/podset"] == "main"
    assert marks.annotations == {
        "kueue.x-k8s.io/workload": "w",
        "kueue.x-k8s.io/podset-unconstrained-topology": "true",
        "n": "1",
    }


def with_redis(body: dict[str, Any] | None = None) -> DIJob:
    made = body or job_body()
    return queued({**made, "spec": {**made["spec"], "messageQueue": {"type": "redis"}}})


@pytest.mark.parametrize(
    ("name", "expected"),
    [("", ["main", "redis"]), ("redis", ["redis", "evaluator", "redis-server"])],
    ids=["no tasks", "a task has the same name"],
)
def test_the_redis_server_of_a_job_is_a_pod_set(name: str, expected: list[str]) -> None:
    body = job_body()
    if name:
        body = tasks_body(1, 2)
        body["spec"]["tasks"][0]["name"] = name
    job = with_redis(body)
    options = Options(redis_resources={"requests": {"cpu": "100m"}})
    sets = kueue.workload(job, 0, options)["spec"]["podSets"]
    assert [one["name"] for one in sets] == expected
    assert list(kueue.pod_set_names(job)) == expected
    (container,) = sets[-1]["template"]["spec"]["containers"]
    assert container["resources"] == {"requests": {"cpu": "100m"}}
    assert sets[-1]["count"] == 1
    assert "command" not in container


def test_only_a_job_with_a_redis_server_gets_another_digest() -> None:
    # These digests must not change: a waiting job would lose its place in the queue.
    assert kueue.workload_digest(queued()) == "aeeed820f2d45fc4"
    assert kueue.workload_digest(with_redis()) != kueue.workload_digest(queued())


def test_the_redis_server_runs_on_the_nodes_of_its_flavor() -> None:
    job = with_redis()
    admitted = parse_workload(
        {
            "metadata": {"name": "w", "uid": "u"},
            "status": {
                "admission": {
                    "podSetAssignments": [
                        {"name": "main", "count": 3, "flavors": {"cpu": "a"}},
                        {"name": "redis", "count": 1, "flavors": {"cpu": "b"}},
                    ]
                }
            },
        }
    )
    flavors = {"a": Flavor({"pool": "a"}), "b": Flavor({"pool": "b"})}
    marks = kueue.server_marks(job, admitted, flavors)
    assert marks.node_selector == {"pool": "b"}
    assert marks.labels == {"kueue.x-k8s.io/podset": "redis"}
    *_, pod = server_manifests(job, Options())
    marks.add_to(pod)
    assert pod["spec"]["nodeSelector"] == {"pool": "b"}
    assert pod["metadata"]["labels"]["kueue.x-k8s.io/podset"] == "redis"


def test_a_workload_of_an_older_operator_has_no_redis_server() -> None:
    admitted = parse_workload({"metadata": {"name": "w", "uid": "u"}})
    assert kueue.server_marks(with_redis(), admitted, {}) == NO_MARKS


def test_a_larger_workload_replaces_the_present_one() -> None:
    job = queued(job_body(replicas=4, minReplicas=2))
    new = CreateWorkload(name="larger", priority=7, replaces="smaller", ranks=4)
    made = kueue.larger_workload(job.resized(2), new, kueue.workload_digest(job), Options())
    assert made["metadata"]["name"] == "larger"
    notes = made["metadata"]["annotations"]
    assert notes["kueue.x-k8s.io/elastic-job"] == "true"
    assert notes["kueue.x-k8s.io/workload-slice-replacement-for"] == "ns/smaller"
    (pod_set,) = made["spec"]["podSets"]
    assert pod_set["count"] == 4
    assert "minCount" not in pod_set
    view = parse_workload({**made, "metadata": {**made["metadata"], "uid": "u"}})
    assert view.replaces == "smaller"
    assert view.digest == kueue.workload_digest(job)


def test_the_probe_has_what_kueue_rejects_if_it_can_replace_workloads() -> None:
    made = kueue.growth_probe(queued())
    assert made["metadata"]["annotations"]["kueue.x-k8s.io/elastic-job"] == "true"
    (pod_set,) = made["spec"]["podSets"]
    assert pod_set["minCount"] < pod_set["count"]
