"""Evidence of a healthy job for tests of `doctor`, in which single parts can be replaced."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from dijob.cli.doctor.evidence import Evidence
from dijob.cli.doctor.probe import Probe
from dijob.cli.doctor.verdict import CheckStatus
from dijob.cli.topology.compare import ProbedPod, compare_connections
from dijob.cli.topology.expected import ExpectedWorld, world_of
from dijob.cli.topology.sockets import SocketConnection, Sockets
from dijob.client import Job, RankPod
from manifests import dijob

Body = dict[str, Any]
RANK = "diengine.opendilab.org/rank"
LIST = "diengine.opendilab.org/list-number"
OK, PROBLEM, UNKNOWN = CheckStatus.OK, CheckStatus.PROBLEM, CheckStatus.UNKNOWN


def condition(kind: str, reason: str, message: str = "", status: str = "True") -> Body:
    return {"type": kind, "status": status, "reason": reason, "message": message}


def job(*conditions: Body, spec: Any = None, **status: Any) -> Job:
    body = dijob("test", {"image": "x", "command": ["a"]}, **{"replicas": 2, **(spec or {})})
    known = {"phase": "Running", "message": "all 2 ranks are running", "listNumber": 3, **status}
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
        },
        rank,
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


def connected(of: ExpectedWorld, up: bool = True, **more: Any) -> tuple[ProbedPod, ProbedPod]:
    """Return two pods; rank 1 dials rank 0."""
    ends = [SocketConnection("10.0.0.1", 50515, "10.0.0.2", 40000, "2")] if up else []
    zero = Sockets(tuple(ends), {50515: frozenset({"1"})}, {"1": frozenset({7})}, True)
    far = [SocketConnection("10.0.0.2", 40000, "10.0.0.1", 50515, "3")] if up else []
    one = Sockets(tuple(far), {50515: frozenset({"1"})}, {"1": frozenset({7})}, True)
    return (
        ProbedPod(0, "test-0", frozenset({"10.0.0.1"}), replace(zero, **more)),
        ProbedPod(1, "test-1", frozenset({"10.0.0.2"}), one),
    )


def evidence(
    of: Job | None = None, *, up: bool = True, sockets: Any = None, **more: Any
) -> Evidence:
    """Return the evidence of a healthy job, in which the given parts replace the healthy ones."""
    known = of or job()
    world = world_of(known.model)
    report = compare_connections("test", world, connected(world, up, **(sockets or {})))
    pods, probes = more.pop("pods", [pod(0), pod(1)]), more.pop("probes", {0: GOOD, 1: GOOD})
    return Evidence(known, pods, probes, report, **more)


def second(**changes: Any) -> Mapping[int, Probe]:
    """Return a healthy probe of rank 0, and one of rank 1 with changes."""
    return {0: GOOD, 1: replace(GOOD, **changes)}


def both(**changes: Any) -> Mapping[int, Probe]:
    return dict.fromkeys((0, 1), replace(GOOD, **changes))


@dataclass(frozen=True)
class Case:
    """A check, its evidence, and the expected finding and remedy."""

    check: str
    evidence: Evidence
    status: CheckStatus
    said: str
    remedy: str = ""


def policy(name: str, **selector: Any) -> Body:
    return {"metadata": {"name": name}, "spec": {"podSelector": selector}}


TORCH = job(spec={"runtime": "torch"})
REDIS = job(spec={"messageQueue": {"type": "redis", "host": "r"}})
