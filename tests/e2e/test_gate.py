"""The gate on a real kubelet: no program starts with a wrong list, pods at the gate end quickly,
and the status has a reason for each missing rank.
"""

import re
import statistics
import time
from collections import Counter
from functools import partial
from pathlib import Path

import pytest
from cluster import EMBEDDED, Cluster
from cluster.process import recorded
from jobs import LIGHT, job, mounted, peers, shell
from sockets import mesh, until_edges
from space import GATE, Body, Space, measured, waits_for_list, without_operator

pytestmark = pytest.mark.e2e

WITNESS_PORT = 7000
WITNESS = f"""
import socket
server = socket.create_server(("", {WITNESS_PORT}))
while True:
    connection, _ = server.accept()
    try:
        with connection, connection.makefile() as lines:
            said = lines.readline().strip()
    except OSError:
        continue  # a probe
    if said:
        print(said, flush=True)
"""
# Before it listens or dials, each program sends its peer list and its own identity to the witness.
SWEAR = f"""
exec 3<>/dev/tcp/$WITNESS/{WITNESS_PORT}
echo "$HOSTNAME $DI_LIST_NUMBER $DI_RANK $DI_NODES $(hostname -I)" >&3
exec 3>&-
exec light-peer --forever
"""


@pytest.fixture
def witness(space: Space) -> str:
    """Start a pod that logs what programs send to it, and return its address. It is Ready when it
    listens: a program that cannot reach it would fail.
    """
    command = ["python3", "-c", WITNESS]
    container: Body = {"name": "di-container", "image": LIGHT, "command": command}
    container["readinessProbe"] = {"tcpSocket": {"port": WITNESS_PORT}, "periodSeconds": 1}
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "witness"},
        "spec": {"containers": [container], "terminationGracePeriodSeconds": 1},
    }
    space.apply(pod)
    wait = ("wait", "--for=condition=Ready", "--timeout=120s", "pod/witness")
    space.kubectl(*wait, timeout=130)
    return space.kubectl("get", "pod", "witness", "-o", "jsonpath={.status.podIP}")


def starts(space: Space) -> int:
    """Return how many programs of the job have started, according to the kubelets' events about
    main containers. In a pod that was replaced, only the first start counts: in its new sandbox,
    the launcher waited for a list until the pod was deleted, and started no program.
    """
    chosen = (
        "--field-selector=reason=Started,involvedObject.fieldPath=spec.containers{di-container}"
    )
    path = '{range .items[*]}{.involvedObject.name} {.involvedObject.uid} {.count}{"\\n"}{end}'
    lines = space.kubectl("get", "events", chosen, "-o", f"jsonpath={path}").splitlines()
    counts = Counter[str]()
    for name, uid, count in map(str.split, lines):
        if name.startswith("world-"):
            counts[uid] += int(count)
    present = {pod["metadata"]["uid"] for pod in space.pods("world")}
    return sum(count if uid in present else 1 for uid, count in counts.items())


@pytest.fixture
def sworn(space: Space, witness: str) -> Space:
    """Start a job of three ranks whose programs send what they know to the witness."""
    return swear(space, witness)


@pytest.fixture
def gated(space: Space, witness: str) -> Space:
    """Start the same job with pods that have a gate."""
    return swear(space, witness, service="Always")


def swear(space: Space, witness: str, **spec: str) -> Space:
    if space.cluster.mode != EMBEDDED:
        pytest.skip("only the embedded cluster can kill a sandbox")
    world = shell("world", SWEAR, replicas=3, **spec)
    world["spec"]["template"]["spec"]["containers"][0]["env"] = [
        {"name": "WITNESS", "value": witness}
    ]
    space.apply(world)
    space.until_true("world", "Running")
    until_edges(space, "world", mesh(space.ips("world"), 1), [50515])
    return space


def test_a_dead_sandbox_renews_its_rank_and_those_that_dial_it_at_once(sworn: Space) -> None:
    sworn.cluster.kill_sandbox(sworn.name, "world-1")
    waited = sworn.until("a second list is in force", lambda: no_second_list(sworn), 180)
    measured("seconds from a killed sandbox to a whole set", f"{waited:.1f}")
    whole_and_true(sworn)


def test_the_gate_holds_a_pod_in_a_new_sandbox_until_a_list_names_it(gated: Space) -> None:
    """The operator is stopped meanwhile, so that the kubelet creates the new sandbox while the old
    list is active.
    """
    victim = gated.pods("world")[1]
    uid, old = victim["metadata"]["uid"], victim["status"]["podIP"]
    with without_operator(gated.cluster):
        gated.cluster.kill_sandbox(gated.name, "world-1")
        said = ""

        def passed() -> str:
            nonlocal said
            said = gate_log(gated.cluster, f"{gated.name}_world-1_{uid}")
            return "" if "a new peer list is needed" in said else said or "nothing said yet"

        gated.until("the gate waits in a new sandbox", passed, 180)
        # The same pod under another address, which is not in the list.
        assert gated.pods("world")[1]["metadata"]["uid"] == uid
        assert re.search(
            rf"the peer list has {re.escape(old)} for this rank, but this pod has"
            rf" (?!{re.escape(old)}\b)",
            said,
        ), said
    gated.until("a second list is in force", lambda: no_second_list(gated), 180)
    whole_and_true(gated)


