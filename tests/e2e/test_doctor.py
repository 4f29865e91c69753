"""`kubectl dijob doctor` against real pods: it finds each fault with its remedy, and no problem in
healthy jobs. Faults of nodes are in test_doctor_nodes.py.
"""

import json
from functools import partial
from pathlib import Path

import pytest
from asked import Wanted, asked, unfound
from cluster.shell import run
from faults.real_pods.looks import View
from identity import begun
from jobs import LIGHT, job, peers, shell, start_redis
from space import Body, Space
from users import write_kubeconfig

pytestmark = pytest.mark.e2e

KEPT = """
import socket, time
kept = socket.create_connection(("redis", 6379))
time.sleep(3600)
"""
TAKEN = "import socket, time; s = socket.create_server(('', 50515)); time.sleep(3600)"
# The source code and the version of torch differ between ranks. The program mentions a barrier, and
# fills /dev/shm.
MIXED = """
mkdir -p /tmp/site/torch-$DI_RANK.1.dist-info
printf 'Name: torch\\nVersion: %s.1\\n' $DI_RANK > /tmp/site/torch-$DI_RANK.1.dist-info/METADATA
echo "import time; barrier = $DI_RANK; time.sleep(3600)" > /tmp/main.py
head -c 2000000 /dev/zero > /dev/shm/fill
exec python3 /tmp/main.py
"""
NEW_REDIS = f"""
mkdir -p /tmp/site/redis-8.1.0.dist-info
printf 'Name: redis\\nVersion: 8.1.0\\n' > /tmp/site/redis-8.1.0.dist-info/METADATA
exec python3 -c '{KEPT}'
"""
EATER = "exec python3 -c 'a = [bytearray(1 << 20) for _ in range(500)]'"
REDIS = {"messageQueue": {"type": "redis", "host": "redis"}}


def mixed() -> Body:
    env = {"http_proxy": "http://proxy:3128", "NCCL_SOCKET_IFNAME": "eth9", "PYTHONPATH": SITE}
    volumes = [{"name": "shm", "emptyDir": {"medium": "Memory", "sizeLimit": "1Mi"}}]
    main = {
        "command": ["/bin/bash", "-c", MIXED],
        "env": [{"name": name, "value": value} for name, value in env.items()],
        "volumeMounts": [{"name": "shm", "mountPath": "/dev/shm"}],
    }
    return job("mixed", main, pod={"volumes": volumes}, parallelWorkers=3)


