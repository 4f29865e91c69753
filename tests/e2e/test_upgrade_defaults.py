"""An upgrade from the previous version as in CHANGELOG.md, with the default values: the channel,
the launcher's image as a volume, and two operators. The jobs are of each kind and in each phase.
"""

import json
import os
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from archives import archive
from cluster import Cluster
from cluster.shell import run, until_established
from dijob import __version__
from everykind import FOREVER, jobs, names
from faults.lab.audit import Audit
from former import VERSION, unpack
from golden import until_quiet, until_said
from helm_user import create_user, remove_user, upgrade
from identity import Identity, identities, running, until_healed
from jobs import job, peers, shell
from leading import Leader
from manifests import CRD, GROUP
from node_loss import operators
from release import install
from space import GATE, HOME, MANAGED, Api, Body, Space, opened
from test_tasks import tasks
from test_upgrade import LAUNCHER, launcher_of, lost

pytestmark = [pytest.mark.e2e, pytest.mark.long]

OLD, NEW = f"dijob/launcher:{VERSION}", f"dijob/launcher:{__version__}"
IPS = f"{GROUP}/node-ips"
LIGHT_PEER = "exec light-peer --forever"
# Fields that a new job may not have, but that the previous version accepted.
REJECTED: dict[str, Body] = {
    "contrary": {"env": [{"name": "DI_TOPOLOGY", "value": "star"}]},
    "ruled": {"restartPolicy": "Never"},
}
PHASES = {
    "failed": "Failed",
    "done": "Succeeded",
    "suspended": "Suspended",
    "nowhere": "Pending",
    "invalid": "Pending",
}
# The conditions that the upgrade adds.
ADDED = {
    "failed": {"Stalled": ("True", "Failed")},
    "invalid": {"Stalled": ("True", "Invalid")},
    "nowhere": {"Reconciling": ("True", "Starting")},
    "contrary": {"SpecWarning": ("True", "SpecWarning")},
    "ruled": {"SpecWarning": ("True", "SpecWarning")},
}
GET = "import sys, urllib.request; print(urllib.request.urlopen(sys.argv[1]).read().decode())"


@dataclass(frozen=True)
class Seen:
    """The DIJobs by name, the uid and the runs of the containers of each pod, and the operator's
    metrics.
    """

    jobs: dict[str, Body]
    pods: dict[str, list[str]]
    metrics: str


@dataclass
class Upgraded:
    """A namespace with jobs that the previous version has started, and what the upgrade changed."""

    space: Space
    world: dict[str, Identity]
    before: Seen
    after: Seen = field(init=False, repr=False)
    # Writes of the operator by resource and name.
    writes: Counter[tuple[str, str]] = field(init=False, repr=False)


@pytest.fixture(scope="module")
def upgraded(
    cluster: Cluster, api: Api, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Upgraded]:
    sources = tmp_path_factory.mktemp("former")
    unpack(sources)
    operator, launcher = archive("operator", sources), archive("launcher", sources)
    cluster.load([operator, launcher])
    try:
        install_former(cluster, operator, sources)
        with opened(cluster, api, "upgraded") as space:
            world = arranged(space)
            until_quiet(space)
            found = Upgraded(space, world, seen(space))
            upgrade_as_described(found, create_user(space, sources))
            yield found
    finally:
        remove_user(cluster)
        install(cluster, archive("operator"))


def install_former(cluster: Cluster, operator: Path, sources: Path) -> None:
    """Install the previous version in a cluster that has no objects of the current one."""
    env = {**os.environ, **cluster.env()}
    run([str(cluster.helm), "uninstall", "dijob", "-n", HOME, "--wait"], env=env)
    cluster.run_kubectl("delete", "crd", CRD, timeout=120)
    install(cluster, operator, sources=sources)
    until_established(cluster.run_kubectl, CRD)


def arranged(space: Space) -> dict[str, Identity]:
    """Create jobs of each kind and in each phase. Return the pods of the job "world"."""
    kinds = jobs(9)
    world = running(space, replicas=3)
    space.apply(
        *kinds,
        *rejected(""),
        tasks("tasks", LIGHT_PEER),
        tasks("done", "true", "true"),
        shell("failed", "exit 3", backoffLimit=0),
        peers("suspended", "--forever"),
        peers("nowhere", pod={"nodeSelector": {"no": "such-node"}}),
        shell("invalid", "true", pod={"volumes": [{"name": "dijob-bin", "emptyDir": {}}]}),
    )
    for name in (*names(kinds), *REJECTED, "tasks", "suspended"):
        space.until_true(name, "Running", 300)
    suspend(space, "suspended", "true")
    for name, phase in PHASES.items():
        until_said(space, name, phase=phase)
    space.until_left("suspended")
    return world


def rejected(suffix: str) -> list[Body]:
    """Return the jobs that a new version rejects."""
    command = {"command": ["/bin/bash", "-c", FOREVER]}
    return [
        job(f"{name}{suffix}", {**command, **main}, topology="alone")
        for name, main in REJECTED.items()
    ]


