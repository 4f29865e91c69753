"""Cases for the checks of `doctor` that need answers of the pods: programs and network."""

from dataclasses import replace
from datetime import UTC, datetime

from dijob.cli.topology.compare import compare_connections
from dijob.cli.topology.expected import reported_world
from unit.cli.evidence import (
    GOOD,
    OK,
    PROBLEM,
    REDIS,
    TORCH,
    UNKNOWN,
    VERSIONS,
    Case,
    both,
    condition,
    evidence,
    job,
    pod,
    policy,
    second,
)

SIX = job(spec={"parallelWorkers": 3})
ONE_EACH = job(spec={"parallelWorkers": 1})
SIX_REPORTED = reported_world(job().model, {0: 3, 1: 3})

NOW = datetime(2026, 11, 25, 12, 0, 20, tzinfo=UTC)
CHANNEL = {"containers": [{"name": "di-container", "env": [{"name": "DIJOB_CHANNEL"}]}]}
BEGUN = pod(1, main={"state": {"running": {"startedAt": "2026-11-25T12:00:00Z"}}})
BLOCKED = second(reach={("10.0.0.1", 50515): "timed out"})

OF_PODS: dict[str, Case] = {
    "different source code": Case(
        "same source",
        evidence(probes=second(digest="def")),
        PROBLEM,
        "the source code differs between pods (rank 0: abc; rank 1: def)",
        "the same code",
    ),
    "different torch versions": Case(
        "versions",
        evidence(probes=second(versions={**VERSIONS, "torch": "1.13.1"})),
        PROBLEM,
        "torch differs between pods (rank 0: 2.6.0, rank 1: 1.13.1)",
        "pin the version of torch",
    ),
    "redis 8": Case(
        "versions",
        evidence(REDIS, probes=both(versions={**VERSIONS, "redis": "8.1.0"})),
        PROBLEM,
        "ranks 0-1: redis-py 8.1.0 loses",
        "redis<8",
    ),
    "redis 8 in a job that does not use Redis": Case(
        "versions",
        evidence(probes=both(versions={**VERSIONS, "redis": "8.1.0"})),
        OK,
        "torch 2.6.0",
    ),
    "a stale peer list": Case(
        "peer list",
        evidence(job(listNumber=4)),
        PROBLEM,
        "ranks 0-1: the pod's peer list is older than the current revision 4",
        "ChangesRefused",
    ),
    "a re-rendezvous in progress": Case(
        "peer list",
        evidence(job(condition("PeersReady", "Renewing", "rank 1 is lost", "False"), listNumber=4)),
        UNKNOWN,
        "is in progress: rank 1 is lost",
    ),
    "a stale topology.json": Case(
        "peer list",
        evidence(probes=second(list_number=2)),
        PROBLEM,
        "rank 1: /run/dijob/topology.json does not have the pod's revision",
        "within 90 s",
    ),
    "a launcher that cannot connect": Case(
        "channel",
        evidence(pods=[pod(0, spec=CHANNEL), pod(1, spec=CHANNEL)]),
        PROBLEM,
        "ranks 0-1: the launcher did not connect to the operator in time",
        "NetworkPolicy",
    ),
    "pods with a gate": Case("channel", evidence(), OK, "not used"),
    "a name that does not resolve": Case(
        "dns",
        evidence(probes=second(names={"test-0.test": "Name or service not known"})),
        PROBLEM,
        "rank 1: test-0.test does not resolve (Name or service not known)",
        "kube-dns",
    ),
    "a name that does not resolve, and an edited Service (P16)": Case(
        "dns",
        evidence(
            job(condition("ServiceReady", "ServiceChanged", "x", "False")),
            probes=second(names={"test-0.test": "Name or service not known"}),
        ),
        PROBLEM,
        "rank 1: test-0.test does not resolve (Name or service not known)",
        "see ServiceReady in the check `status`",
    ),
    "a stale DNS record": Case(
        "dns",
        evidence(probes=second(names={"test-0.test": ("10.9.9.9",)})),
        PROBLEM,
        "test-0.test resolves to 10.9.9.9, but its pod has 10.0.0.1",
        "DNS",
    ),
    "correct names": Case(
        "dns",
        evidence(probes=second(names={"test-0.test": ("10.0.0.1",)})),
        OK,
        "the only name resolves",
    ),
    "blocked, possibly by a policy": Case(
        "reachability",
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
    "blocked, without a policy": Case(
        "reachability",
        evidence(probes=BLOCKED),
        PROBLEM,
        "timed out",
        "no network policy in the namespace",
    ),
    "blocked, policies not listable": Case(
        "reachability",
        evidence(probes=BLOCKED, policies=None, refused={"policies": "forbidden"}),
        PROBLEM,
        "timed out",
        "which you lack permission to list (forbidden)",
    ),
    "a refused connection counts as reachable": Case(
        "reachability",
        evidence(probes=second(reach={("10.0.0.1", 50515): "refused"})),
        OK,
        "the only dialed port",
    ),
    "a Redis server that refuses": Case(
        "reachability",
        evidence(probes=second(reach={("r", 6379): "refused"})),
        PROBLEM,
        "r port 6379",
        "",
    ),
    "a port of another process": Case(
        "ports",
        evidence(up=False, sockets={"listening": {50515: frozenset({"9"})}}),
        PROBLEM,
        "port 50515 of rank 0 is in use",
        "different --ports",
    ),
    "processes whose sockets are not readable": Case(
        "ports",
        evidence(up=False, sockets={"listening": {50515: frozenset({"9"})}, "complete": False}),
        OK,
        "no other process uses a port",
    ),
    "C23: a proxy answers for a rank": Case(
        "reachability",
        evidence(up=False, probes=second(reach={("10.0.0.1", 50515): ""})),
        UNKNOWN,
        "the only dialed port answers, but connections are missing",
        "a proxy",
    ),
    "a missing connection": Case(
        "connections",
        evidence(up=False),
        PROBLEM,
        "missing: rank 1 -> rank 0 port 50515",
        "logs test --rank 1",
    ),
    "a missing connection of a rank that has just started": Case(
        "connections",
        evidence(up=False, pods=[pod(0), BEGUN], now=NOW),
        UNKNOWN,
        "rank 1 started",
        "again",
    ),
    "isolated, because its peer does not run": Case(
        "isolation",
        evidence(up=False, pods=[pod(0)]),
        OK,
        "there is nothing to check: no two running ranks connect to each other",
    ),
    "isolated, because it has just started": Case(
        "isolation",
        evidence(up=False, pods=[replace(BEGUN, rank=0), BEGUN], now=NOW),
        OK,
        "there is nothing to check yet: the ranks have just started",
    ),
    "no listener": Case(
        "connections",
        evidence(up=False, sockets={"listening": {}}),
        PROBLEM,
        "nothing listens",
        "runner",
    ),
    "isolated": Case(
        "isolation",
        evidence(up=False),
        PROBLEM,
        "ranks 0-1: running without any connection",
        "launcher",
    ),
    "a proxy": Case(
        "proxies",
        evidence(probes=both(env={"ALL_PROXY": "http://p", "no_proxy": "localhost,10.0.0.1"})),
        PROBLEM,
        "ranks 0-1: all_proxy is set",
        "no_proxy",
    ),
    "a proxy that no_proxy excludes": Case(
        "proxies",
        evidence(probes=both(env={"http_proxy": "p", "NO_PROXY": "10.0.0.0/8"})),
        OK,
        "no proxy",
    ),
    "no such interface": Case(
        "interfaces",
        evidence(probes=second(env={"GLOO_SOCKET_IFNAME": "ib0"})),
        PROBLEM,
        "rank 1: GLOO_SOCKET_IFNAME is ib0, but the pod has no such interface; it has eth0",
        "set GLOO_SOCKET_IFNAME to eth0",
    ),
    "virtual interfaces": Case(
        "interfaces",
        evidence(TORCH, probes=second(interfaces=("docker0", "eth0", "lo"))),
        PROBLEM,
        "rank 1 has several interfaces (docker0, eth0)",
        "set NCCL_SOCKET_IFNAME",
    ),
    "virtual interfaces in a job without NCCL and gloo": Case(
        "interfaces",
        evidence(probes=second(interfaces=("docker0", "eth0", "lo"))),
        OK,
        "cannot choose the wrong interface",
    ),
    "an interface by exclusion": Case(
        "interfaces",
        evidence(TORCH, probes=both(env={"NCCL_SOCKET_IFNAME": "^docker"})),
        OK,
        "cannot choose the wrong interface",
    ),
    "a full /dev/shm": Case(
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
        "the clocks of ranks 0 and 1 differ by 3.0 s (±0.2 s)",
        "chrony",
    ),
    "a slow answer is not a clock skew": Case(
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
    "barrier with few processes": Case(
        "barrier", evidence(ONE_EACH, probes=both(barrier=True)), OK, "2 processes"
    ),
    "barrier with at least two processes (N1)": Case(
        "barrier", evidence(probes=both(barrier=True)), UNKNOWN, "there are at least 2"
    ),
    "no barrier with at least two processes (N1)": Case(
        "barrier", evidence(probes=both()), OK, "at least 2"
    ),
    "barrier with the processes that the pods report (N1)": Case(
        "barrier",
        replace(
            evidence(probes=both(barrier=True)),
            report=compare_connections("test", SIX_REPORTED, []),
        ),
        PROBLEM,
        "the job has 6 processes",
        "task.wait_for",
    ),
    "no barrier": Case("barrier", evidence(SIX), OK, "no barrier in the source code"),
}