SITE = "/tmp/site"
LIMIT = {"resources": {"requests": {"cpu": "50m"}, "limits": {"memory": "64Mi"}}}
SIDECAR = {
    "name": "sidecar",
    "image": LIGHT,
    "imagePullPolicy": "IfNotPresent",
    "command": ["python3", "-c", TAKEN],
}
JOBS = [
    job("pull", {"image": "127.0.0.1:9/absent:1", "command": ["true"]}),
    peers("nodes", pod={"nodeSelector": {"gpu": "h100"}}),
    peers("full", replicas=3, pod={"hostNetwork": True}),
    shell("crash", "echo no model here; exit 3", replicas=1, backoffLimit=0),
    job("eats", {"command": ["bash", "-c", EATER], **LIMIT}, replicas=1, backoffLimit=0),
    mixed(),
    job(
        "redis8",
        {
            "command": ["bash", "-c", NEW_REDIS],
            "env": [{"name": "PYTHONPATH", "value": SITE}],
        },
        **REDIS,
    ),
    job("port", {"command": ["sleep", "3600"]}, pod={"containers": [SIDECAR]}),
    peers("blocked", "--forever"),
    peers("named", "--forever", addressing="Hostname"),
]
FAULTS: Wanted = {
    ("pull", "images"): ("127.0.0.1:9/absent:1 cannot be pulled", "imagePullSecrets"),
    ("pull", "status"): ("AddressesReady AddressMissing", "the job continues by itself"),
    ("nodes", "scheduling"): ("ranks 0-1 cannot be scheduled: 0/2", "nodeSelector"),
    ("full", "scheduling"): ("didn't have free ports", "only one pod per node can use a port"),
    ("crash", "failures"): ("exited 3: no model here", "logs crash --rank 0"),
    ("crash", "status"): ("Failed BackoffLimitExceeded", "kubectl logs"),
    ("eats", "failures"): (
        "ran out of memory (OOMKilled: the container's memory limit is 64Mi)",
        "limits.memory",
    ),
    ("mixed", "same source"): (
        "the source code differs between pods",
        "kubectl dijob restart mixed",
    ),
    ("mixed", "versions"): ("torch differs between pods (rank 0: 0.1, rank 1: 1.1)", "same image"),
    ("mixed", "proxies"): ("ranks 0-1: http_proxy is set", "no_proxy"),
    ("mixed", "interfaces"): ("NCCL_SOCKET_IFNAME is eth9", "set NCCL_SOCKET_IFNAME to eth0"),
    ("mixed", "shared memory"): ("ranks 0-1: /dev/shm (1 MiB) is full", "medium: Memory"),
    ("mixed", "barrier"): ("the job has 6 processes", "task.wait_for"),
    ("mixed", "connections"): ("nothing listens on port 50515 of rank 0", "Parallel.runner"),
    ("mixed", "isolation"): ("ranks 0-1: running without any connection", "Parallel.runner"),
    ("redis8", "versions"): ("redis-py 8.1.0 loses large messages", "redis<8"),
    ("port", "ports"): ("port 50515 of rank 0 is in use by a process outside", "--ports"),
    ("blocked", "reachability"): (
        "rank 1 cannot reach rank 0 port 50515",
        "policies select the job's pods: closed",
    ),
    ("blocked", "connections"): ("missing: rank 1 -> rank 0 port 50515", "`reachability`"),
    ("named", "dns"): ("named-0.named does not resolve", "kube-dns"),
}
CLOSED = {
    "apiVersion": "networking.k8s.io/v1",
    "kind": "NetworkPolicy",
    "metadata": {"name": "closed"},
    "spec": {"podSelector": {"matchLabels": {"diengine/job": "blocked"}}},
}


def drop(space: Space, pod: str, *rule: str) -> None:
    inside = ("nsenter", f"--target={View.of(space).pause(pod)}", "--net", "iptables")
    run([*inside, "-A", *rule, "-j", "DROP"])


def test_each_fault_is_found_with_its_remedy(space: Space) -> None:
    start_redis(space)
    space.apply(CLOSED, *JOBS)
    for name in ("blocked", "named"):
        space.until_true(name, "Running")
        # Without DNS, a rank that has not resolved its own name yet could not start.
        begun(space, [f"{name}-0", f"{name}-1"])
    drop(space, "blocked-0", "INPUT", "-p", "tcp", "--dport", "50515")
    drop(space, "named-1", "OUTPUT", "-p", "udp", "--dport", "53")
    for name in dict.fromkeys(name for name, _ in FAULTS):
        space.until(f"doctor of {name}", partial(unfound, space, name, FAULTS), 240)


PROXY = {
    "name": "proxy",
    "image": LIGHT,
    "imagePullPolicy": "IfNotPresent",
    "restartPolicy": "Always",
    "command": ["/bin/bash", "-c", "trap '' TERM; while :; do sleep 1; done"],
}
ENDS = "trap 'exit 0' TERM; sleep 3600 & wait"
HELD: Wanted = {
    ("slow", "terminating pods"): (
        "containers proxy, di-container were still running",
        "terminationGracePeriodSeconds",
    ),
    ("kept", "terminating pods"): (
        "finalizer example.com/hold blocks its deletion",
        "finalizer's controller",
    ),
}


def test_the_reason_that_keeps_an_old_pod_is_reported(space: Space) -> None:
    """Regression test for the reports C25 and C41."""
    slow = {"terminationGracePeriodSeconds": 300, "initContainers": [PROXY]}
    space.apply(shell("slow", ENDS, pod=slow), shell("kept", ENDS))
    for name in ("slow", "kept"):
        space.until_true(name, "Running")
    hold = {"metadata": {"finalizers": ["example.com/hold"]}}
    space.kubectl("patch", "pod", "kept-1", "--type=merge", "-p", json.dumps(hold))
    space.kubectl("delete", "pod", "slow-1", "kept-1", "--wait=false")
    try:
        for name in ("slow", "kept"):
            space.until(f"doctor of {name}", partial(unfound, space, name, HELD), 180)
    finally:
        free = {"metadata": {"finalizers": None}}
        space.kubectl("patch", "pod", "kept-1", "--type=merge", "-p", json.dumps(free))
        space.kubectl("delete", "pod", "slow-1", "--grace-period=0", "--force")