def suspend(space: Space, name: str, value: str) -> None:
    change = f'{{"spec":{{"suspend":{value}}}}}'
    space.kubectl("patch", "dijob", name, "--type=merge", "-p", change)


def seen(space: Space) -> Seen:
    listed = space.api.custom.list_namespaced_custom_object(GROUP, "v2alpha1", space.name, "dijobs")
    pods = space.api.pods(space.name, MANAGED)
    return Seen(
        {each["metadata"]["name"]: each for each in listed["items"]},
        {pod["metadata"]["name"]: runs(pod) for pod in pods},
        metrics(space),
    )


def runs(pod: Body) -> list[str]:
    """Return the pod's uid, and the number of restarts and the current run of each container."""
    kinds = ("initContainerStatuses", "containerStatuses")
    statuses = [one for kind in kinds for one in pod["status"].get(kind) or ()]
    found = [f"{one['name']} {one['restartCount']} {one.get('containerID')}" for one in statuses]
    return [pod["metadata"]["uid"], *found]


def metrics(space: Space) -> str:
    """Return the metrics of the operator that leads; 0.1.0 has only one."""
    pods = space.api.pods(HOME, "app.kubernetes.io/name=dijob")
    leads = next((pod for pod in pods if pod["metadata"]["name"] == leader(space)), pods[0])
    url = f"http://{leads['status']['podIP']}:8080/metrics"
    return space.execute("world-0", "python3", "-c", GET, url)


def leader(space: Space) -> str:
    there = space.cluster.run_kubectl("-n", HOME, "get", "lease", "dijob", "--ignore-not-found")
    return Leader(space.api).now()[0] if there else ""


def upgrade_as_described(found: Upgraded, kubeconfig: Path) -> None:
    """Follow the steps of CHANGELOG.md. The cluster has the images from the beginning, and the
    kubeconfig is that of a user with the necessary permissions.
    """
    space, audit = found.space, Audit(found.space.cluster.audit_log)
    upgrade(space.cluster, kubeconfig)
    rollout = ("rollout", "status", "deployment/dijob", "--timeout=120s")
    space.cluster.run_kubectl("-n", HOME, *rollout, timeout=130)
    until_quiet(space)
    found.after = seen(space)
    found.writes = Counter(
        (write.kind, write.name)
        for write in audit.each()
        if write.namespace == space.name and write.code < 300 and write.kind != "events"
    )


def deployment(space: Space) -> Body:
    found = space.cluster.run_kubectl("-n", HOME, "get", "deployment", "dijob", "-o", "json")
    spec: Body = json.loads(found)["spec"]
    return spec


def test_no_pod_is_recreated_and_no_container_restarts(upgraded: Upgraded) -> None:
    assert upgraded.after.pods == upgraded.before.pods
    assert {"redis-mq", "world-2", "tasks-learner-0"} <= upgraded.after.pods.keys()


def test_each_job_gets_one_status_write_and_a_running_one_with_tasks_its_replicas(
    upgraded: Upgraded,
) -> None:
    statuses = {("dijobs/status", name): 1 for name in upgraded.before.jobs}
    assert dict(upgraded.writes) == statuses | {("dijobs", "tasks"): 1}
    sizes = {name: upgraded.after.jobs[name]["spec"].get("replicas") for name in ("tasks", "done")}
    assert sizes == {"tasks": 2, "done": None}


def test_jobs_keep_their_phase_and_the_reasons_of_their_conditions(upgraded: Upgraded) -> None:
    changed = {}
    for name, body in upgraded.after.jobs.items():
        was, now = upgraded.before.jobs[name]["status"], body["status"]
        assert now["phase"] == was["phase"] == PHASES.get(name, "Running")
        old, new = conditions(was), conditions(now)
        assert old.items() <= new.items(), name
        changed[name] = {type_: new[type_] for type_ in new.keys() - old.keys()}
    assert {name: added for name, added in changed.items() if added} == ADDED


def conditions(status: Body) -> dict[str, tuple[str, str]]:
    return {one["type"]: (one["status"], one["reason"]) for one in status["conditions"]}


def test_metrics_keep_their_names_and_jobs_are_counted_by_namespace(upgraded: Upgraded) -> None:
    before, after = upgraded.before.metrics, upgraded.after.metrics
    assert types(before) <= types(after)
    assert f'dijob_jobs{{job_namespace="{upgraded.space.name}",phase="Failed"}} 1.0' in after
    assert jobs_by_phase(before) == jobs_by_phase(after)


def types(text: str) -> set[tuple[str, str]]:
    """Return name and type of each metric, without those of the Python process."""
    return set(re.findall(r"^# TYPE (dijob_\w+) (\w+)$", text, re.M))


def jobs_by_phase(text: str) -> dict[str, float]:
    counted: dict[str, float] = {}
    for phase, number in re.findall(r'^dijob_jobs\{.*?phase="(\w+)"\} (\S+)$', text, re.M):
        counted[phase] = counted.get(phase, 0) + float(number)
    return {phase: number for phase, number in counted.items() if number}


