"""Jobs with a queue on a real API server. The tests play Kueue: they write the status of Workloads.
`make kueue` runs the same with the real Kueue (docs/queues.md).
"""

import json
import time
from collections.abc import Iterator
from typing import Any

import pytest
from apiserver.plane import Body, Plane, job, operator
from cluster.shell import until_established
from dijob.controller.cache.workloads import UNSERVED_SECONDS
from planes import ROOT, control_plane
from workers import own

pytestmark = pytest.mark.apiserver

CRDS = ROOT / "testing/queues/crds.yaml"
KINDS = ("workloads", "localqueues", "resourceflavors")
FLAG = ("--kueue",)
NOW = "2026-01-01T00:00:00Z"
API = "kueue.x-k8s.io/v1beta2"
# Kubernetes has another kind with this name (scheduling.k8s.io).
WORKLOADS = "workloads.kueue.x-k8s.io"


@pytest.fixture(scope="module")
def bare(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Plane]:
    """Yield a control plane without Kueue's API."""
    log = tmp_path_factory.mktemp("operator") / "log"
    with control_plane(own("queues"), nodes=3) as cluster:
        yield Plane(cluster, log)


@pytest.fixture(scope="module")
def queues(bare: Plane) -> Iterator[Plane]:
    """Yield the control plane with the stand-in for Kueue's API, and an operator that uses it."""
    bare.kubectl("apply", "-f", str(CRDS))
    for kind in KINDS:
        until_established(bare.cluster.run_kubectl, f"{kind}.kueue.x-k8s.io")
    flavor = {
        "apiVersion": API,
        "kind": "ResourceFlavor",
        "metadata": {"name": "default"},
        "spec": {"nodeLabels": {"type": "kwok"}},
    }
    bare.apply(flavor)
    with operator(bare.cluster.kubeconfig, bare.log, flags=FLAG):
        yield bare


def queued(name: str, **spec: Any) -> Body:
    made = job(name, **spec)
    made["metadata"]["labels"] = {"kueue.x-k8s.io/queue-name": "team-a"}
    return made


def workload(plane: Plane, name: str) -> Body:
    """Return the Workload of a job; {} if there is none."""
    text = plane.kubectl("get", WORKLOADS, "-l", f"diengine.opendilab.org/job={name}", "-o", "json")
    found: Body = next(iter(json.loads(text)["items"]), {})
    return found


def write(plane: Plane, name: str, status: Body, **conditions: tuple[str, str]) -> None:
    """Write into the status of a job's Workload, as Kueue does."""
    plane.until("there is a Workload", lambda: workload(plane, name), lambda: None)
    body = workload(plane, name)
    known = {one["type"]: one for one in (body.get("status") or {}).get("conditions") or ()}
    for type_, (value, reason) in conditions.items():
        known[type_] = {
            "type": type_,
            "status": value,
            "reason": reason,
            "message": f"because of {reason}",
            "lastTransitionTime": NOW,
        }
    patch = json.dumps({"status": {**status, "conditions": list(known.values())}})
    path = (WORKLOADS, body["metadata"]["name"], "--subresource=status", "--type=merge")
    plane.kubectl("patch", *path, "-p", patch)


def admit(plane: Plane, name: str, count: int = 2) -> None:
    plane.until("there is a Workload", lambda: workload(plane, name), lambda: None)
    assigned = {"name": "main", "count": count, "flavors": {"cpu": "default"}}
    write(
        plane,
        name,
        {"admission": {"clusterQueue": "team-a", "podSetAssignments": [assigned]}},
        QuotaReserved=("True", "QuotaReserved"),
        Admitted=("True", "Admitted"),
        Evicted=("False", "QuotaReserved"),
    )


def condition(plane: Plane, name: str, type_: str) -> str:
    status = workload(plane, name).get("status") or {}
    found = (one["status"] for one in status.get("conditions") or () if one["type"] == type_)
    return next(found, "")


def test_a_cluster_without_kueue_is_named_and_asked_rarely(bare: Plane) -> None:
    begin = time.monotonic()
    with operator(bare.cluster.kubeconfig, bare.log, flags=FLAG):
        bare.apply(queued("unserved"))
        words = ("NotServed", "kubectl api-resources --api-group=kueue.x-k8s.io")
        bare.until_condition("unserved", "GangScheduled", "False", *words)
        assert bare.pods("unserved") == {}
        lines = bare.cluster.audit_log.read_text().splitlines()
        asked = len([line for line in lines if "/kueue.x-k8s.io" in line])
        assert 1 <= asked <= 4 * (1 + (time.monotonic() - begin) // UNSERVED_SECONDS)
    bare.remove("dijob/unserved")


def test_without_the_flag_the_label_has_no_effect_and_a_warning_says_so(bare: Plane) -> None:
    with operator(bare.cluster.kubeconfig, bare.log):
        bare.apply(queued("plain"))
        bare.until_condition("plain", "Running", "True")
        bare.until_condition("plain", "SpecWarning", "True", "scheduling.kueue")
    bare.remove("dijob/plain")


def test_a_job_is_admitted_evicted_admitted_again_and_finished(queues: Plane) -> None:
    name = "admitted"
    queues.apply(queued(name))
    queues.until_condition(name, "Suspended", "True", "Queued", "queued in team-a")
    assert queues.pods(name) == {}
    admit(queues, name)
    queues.until_condition(name, "Running", "True")
    for pod in queues.pods(name).values():
        assert pod["spec"]["nodeSelector"] == {"type": "kwok"}
        assert pod["metadata"]["labels"]["kueue.x-k8s.io/podset"] == "main"
    queues.until(
        "PodsReady is True",
        lambda: condition(queues, name, "PodsReady") == "True",
        lambda: workload(queues, name),
    )
    write(queues, name, {}, Evicted=("True", "Preempted"))
    queues.until(
        "its quota is given back",
        lambda: condition(queues, name, "QuotaReserved") == "False",
        lambda: workload(queues, name),
        seconds=60,
    )
    assert queues.pods(name) == {}
    status = workload(queues, name)["status"]
    assert "admission" not in status
    assert condition(queues, name, "Requeued") == "True"
    admit(queues, name)
    queues.until_condition(name, "Running", "True")
    assert (queues.get("dijob", name) or {})["status"].get("restarts", 0) == 0
    queues.kubectl("annotate", "pod", *queues.pods(name), "test.dijob/exit=0")
    queues.until_condition(name, "Succeeded", "True")
    queues.until(
        "its Workload is finished",
        lambda: condition(queues, name, "Finished") == "True",
        lambda: workload(queues, name),
    )
    queues.remove(f"dijob/{name}")


def test_partial_admission_bounds_the_job(queues: Plane) -> None:
    name = "partly"
    queues.apply(queued(name, replicas=3, minReplicas=1))
    queues.until("there is a Workload", lambda: workload(queues, name), lambda: None)
    (pod_set,) = workload(queues, name)["spec"]["podSets"]
    assert (pod_set["count"], pod_set["minCount"]) == (3, 1)
    admit(queues, name, count=2)
    # Without Kueue's webhook, the dry run shows no support for growing jobs.
    words = ("AdmittedInPart", "2 ranks", "suspend and resume the job")
    queues.until_condition(name, "GangScheduled", "True", *words)
    assert queues.kubectl("get", WORKLOADS, "-o", "name").count(name) == 1
    queues.until_condition(name, "Running", "True")
    assert len(queues.pods(name)) == 2
    queues.remove(f"dijob/{name}")
