"""`doctor`: from recorded evidence to verdict and remedy, for each check."""

import json
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

import pytest
from dijob.cli.doctor import checks, probe
from dijob.cli.doctor.collect import names, targets
from dijob.cli.doctor.evidence import Evidence
from dijob.cli.doctor.of_network import selects
from dijob.cli.doctor.probe import Probe
from dijob.cli.doctor.verdict import Status
from dijob.cli.topology.compare import Pod, compare
from dijob.cli.topology.expected import World, world_of
from dijob.cli.topology.sockets import Connection, Sockets
from dijob.client import Job, RankPod
from manifests import dijob

Body = dict[str, Any]
RANK = "diengine.opendilab.org/rank"
LIST = "diengine.opendilab.org/list-number"
OK, PROBLEM, UNKNOWN = Status.OK, Status.PROBLEM, Status.UNKNOWN


def condition(kind: str, reason: str, message: str = "", status: str = "True") -> Body:
    return {"type": kind, "status": status, "reason": reason, "message": message}


def job(*conditions: Body, spec: Any = None, **status: Any) -> Job:
    body = dijob("test", {"image": "x", "command": ["a"]}, **{"replicas": 2, **(spec or {})})
    known = {"phase": "Running", "message": "all 2 ranks run", "listNumber": 3, **status}
    return Job({**body, "status": {**known, "conditions": list(conditions)}})


def pod(rank: int, *, main: Any = None, status: Any = None, spec: Any = None) -> RankPod:
    given = {"name": "di-container", "image": "x", "imageID": "r/x@sha256:1", "ready": True}
    state = {**given, "state": {"running": {}}, **(main or {})}
    found = {"podIP": f"10.0.0.{rank + 1}", "containerStatuses": [state], **(status or {})}
    return RankPod(
        {
            "metadata": {
                "name": f"test-{rank}",
                "labels": {RANK: str(rank), "diengine/job": "test"},
                "annotations": {LIST: "3"},
            },
            "spec": {
                "nodeName": f"n{rank}",
                "containers": [{"name": "di-container"}],
                **(spec or {}),
            },
            "status": found,
        }
    )


VERSIONS = {"python": "3.11.2", "DI-engine": "0.5.3", "torch": "2.6.0"}
GOOD = Probe(
    time=100.0,
    asked=(99.9, 100.1),
    interfaces=("eth0", "lo", "tunl0"),
    shm=(64 << 20, 60 << 20),
    list_number=3,
    files=1,
    digest="abc",
    versions=VERSIONS,
)


def connected(of: World, up: bool = True, **more: Any) -> tuple[Pod, Pod]:
    """Two pods, of which rank 1 dials rank 0."""
    ends = [Connection("10.0.0.1", 50515, "10.0.0.2", 40000, "2")] if up else []
    zero = Sockets(tuple(ends), {50515: frozenset({"1"})}, {"1": frozenset({7})}, True)
    far = [Connection("10.0.0.2", 40000, "10.0.0.1", 50515, "3")] if up else []
    one = Sockets(tuple(far), {50515: frozenset({"1"})}, {"1": frozenset({7})}, True)
    return (
        Pod(0, "test-0", frozenset({"10.0.0.1"}), replace(zero, **more)),
        Pod(1, "test-1", frozenset({"10.0.0.2"}), one),
    )


def evidence(
    of: Job | None = None, *, up: bool = True, sockets: Any = None, **more: Any
) -> Evidence:
    """Those of a healthy job, with what is given in their place."""
    known = of or job()
    world = world_of(known.model)
    report = compare("test", world, connected(world, up, **(sockets or {})))
    pods, probes = more.pop("pods", [pod(0), pod(1)]), more.pop("probes", {0: GOOD, 1: GOOD})
    return Evidence(known, pods, probes, report, **more)


def second(**changes: Any) -> Mapping[int, Probe]:
    """Rank 0 as it should be, rank 1 not."""
    return {0: GOOD, 1: replace(GOOD, **changes)}


def both(**changes: Any) -> Mapping[int, Probe]:
    return dict.fromkeys((0, 1), replace(GOOD, **changes))


@dataclass(frozen=True)
class Case:
    """Which check says what about which evidence, and what to do."""

    check: str
    evidence: Evidence
    status: Status
    said: str
    remedy: str = ""


def waiting(reason: str, message: str) -> Body:
    return {"state": {"waiting": {"reason": reason, "message": message}}}


def unschedulable(why: str) -> Body:
    told = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": why}
    return {"conditions": [told]}