def gate_log(cluster: Cluster, pod: str) -> str:
    """Return the log of a pod's newest gate from its node: kubelets of 1.34 do not report that the
    gate is running again.
    """
    kubelets = [
        process.pid
        for name, process in recorded(cluster.state).items()
        if name.endswith("-kubelet")
    ]
    folders = [Path(f"/proc/{pid}/root/var/log/pods/{pod}/{GATE}") for pid in kubelets]
    logs = [log for folder in folders for log in folder.glob("*.log")]
    return max(logs, key=lambda log: int(log.stem)).read_text() if logs else "no log"


def whole_and_true(space: Space) -> None:
    """Check that all connections exist, no failure was counted, and no program got a wrong list."""
    until_edges(space, "world", mesh(space.ips("world"), 1), [50515])
    told: list[list[str]] = []
    # Rank 0 connects to no other rank, so it keeps running with the first list.
    wanted = {(f"world-{r}", e) for r in range(3) for e in "12"[: min(r, 1) + 1]}

    def untold() -> str:
        """Return the difference between events and programs; "" once all events have arrived."""
        told[:] = [line.split() for line in space.kubectl("logs", "witness").splitlines()]
        all_told = {(host, number) for host, number, *_ in told} == wanted
        right = all_told and len(told) == starts(space)
        return "" if right else f"{starts(space)} starts, told are {told}"

    space.until("the witness has each start once", untold, 120)
    for host, number, rank, nodes, own in told:
        assert host == f"world-{rank}"
        assert nodes.split(",")[int(rank)] == own, (
            f"{host}, list {number}, has {nodes} and is {own}"
        )
    status = space.status("world")
    assert status["lastRenewal"]["reason"] in ("SandboxLost", "AddressChanged")
    assert status["lastRenewal"]["message"].startswith("rank 1: ")
    assert status.get("restarts", 0) == 0


def no_second_list(space: Space) -> str:
    status = space.status("world")
    ready = space.condition("world", "PeersReady").get("status") == "True"
    return (
        ""
        if status["listNumber"] == 2 and ready
        else f"list {status['listNumber']}, all ready {ready}"
    )


def remaining(space: Space, victim: Body) -> list[str]:
    return [pod["metadata"]["name"] for pod in space.pods("apart") if same(pod, victim)]


def apart(name: str) -> Body:
    """Return a job of three pods on different nodes. With two nodes, one pod waits."""
    terms = [
        {"labelSelector": {"matchLabels": {"apart": name}}, "topologyKey": "kubernetes.io/hostname"}
    ]
    affinity = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}
    made = peers(name, "--forever", pod={"affinity": affinity}, replicas=3)
    made["spec"]["template"]["metadata"] = {"labels": {"apart": name}}
    return made


def at_gate(space: Space, name: str) -> list[Body]:
    """Return the pods that wait for the peer list."""
    return [pod for pod in space.pods(name) if waits_for_list(pod)]


@pytest.mark.alone
def test_a_pod_deleted_at_the_gate_is_gone_in_under_3_seconds(space: Space) -> None:
    """A shell that is PID 1 and ignores SIGTERM would take the grace period of 30 s. None of the
    three pods may.
    """
    space.apply(apart("apart"))
    took = []
    for _ in range(3):
        space.until(
            "two wait at the gate",
            lambda: "" if len(at_gate(space, "apart")) == 2 else "not yet",
            60,
        )
        victim = at_gate(space, "apart")[0]["metadata"]
        begin = time.monotonic()
        space.api.core.delete_namespaced_pod(victim["name"], space.name)
        left = partial(remaining, space, victim)
        space.until_gone("the pod", left, 31)
        took.append(time.monotonic() - begin)
    measured(
        "seconds until a pod deleted at the gate is gone",
        " ".join(f"{seconds:.1f}" for seconds in took),
    )
    assert statistics.median(took) < 3
    assert max(took) < 10


def same(pod: Body, meta: Body) -> bool:
    return bool(pod["metadata"]["uid"] == meta["uid"])


ABSENT = mounted("absent", "/code")
HINDERED: dict[str, tuple[Body, list[str]]] = {
    "one-node-too-few": (apart("stuck"), ["rank ", "Unschedulable", "anti-affinity"]),
    "no-such-node": (
        peers("stuck", "--forever", pod={"nodeSelector": {"gpu": "none-has-it"}}),
        ["ranks 0-1: ", "Unschedulable", "affinity/selector"],
    ),
    "no-such-image": (
        job("stuck", {"image": "127.0.0.1:9/absent:1", "command": ["true"]}),
        ["ranks 0-1: ", "image 127.0.0.1:9/absent:1 cannot be pulled: "],
    ),
    "no-such-config-map": (
        job("stuck", {"command": ["true"], **ABSENT[0]}, pod=ABSENT[1]),
        ["ranks 0-1: ", 'configmap "absent" not found'],
    ),
}


@pytest.mark.alone
@pytest.mark.parametrize("case", HINDERED)
def test_a_job_that_cannot_start_reports_the_rank_and_the_reason_within_10_seconds(
    space: Space, case: str
) -> None:
    manifest, words = HINDERED[case]
    begin = time.monotonic()
    space.apply(manifest)
    said = ""

    def silent() -> str:
        nonlocal said
        conditions = space.status("stuck").get("conditions", ())
        said = "; ".join(c["message"] for c in conditions if c["status"] == "False")
        return "" if all(word in said for word in words) else f"{words} not all in {said!r}"

    space.until("the condition names rank and reason", silent, 15)
    seconds = time.monotonic() - begin
    measured(f"seconds until the condition says {case}", f"{seconds:.1f} ({said})")
    assert seconds < 10