def test_two_operators_run_and_listen_for_launchers(upgraded: Upgraded) -> None:
    space = upgraded.space
    assert leader(space) in operators(space)
    assert len(operators(space)) == 2
    spec = deployment(space)
    (container,) = spec["template"]["spec"]["containers"]
    assert container["image"] == f"dijob/operator:{__version__}"
    assert {"--launcher-delivery=Auto", "--lost-node-seconds=30"} <= set(container["args"])
    # The two versions must not be active at the same time.
    assert spec["strategy"]["type"] == "Recreate"
    service = space.cluster.run_kubectl("-n", HOME, "get", "service", "dijob-channel", "-o", "json")
    assert [port["port"] for port in json.loads(service)["spec"]["ports"]] == [8082]


def test_a_lost_rank_is_replaced_and_only_the_new_pod_has_the_new_launcher(
    upgraded: Upgraded,
) -> None:
    space = upgraded.space
    lost(space, upgraded.world, 1, {"world-1": "re-created", "world-2": "in place"}, 2)
    assert [launcher_of(space, f"world-{rank}") for rank in range(3)] == [OLD, NEW, OLD]
    assert is_current(space, "world") == [False, True, False]
    assert space.status("world").get("restarts", 0) == 0


def is_current(space: Space, job: str) -> list[bool]:
    """Return for each rank whether its pod is as the default values say: the kubelet mounts the
    launcher, which gets its peer list from the operator, and the pod leaves a lost node after 30 s.
    Otherwise, the pod is as the previous version created it.
    """
    return [_shape(pod) == (False, True, False, {30}) for pod in space.pods(job)]


def _shape(pod: Body) -> tuple[bool, bool, bool, set[int]]:
    spec = pod["spec"]
    inits = {one["name"] for one in spec.get("initContainers") or ()}
    mounts = any(one["name"] == LAUNCHER and "image" in one for one in spec["volumes"])
    listed = IPS in (pod["metadata"].get("annotations") or {})
    seconds = {one["tolerationSeconds"] for one in spec["tolerations"]}
    shape = (GATE in inits or LAUNCHER in inits, mounts, listed, seconds)
    assert shape in ((False, True, False, {30}), (True, False, True, {300})), shape
    return shape


def test_a_job_with_tasks_can_be_scaled(upgraded: Upgraded) -> None:
    space, before = upgraded.space, identities(upgraded.space, "tasks")
    space.kubectl("scale", "dijob", "tasks", "--replicas=3")

    def problem() -> str:
        now = identities(space, "tasks")
        assert before.items() <= now.items(), now
        ready = space.condition("tasks", "PeersReady")
        right = "tasks-collector-2" in now and ready.get("status") == "True"
        return "" if right else f"{sorted(now)}, {ready.get('message')}"

    space.until("a third collector is connected", problem, 60)
    assert is_current(space, "tasks") == [False, False, False, True]


def test_a_suspended_job_resumes_under_the_new_version(upgraded: Upgraded) -> None:
    space = upgraded.space
    suspend(space, "suspended", "false")
    space.until_true("suspended", "PeersReady")
    assert is_current(space, "suspended") == [True, True]
    assert launcher_of(space, "suspended-0") == NEW


def test_new_jobs_get_the_new_defaults(upgraded: Upgraded) -> None:
    space = upgraded.space
    space.apply(
        peers("fresh", "--forever"), shell("fresh-redis", FOREVER, messageQueue={"type": "redis"})
    )
    for name in ("fresh", "fresh-redis"):
        space.until_true(name, "PeersReady")
        assert is_current(space, name) == [True, True]
    limits = [limits_of(space, server) for server in ("redis-mq", "fresh-redis-mq")]
    assert limits == [{"memory": "2Gi"}, {"memory": "2Gi", "cpu": "1"}]


def limits_of(space: Space, pod: str) -> Body:
    (container,) = json.loads(space.kubectl("get", "pod", pod, "-o", "json"))["spec"]["containers"]
    found: Body = container["resources"]["limits"]
    return found


def test_a_running_job_with_rejected_fields_recovers_and_a_new_one_is_invalid(
    upgraded: Upgraded,
) -> None:
    space = upgraded.space
    space.apply(*rejected("-new"))
    for name in REJECTED:
        before = identities(space, name)
        space.kubectl("delete", "pod", f"{name}-0", "--wait=false")
        until_healed(space, name, before, {f"{name}-0"}, 2)
        space.until_true(f"{name}-new", "Invalid")
        assert not space.pods(f"{name}-new")


def test_the_time_to_live_of_a_job_that_had_ended_before_can_be_set(upgraded: Upgraded) -> None:
    space = upgraded.space
    change = '{"spec":{"ttlSecondsAfterFinished":1}}'
    space.kubectl("patch", "dijob", "done", "--type=merge", "-p", change)
    space.until("the job is gone", lambda: str(space.job("done").get("metadata", "")), 60)


def test_a_second_upgrade_replaces_one_operator_after_the_other(upgraded: Upgraded) -> None:
    space = upgraded.space
    upgrade(space.cluster, space.cluster.kubeconfig)
    assert deployment(space)["strategy"]["type"] == "RollingUpdate"
