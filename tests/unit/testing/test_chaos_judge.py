"""The checks of `make chaos`: each finds one thing that is wrong with a job."""

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from faults.real_pods.judge import Job, Seen, problems, said
from faults.real_pods.ranks import JOB_LABEL, RANK_LABEL, two_at_once, violations
from faults.real_pods.shapes import ALL, MESH, REDIS, STAR, TORCH, Shape

IPS = ("10.244.1.5", "10.244.2.6", "10.244.1.7", "10.244.2.8")
SERVER_IP = "10.244.1.9"
FIRST_FREE = 40000


def address(ip: str, port: int) -> str:
    """Return an address in the format of /proc/net/tcp on a little-endian machine."""
    raw = bytes(int(part) for part in ip.split("."))
    return f"{int.from_bytes(raw, 'little'):08X}:{port:04X}"


def row(local: str, remote: str) -> str:
    return f"  0: {local} {remote} 01 00000000:00000000"


def dials(shape: Shape, rank: int) -> list[int]:
    return [*shape.dials(rank)] if shape in ALL and not shape.beats else []


def sockets(shape: Shape, rank: int) -> str:
    """Return the pod's ends of all connections that a healthy job has."""
    me, found = IPS[rank], []
    for other in range(len(shape.pods)):
        if other in dials(shape, rank):
            found.append(row(address(me, FIRST_FREE + other), address(IPS[other], 50515)))
        if rank in dials(shape, other):
            found.append(row(address(me, 50515), address(IPS[other], FIRST_FREE + rank)))
        if shape is TORCH and other != rank:
            found.append(row(address(me, 1000 + rank), address(IPS[other], 1000 + other)))
    return "\n".join(found)


def rank_of(shape: Shape, rank: int) -> Seen:
    ips = IPS[: len(shape.pods)]
    known = ",".join(ips)
    env = {"DI_RANK": str(rank), "DI_POD_IP": ips[rank], "DI_NODES": known, "DI_NODE_IPS": known}
    return Seen(
        name=shape.pods[rank],
        uid=f"uid-{rank}",
        ip=ips[rank],
        rank=rank,
        running=True,
        sandbox=True,
        programs=1,
        envs=(env, env),
        topology=json.dumps({"nodeIps": list(ips)}),
        sockets=sockets(shape, rank),
        beat=0.3 if shape.beats else None,
    )


def whole(shape: Shape) -> Job:
    conditions = [{"type": type_, "status": "True"} for type_ in ("Running", "PeersReady")]
    clients = [row(address(SERVER_IP, 6379), address(ip, 50000)) for ip in IPS[: len(shape.pods)]]
    server = Seen(
        shape.server, "mq", SERVER_IP, -1, running=True, sandbox=True, sockets="\n".join(clients)
    )
    return Job(
        {"conditions": conditions},
        tuple(rank_of(shape, rank) for rank in range(len(shape.pods))),
        server if shape.server else None,
    )


@pytest.mark.parametrize("shape", ALL, ids=lambda shape: shape.name)
def test_a_healthy_job_has_no_problem(shape: Shape) -> None:
    assert problems(shape, whole(shape)) == []


def env(pod: Seen, **changed: str) -> Seen:
    return replace(pod, envs=(pod.envs[0], {**pod.envs[1], **changed}))


NOT_WHOLE: dict[str, tuple[str, Callable[[Seen], Seen]]] = {
    "it does not run": ("pods and sandboxes", lambda pod: replace(pod, running=False)),
    "its sandbox is dead": ("pods and sandboxes", lambda pod: replace(pod, sandbox=False)),
    "another rank's label": ("pods and sandboxes", lambda pod: replace(pod, rank=2)),
    "no program": ("programs", lambda pod: replace(pod, programs=0)),
    "an old address of its own": ("/proc/PID/environ", lambda pod: env(pod, DI_POD_IP="10.1.1.1")),
    "an old address of one that it dials": (
        "/proc/PID/environ",
        lambda pod: env(pod, DI_NODES=",".join(("10.1.1.1", *IPS[1:]))),
    ),
    "another rank": ("/proc/PID/environ", lambda pod: env(pod, DI_RANK="0")),
    "another size": ("/proc/PID/environ", lambda pod: env(pod, DI_NODES=",".join(IPS[:3]))),
    "nobody knows the job": ("/proc/PID/environ", lambda pod: replace(pod, envs=())),
    "an old topology.json": (
        "topology.json",
        lambda pod: replace(pod, topology=pod.topology.replace(IPS[3], "10.1.1.1")),
    ),
    "no topology.json": ("topology.json", lambda pod: replace(pod, topology="")),
    "an edge less": ("connections", lambda pod: replace(pod, sockets=pod.sockets.split("\n")[0])),
}