def ended(code: int, reason: str = "Error", message: str = "") -> Body:
    end = {"exitCode": code, "reason": reason, "message": message}
    return {"lastState": {"terminated": end}}


def policy(name: str, **selector: Any) -> Body:
    return {"metadata": {"name": name}, "spec": {"podSelector": selector}}


TORCH = job(spec={"runtime": "torch"})
REDIS = job(spec={"messageQueue": {"type": "redis", "host": "r"}})
SIX = job(spec={"parallelWorkers": 3})
HOST = {"hostNetwork": True}
NOW = datetime(2026, 11, 25, 12, 0, 20, tzinfo=UTC)
BEGUN = pod(1, main={"state": {"running": {"startedAt": "2026-11-25T12:00:00Z"}}})
BLOCKED = second(reach={("10.0.0.1", 50515): "timed out"})
CASES = {
    "problem of the status": Case(
        "status",
        evidence(job(condition("Running", "Blocked", "rank 1: it crashes", "False"))),
        PROBLEM,
        "Running Blocked: rank 1: it crashes",
        "correct the image or the command",
    ),
    "a condition that was one": Case(
        "status",
        evidence(job(condition("Invalid", "SpecInvalid", "x", "False"))),
        OK,
        "Running: all",
    ),
    "no operator": Case(
        "status", evidence(job(phase="")), PROBLEM, "no operator has looked", "kubectl get deploy"
    ),
    "no node": Case(
        "nodes",
        evidence(pods=[pod(0), pod(1, status=unschedulable("0/2 nodes: Insufficient cpu"))]),
        PROBLEM,
        "rank 1 found no node: 0/2 nodes: Insufficient cpu",
        "ask for less",
    ),
    "a claim without a volume": Case(
        "nodes",
        evidence(
            pods=[pod(0, status=unschedulable("pod has unbound immediate PersistentVolumeClaims."))]
        ),
        PROBLEM,
        "rank 0 found no node: pod has unbound immediate",
        "a claim has no volume: kubectl get pvc; the cluster needs a StorageClass",
    ),
    "no claim": Case(
        "nodes",
        evidence(pods=[pod(0, status=unschedulable('persistentvolumeclaim "out" not found'))]),
        PROBLEM,
        'persistentvolumeclaim "out" not found',
        "make the claim, or correct its name",
    ),
    "no free port": Case(
        "nodes",
        evidence(pods=[pod(0, status=unschedulable("didn't have free ports"))]),
        PROBLEM,
        "free ports",
        "hostNetwork",
    ),
    "no image": Case(
        "images",
        evidence(pods=[pod(0, main=waiting("ImagePullBackOff", "not found")), pod(1)]),
        PROBLEM,
        "rank 0: image x cannot be pulled (ImagePullBackOff): not found",
        "push it",
    ),
    "quota": Case(
        "quota",
        evidence(job(condition("PodsCreated", "PodForbidden", "exceeded quota: q", "False"))),
        PROBLEM,
        "exceeded quota: q",
        "raise the quota",
    ),
    "quotas that may not be read": Case(
        "quota",
        evidence(quotas=None, refused={"quotas": "you cannot list"}),
        UNKNOWN,
        "you cannot list",
        "ask for the right",
    ),
    "a quota with room": Case(
        "quota",
        evidence(quotas=[{"metadata": {"name": "q"}}]),
        OK,
        "the quotas of the namespace (q)",
    ),
    "out of memory": Case(
        "failures",
        evidence(pods=[pod(0, main=ended(137, "OOMKilled")), pod(1)]),
        PROBLEM,
        "rank 0, container di-container, ran out of memory",
        "limits.memory",
    ),
    "a failure": Case(
        "failures",
        evidence(pods=[pod(0), pod(1, main=ended(1, message="Traceback\nKeyError: 'a'\n"))]),
        PROBLEM,
        "ended with exit code 1: KeyError: 'a'",
        "logs test --rank 1 --previous",
    ),
    "a start with a new list is none": Case(
        "failures", evidence(pods=[pod(0, main=ended(85))]), OK, "no container has failed"
    ),
    "a failure whose pod is gone": Case(
        "failures",
        evidence(job(firstFailure={"rank": 1, "exitCode": 2, "message": "bad"})),
        PROBLEM,
        "rank 1, container di-container, ended with exit code 2: bad",
        "--rank 1",
    ),
    "a failure of which the kubelet knows no more": Case(
        "failures",
        evidence(
            job(firstFailure={"rank": 0, "exitCode": 3, "message": "no model here"}),
            pods=[pod(0, main=ended(137, "ContainerStatusUnknown"))],
        ),
        PROBLEM,
        "rank 0, container di-container, ended with exit code 3: no model here",
        "--rank 0",
    ),
    "memory of which the kubelet knows no more": Case(
        "failures",
        evidence(
            job(firstFailure={"rank": 0, "exitCode": 137, "reason": "OOMKilled"}),
            pods=[pod(0, main=ended(137, "ContainerStatusUnknown"))],
        ),
        PROBLEM,
        "ran out of memory",
        "limits.memory",
    ),
    "a tag that moved": Case(
        "same image",
        evidence(pods=[pod(0), pod(1, main={"imageID": "r/x@sha256:2"})]),
        PROBLEM,
        "x is not the same image on all nodes (rank 0: sha256:1, rank 1: sha256:2)",
        "by its digest",
    ),
    "one node's ports": Case(
        "host network",
        evidence(
            pods=[pod(0, spec={**HOST, "nodeName": "n"}), pod(1, spec={**HOST, "nodeName": "n"})]
        ),
        PROBLEM,
        "ranks 0-1 share node n",
        "leave hostNetwork out",
    ),
    "ports of two nodes": Case(
        "host network", evidence(pods=[pod(0, spec=HOST), pod(1, spec=HOST)]), OK, "alone"
    ),
    "another source": Case(
        "same source",
        evidence(probes=second(digest="def")),
        PROBLEM,
        "the source differs between pods (rank 0: abc; rank 1: def)",
        "the same code",
    ),
    "another torch": Case(
        "versions",
        evidence(probes=second(versions={**VERSIONS, "torch": "1.13.1"})),
        PROBLEM,
        "torch differs between pods (rank 0: 2.6.0, rank 1: 1.13.1)",
        "pin its version",
    ),
    "redis 8": Case(
        "versions",
        evidence(REDIS, probes=both(versions={**VERSIONS, "redis": "8.1.0"})),
        PROBLEM,
        "ranks 0-1: redis-py 8.1.0 loses",
        "redis<8",
    ),
    "redis 8 that nobody uses": Case(
        "versions",
        evidence(probes=both(versions={**VERSIONS, "redis": "8.1.0"})),
        OK,
        "torch 2.6.0",
    ),
    "an older list": Case(
        "address list",
        evidence(job(listNumber=4)),
        PROBLEM,
        "ranks 0-1: an older list than the newest, 4",
        "ChangesRefused",
    ),
    "a list on its way": Case(
        "address list",
        evidence(job(condition("PeersReady", "Renewing", "rank 1 is lost", "False"), listNumber=4)),
        UNKNOWN,
        "on its way: rank 1 is lost",
    ),
    "a file that is late": Case(
        "address list",
        evidence(probes=second(list_number=2)),
        PROBLEM,
        "rank 1: /run/dijob/topology.json is not of",
        "within 90 s",
    ),
    "no such name": Case(
        "names",
        evidence(probes=second(names={"test-0.test": "Name or service not known"})),
        PROBLEM,
        "in rank 1: test-0.test does not resolve (Name or service not known)",
        "kube-dns",
    ),
    "another's address": Case(
        "names",
        evidence(probes=second(names={"test-0.test": ("10.9.9.9",)})),
        PROBLEM,
        "test-0.test is 10.9.9.9, and its pod has 10.0.0.1",
        "DNS",
    ),
    "names that are right": Case(
        "names", evidence(probes=second(names={"test-0.test": ("10.0.0.1",)})), OK, "all 1 names"
    ),
    "blocked, by a policy?": Case(
        "reach",
        evidence(
            probes=BLOCKED,
            policies=[
                policy("a", matchLabels={"diengine/job": "test"}),
                policy("b", matchLabels={"x": "y"}),
            ],
        ),
        PROBLEM,
        "rank 1 cannot reach rank 0 port 50515 (10.0.0.1): timed out",
        "these network policies select the job's pods: a;",
    ),
    "blocked, by no policy": Case(
        "reach",
        evidence(probes=BLOCKED),
        PROBLEM,
        "timed out",
        "no network policy of the namespace",
    ),
    "blocked, policies unread": Case(
        "reach",
        evidence(probes=BLOCKED, policies=None, refused={"policies": "forbidden"}),
        PROBLEM,
        "timed out",
        "which you may not read here (forbidden)",
    ),
    "who refuses is there": Case(
        "reach", evidence(probes=second(reach={("10.0.0.1", 50515): "refused"})), OK, "all 1 ports"
    ),
    "a server that refuses": Case(
        "reach", evidence(probes=second(reach={("r", 6379): "refused"})), PROBLEM, "r port 6379", ""
    ),
    "a stranger's port": Case(
        "ports",
        evidence(up=False, sockets={"listening": {50515: frozenset({"9"})}}),
        PROBLEM,
        "port 50515 of rank 0 is taken",
        "other --ports",
    ),
    "processes that hide what they hold": Case(
        "ports",
        evidence(up=False, sockets={"listening": {50515: frozenset({"9"})}, "complete": False}),
        OK,
        "no port is taken",
    ),
    "an edge is missing": Case(
        "edges",
        evidence(up=False),
        PROBLEM,
        "missing: rank 1 -> rank 0 port 50515",
        "logs test --rank 1",
    ),
    "an edge of a program that has just begun": Case(
        "edges", evidence(up=False, pods=[pod(0), BEGUN], now=NOW), UNKNOWN, "rank 1 began", "again"
    ),
    "alone, as it has just begun": Case(
        "alone", evidence(up=False, pods=[BEGUN], now=NOW), OK, "every rank"
    ),
    "nobody listens": Case(
        "edges", evidence(up=False, sockets={"listening": {}}), PROBLEM, "nothing listens", "runner"
    ),
    "alone": Case(
        "alone",
        evidence(up=False),
        PROBLEM,
        "ranks 0-1: running, and connected to nobody",
        "launcher",
    ),
    "a proxy": Case(
        "proxies",
        evidence(probes=both(env={"ALL_PROXY": "http://p", "no_proxy": "localhost,10.0.0.1"})),
        PROBLEM,
        "ranks 0-1: all_proxy is set",
        "no_proxy",
    ),
    "a proxy that is passed by": Case(
        "proxies",
        evidence(probes=both(env={"http_proxy": "p", "NO_PROXY": "10.0.0.0/8"})),
        OK,
        "no proxy",
    ),
    "no such interface": Case(
        "interfaces",
        evidence(probes=second(env={"GLOO_SOCKET_IFNAME": "ib0"})),
        PROBLEM,
        "rank 1: GLOO_SOCKET_IFNAME is ib0, and there is no such interface (eth0)",
        "set GLOO_SOCKET_IFNAME to eth0",
    ),
    "virtual interfaces": Case(
        "interfaces",
        evidence(TORCH, probes=second(interfaces=("docker0", "eth0", "lo"))),
        PROBLEM,
        "rank 1 has several interfaces (docker0, eth0)",
        "set NCCL_SOCKET_IFNAME",
    ),
    "interfaces that nobody chooses from": Case(
        "interfaces", evidence(probes=second(interfaces=("docker0", "eth0", "lo"))), OK, "nothing"
    ),
    "an interface by exclusion": Case(
        "interfaces",
        evidence(TORCH, probes=both(env={"NCCL_SOCKET_IFNAME": "^docker"})),
        OK,
        "nothing",
    ),
    "full": Case(
        "shared memory",
        evidence(probes=second(shm=(64 << 20, 1 << 20))),
        PROBLEM,
        "rank 1: /dev/shm (64 MiB) is full",
        "medium: Memory",
    ),
    "clocks": Case(
        "clocks",
        evidence(probes=second(time=103.0)),
        PROBLEM,
        "the clocks of ranks 0 and 1 are 3.0 s apart (to within 0.2 s)",
        "chrony",
    ),
    "a slow answer is no skew": Case(
        "clocks", evidence(probes=second(time=103.0, asked=(98.0, 104.0))), OK, "to within"
    ),
    "one clock": Case("clocks", evidence(probes={0: GOOD}), OK, "one pod"),
    "barrier": Case(
        "barrier",
        evidence(SIX, probes=both(barrier=True)),
        PROBLEM,
        "the job has 6 processes",
        "task.wait_for",
    ),
    "barrier of few": Case("barrier", evidence(probes=both(barrier=True)), OK, "2 processes"),
    "no barrier": Case("barrier", evidence(SIX), OK, "no barrier in the source"),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_verdict(case: Case) -> None:
    (row,) = (row for row in checks.CHECKS if row.name == case.check)
    found = list(row.look(case.evidence))
    assert any(
        one.status is case.status and case.said in one.text and case.remedy in one.remedy
        for one in found
    ), found
    assert case.status is PROBLEM or all(one.status is not PROBLEM for one in found)
    assert all(one.remedy for one in found if one.status is PROBLEM)


def test_each_check_can_find_a_problem() -> None:
    assert {c.check for c in CASES.values() if c.status is PROBLEM} == {
        row.name for row in checks.CHECKS
    }


@pytest.mark.parametrize(
    "of",
    [
        evidence(),
        evidence(TORCH, sockets={}),
        evidence(REDIS, probes=both(names={"r": ("10.9.9.9",)})),
    ],
    ids=["nng", "torch", "redis"],
)
def test_a_healthy_job_has_no_problem(of: Evidence) -> None:
    # The table of connections is that of nng: of the others only what does not depend on it.
    bad = [
        (name, one)
        for name, one in checks.findings(of)
        if one.status is not OK
        and name
        not in (
            ()
            if of.job.model.queue == "nng" and of.job.model.spec.runtime == "ditask"
            else ("edges", "alone")
        )
    ]
    assert not bad


def test_who_cannot_be_asked_is_unknown_with_the_reason() -> None:
    silent = {0: GOOD, 1: Probe(problem="pods/exec is forbidden")}
    found = checks.findings(evidence(probes=silent))
    unknown = {name: one.text for name, one in found if one.status is UNKNOWN}
    assert {"same source", "versions", "names", "reach", "proxies", "clocks"} <= unknown.keys()
    assert set(unknown.values()) == {"rank 1: pods/exec is forbidden"}
    assert not checks.problems(found)


def test_of_a_job_that_has_ended_only_what_needs_no_process_is_looked_at() -> None:
    found = checks.findings(Evidence(job(), [pod(0)]))
    assert [name for name, _ in found] == [row.name for row in checks.CHECKS if not row.live]


def test_what_is_printed() -> None:
    found = checks.findings(evidence(probes=second(digest="def")))
    said = checks.text("test", found)
    assert "PROBLEM   same source     the source differs between pods" in said
    assert "\n" + " " * 23 + "   -> mount the same code" in said
    assert said.endswith("\ntest: 1 problem")
    told = checks.data("test", found)
    assert (told["healthy"], len(told["checks"])) == (False, len(checks.CHECKS))


@pytest.mark.parametrize(
    ("selector", "wanted"),
    [
        pytest.param({}, True, id="all pods"),
        pytest.param({"matchLabels": {"a": "1"}}, True, id="label"),
        pytest.param({"matchLabels": {"a": "2"}}, False, id="another value"),
        pytest.param(
            {"matchExpressions": [{"key": "a", "operator": "In", "values": ["1"]}]}, True, id="In"
        ),
        pytest.param(
            {"matchExpressions": [{"key": "a", "operator": "NotIn", "values": ["1"]}]},
            False,
            id="NotIn",
        ),
        pytest.param(
            {"matchExpressions": [{"key": "b", "operator": "Exists"}]}, False, id="Exists"
        ),
        pytest.param(
            {"matchExpressions": [{"key": "b", "operator": "DoesNotExist"}]},
            True,
            id="DoesNotExist",
        ),
    ],
)
def test_which_policies_are_about_a_pod(selector: Body, wanted: bool) -> None:
    assert selects(policy("p", **selector), {"a": "1"}) is wanted


def test_what_a_rank_is_asked_for() -> None:
    named = job(spec={"replicas": 3, "addressing": "Hostname"})
    world = world_of(named.model)
    assert names(named, 1, world) == ["test-0.test", "test-1.test"]
    pods = [pod(0), pod(1), pod(2)]
    assert targets(named, pods, 2, world) == [("10.0.0.1", 50515), ("10.0.0.2", 50515)]
    redis = world_of(REDIS.model)
    assert (names(REDIS, 0, redis), targets(REDIS, pods, 0, redis)) == (["r"], [("r", 6379)])


def test_the_look_from_inside_runs_in_a_plain_python() -> None:
    """On this machine, where it finds whatever runs."""
    words = probe.command(["localhost", "no.such.invalid"], [("127.0.0.1", 9)])[0]
    done = subprocess.run([sys.executable, *words[1:]], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    found = probe.read(done.stdout, (0.0, 1.0))
    assert not found.problem
    assert "127.0.0.1" in found.names["localhost"]
    assert isinstance(found.names["no.such.invalid"], str)
    assert found.reach == {("127.0.0.1", 9): "refused"}
    assert found.interfaces
    assert found.versions["python"].startswith("3.")
    assert "cannot be read" in probe.read("[]\n", (0.0, 1.0)).problem
    assert json.loads(words[3])["names"] == ["localhost", "no.such.invalid"]