def test_a_rank_that_crashes_makes_no_line_unknown(space: Space) -> None:
    """Regression test for the report N3."""
    space.apply(shell("half", "test $DI_RANK = 0 && exec sleep 3600; echo no model; exit 3"))
    wanted = {("half", "failures"): ("exited 3: no model", "logs half --rank 1")}
    space.until("doctor of half", partial(unfound, space, "half", wanted), 60)
    told = ""

    def young() -> str:
        nonlocal told
        _, told = asked(space, "doctor", "half")
        return told if "started within the last 30 s" in told else ""

    space.until("the connections are not too young to be judged", young, 60)
    assert "UNKNOWN" not in told, told
    assert "PROBLEM   connections" not in told, told
    assert "PROBLEM   isolation" not in told, told


@pytest.mark.long
def test_a_program_that_is_silent_for_a_minute(space: Space) -> None:
    """Regression test for the report N2."""
    space.apply(peers("quiet", "--forever", replicas=1))
    space.until_true("quiet", "Running")
    hint = "or hanging: kubectl dijob doctor quiet --stacks"

    def problem() -> str:
        _, told = asked(space, "doctor", "quiet")
        return "" if hint in told.splitlines()[-1] else told

    space.until("the hint", problem, 120)


QUOTA = {
    "apiVersion": "v1",
    "kind": "ResourceQuota",
    "metadata": {"name": "small"},
    "spec": {"hard": {"pods": "1"}},
}
# A user who may only read jobs and pods.
VIEWER = """
apiVersion: v1
kind: ServiceAccount
metadata: {name: viewer}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: viewer}
rules:
- {apiGroups: [diengine.opendilab.org], resources: [dijobs], verbs: [get]}
- {apiGroups: [""], resources: [pods], verbs: [get, list]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: viewer}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: viewer}
subjects: [{kind: ServiceAccount, name: viewer}]
"""


def test_a_quota_and_missing_permissions_are_reported(space: Space, tmp_path: Path) -> None:
    space.apply(peers("small", "--forever"))
    space.until_true("small", "Running")
    space.kubectl("apply", "-f", "-", stdin=VIEWER)
    token = space.kubectl("create", "token", "viewer")
    config = write_kubeconfig(space.kubectl, token, tmp_path / "kubeconfig")
    code, told = asked(space, "doctor", "small", kubeconfig=str(config))
    assert code == 0, told
    assert "UNKNOWN   quota" in told
    assert 'User "system:serviceaccount:' in told
    assert "cannot create resource" in told or "cannot get resource" in told

    space.apply(QUOTA)
    space.kubectl("delete", "pod", "small-1", "--wait=false")
    wanted = {
        ("small", "quota"): ("exceeded quota: small", "raise the quota"),
        ("small", "status"): ("PodsCreated PodForbidden", "make room in the quota"),
    }
    space.until("doctor of small", partial(unfound, space, "small", wanted), 180)


def healthy() -> list[Body]:
    kept = {"command": ["python3", "-c", KEPT]}
    return [
        peers("mesh", "--forever"),
        peers("mesh2", "--forever", replicas=3, parallelWorkers=2),
        peers("star", "--forever", replicas=3, topology="star"),
        peers("star2", "--forever", parallelWorkers=2, topology="star"),
        peers("alone", "--forever", topology="alone"),
        peers("names", "--forever", addressing="Hostname"),
        peers("single", "--forever", replicas=1),
        peers("off", "--forever", launcher="Off"),
        job("queue", kept, **REDIS),
        peers("done", replicas=2),
    ]


def test_ten_healthy_jobs_have_no_problem(space: Space) -> None:
    jobs = healthy()
    start_redis(space)
    space.apply(*jobs)
    for body in jobs:
        name = body["metadata"]["name"]
        space.until_true(name, "Succeeded" if name == "done" else "PeersReady", 240)
    for body in jobs:
        name = body["metadata"]["name"]
        code, told = asked(space, "doctor", name)
        assert code == 0, told
        assert "PROBLEM" not in told
        assert "UNKNOWN" not in told, told