@pytest.mark.parametrize("case", NOT_WHOLE)
def test_each_problem_is_found_by_its_check(case: str) -> None:
    check, change = NOT_WHOLE[case]
    job = whole(MESH)
    pods = (job.pods[0], change(job.pods[1]), *job.pods[2:])
    found = problems(MESH, replace(job, pods=pods))
    assert check in {problem.check for problem in found}


def test_an_unused_address_may_be_old() -> None:
    job = whole(MESH)
    old = ",".join((*IPS[:3], "10.1.1.1"))
    pods = (env(job.pods[0], DI_NODES=old, DI_NODE_IPS=old), *job.pods[1:])
    assert problems(MESH, replace(job, pods=pods)) == []


def test_a_rank_without_redis_and_programs_without_messages_are_found() -> None:
    job = whole(REDIS)
    assert job.server
    alone = replace(job, server=replace(job.server, sockets=job.server.sockets.split("\n")[0]))
    assert [p.check for p in problems(REDIS, alone)] == ["connections"]
    silent = replace(job, pods=(job.pods[0], replace(job.pods[1], beat=9.0)))
    assert [p.check for p in problems(REDIS, silent)] == ["programs"]
    assert {p.check for p in problems(REDIS, replace(job, server=None))} >= {"pods and sandboxes"}


def test_a_job_that_is_not_ready_is_reported_with_its_condition() -> None:
    job = whole(STAR)
    conditions = [{"type": "Running", "status": "True"}]
    conditions.append(
        {"type": "PeersReady", "status": "False", "reason": "Renewing", "message": "rank 1"}
    )
    (found,) = problems(STAR, replace(job, status={"conditions": conditions}))
    assert str(found) == "conditions: PeersReady Renewing: rank 1"


def failed(**changed: Any) -> Job:
    condition = {
        "type": "Failed",
        "status": "True",
        "reason": "BackoffLimitExceeded",
        "message": "1 failure, backoffLimit is 0: the first was rank 1 (pod star-1)",
        **changed.pop("condition", {}),
    }
    first = {"rank": 1, "pod": "star-1", "signal": 9}
    return Job({"conditions": [condition], "restarts": 1, "firstFailure": first, **changed}, ())


@pytest.mark.parametrize(
    ("job", "right"),
    [
        (failed(), True),
        (failed(restarts=2), False),
        (failed(condition={"reason": "DeadlineExceeded"}), False),
        (failed(condition={"message": "it failed"}), False),
        (failed(firstFailure={}), False),
    ],
)
def test_a_failed_job_must_explain_its_failure(job: Job, right: bool) -> None:
    assert job.failed
    assert (said(STAR, job) == "") is right


def pod(name: str, rank: int, uid: str = "", **more: Any) -> dict[str, Any]:
    meta = {"name": name, "uid": uid or name, "labels": {JOB_LABEL: "j", RANK_LABEL: str(rank)}}
    return {"metadata": meta | more.pop("meta", {}), **more}


def events(*pods: tuple[str, dict[str, Any]]) -> list[tuple[float, str, dict[str, Any]]]:
    return [(float(at), kind, body) for at, (kind, body) in enumerate(pods)]


def test_a_duplicate_rank_or_one_beyond_the_size_is_found() -> None:
    first, second = ("ADDED", pod("j-0", 0)), ("ADDED", pod("j-1", 1))
    assert violations(events(first, second), {"j": 2}) == []
    twice = violations(events(first, second, ("ADDED", pod("j-b", 1))), {"j": 2})
    assert twice == ["after j-b: rank 1 of j exists 2 times"]
    assert violations(events(first, ("ADDED", pod("j-2", 2))), {"j": 2}) == [
        "after j-2: j has a rank 2"
    ]


@pytest.mark.parametrize(
    "gone",
    [
        ("DELETED", pod("j-0", 0, "old")),
        ("MODIFIED", pod("j-0", 0, "old", meta={"deletionTimestamp": "2026-11-25T00:00:00Z"})),
        ("MODIFIED", pod("j-0", 0, "old", status={"phase": "Failed"})),
    ],
)
def test_an_ending_pod_is_not_a_duplicate_of_its_rank(gone: tuple[str, dict[str, Any]]) -> None:
    found = events(("ADDED", pod("j-0", 0, "old")), gone, ("ADDED", pod("j-0", 0, "new")))
    assert violations(found, {"j": 1}) == []


def test_programs_of_one_rank_in_two_pods_are_found() -> None:
    assert two_at_once({("job", "0"): {"a"}, ("job", "1"): {"b"}}) == []
    assert two_at_once({("job", "0"): {"a", "b"}}) == ["rank 0 of job job runs in pods ['a', 'b']"]
