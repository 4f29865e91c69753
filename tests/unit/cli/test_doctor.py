"""`doctor`: from evidence to findings and remedies, for each check."""

import json
import subprocess
import sys
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from dijob.cli.doctor import checks, collect, probe
from dijob.cli.doctor.collect import dialled_names, dialled_targets, is_status_stale, left_alone
from dijob.cli.doctor.evidence import Evidence
from dijob.cli.doctor.extension import ExtensionFindings
from dijob.cli.doctor.of_network import selects_pod
from dijob.cli.doctor.probe import Probe
from dijob.cli.topology.expected import world_of
from dijob.client import AsyncClient, Job
from unit.cli.doctor_pod_cases import NOW, OF_PODS
from unit.cli.doctor_status_cases import LEASE, OF_STATUS
from unit.cli.evidence import (
    GOOD,
    OK,
    PROBLEM,
    REDIS,
    TORCH,
    UNKNOWN,
    Body,
    Case,
    both,
    condition,
    evidence,
    job,
    pod,
    policy,
    second,
)
from unit.client.kubelets import Kubelets, kubelets

CASES = OF_STATUS | OF_PODS


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
    # The recorded connections are those of nng, so these two checks cannot pass in other jobs.
    bad = [
        (name, one)
        for name, one in checks.run_checks(of)
        if one.status is not OK
        and name
        not in (
            ()
            if of.job.model.queue == "nng" and of.job.model.spec.runtime == "ditask"
            else ("connections", "isolation")
        )
    ]
    assert not bad


def test_a_rank_that_cannot_be_probed_is_unknown_with_the_reason() -> None:
    silent = {0: GOOD, 1: Probe(problem="pods/exec is forbidden")}
    found = checks.run_checks(evidence(probes=silent))
    unknown = [(name, one.text) for name, one in found if one.status is UNKNOWN]
    assert unknown == [("exec", "rank 1: pods/exec is forbidden")]
    assert not checks.count_problems(found)


CRASHED = pod(
    1,
    main={
        "state": {"waiting": {"reason": "CrashLoopBackOff"}},
        "lastState": {"terminated": {"exitCode": 1, "reason": "Error", "message": "ValueError"}},
    },
)


def test_a_rank_that_has_crashed_is_one_finding() -> None:
    """N3: nine lines were UNKNOWN, and `isolation` blamed the launcher of its only peer."""
    silent = {0: GOOD, 1: Probe(problem="500: container not found")}
    found = checks.run_checks(evidence(up=False, pods=[pod(0), CRASHED], probes=silent))
    bad = [(name, one.text) for name, one in found if one.status is not OK]
    assert bad == [
        ("failures", "rank 1, container di-container, exited 1: ValueError"),
    ]


def test_a_program_that_does_not_print_may_hang() -> None:
    """N2."""
    silent = evidence(
        now=NOW,
        printed={0: NOW - timedelta(seconds=95), 1: NOW - timedelta(days=1)},
        hints=["--stacks shows what the processes are doing"],
    )
    said = checks.format_checklist("test", checks.run_checks(silent)).splitlines()[-1]
    assert said == (
        "test: no problems found; no rank has printed a line for 95s: the program is either"
        " computing or hanging: kubectl dijob doctor test --stacks shows what the processes are"
        " doing"
    )
    for other in (
        replace(silent, printed={0: NOW - timedelta(seconds=30), 1: NOW - timedelta(days=1)}),
        replace(silent, added=[ExtensionFindings("stacks", ())]),
        replace(silent, printed={}),
    ):
        assert "--stacks shows" not in checks.format_checklist("test", checks.run_checks(other))


def test_a_running_job_without_problems_ends_with_the_command_for_a_hang() -> None:
    def last_line(of: Evidence) -> str:
        found = checks.run_checks(of)
        return checks.format_checklist("test", found, checks.if_it_hangs(of)).splitlines()[-1]

    healthy = evidence(hints=["--stacks shows what the processes are doing"])
    assert last_line(healthy) == (
        "test: no problems found; if it hangs: kubectl dijob doctor test --stacks shows what the"
        " processes are doing"
    )
    # The longer hint about a program that does not print replaces it.
    silent = {0: NOW - timedelta(seconds=95)}
    assert "if it hangs" not in last_line(replace(healthy, now=NOW, printed=silent))
    for other, said in (
        (replace(healthy, probes=second(digest="def")), "test: 1 problem"),
        (replace(healthy, added=[ExtensionFindings("stacks", ())]), "test: no problems found"),
        (replace(healthy, report=None), "test: no problems found"),
        (replace(healthy, hints=[]), "test: no problems found"),
    ):
        assert last_line(other) == said


def test_logs_that_may_not_be_read_are_unknown() -> None:
    """N2."""
    found = checks.run_checks(evidence(printed=None, refused={"logs": "pods/log is forbidden"}))
    assert [(n, one.text) for n, one in found if one.status is UNKNOWN] == [
        ("output", "pods/log is forbidden")
    ]


@pytest.mark.parametrize(
    ("of", "pods", "expected"),
    [
        pytest.param(job(phase=""), 2, True, id="no operator"),
        pytest.param(job(), 2, False, id="current"),
        pytest.param(
            job(condition("Running", "Begun"), readyReplicas=2), 1, True, id="a pod is gone"
        ),
        pytest.param(
            job(condition("Running", "Begun"), readyReplicas=1),
            1,
            False,
            id="the operator has noticed it",
        ),
        pytest.param(job(condition("Finished", "X"), phase=""), 0, False, id="it has ended"),
    ],
)
def test_a_status_that_does_not_follow(of: Job, pods: int, expected: bool) -> None:
    """H21."""
    assert is_status_stale(of, [pod(rank) for rank in range(pods)]) is expected


DELETED = condition("AddressesReady", "PodDeleted", "the pod is being deleted", "False")
PULL = condition("Running", "Blocked", "rank 1: image x cannot be pulled", "False")


def written(*conditions: Body, at: str = "2026-11-25T10:00:00Z", **status: Any) -> Job:
    """Return a job whose status the operator has written at this time."""
    body = job(*conditions, desired=2, **status).body
    writes = [
        {"manager": "dijob-operator", "subresource": "status", "time": at},
        # The HTTP server keeps writing the progress of a job that no operator serves.
        {"manager": "dijob-server", "subresource": "status", "time": "2026-11-25T12:00:00Z"},
    ]
    return Job({**body, "metadata": {**body["metadata"], "managedFields": writes}})


def held_by(manager: str) -> Body:
    """Return a claim that is older than the status and whose holder this client wrote."""
    fields: Body = {"f:spec": {"f:holderIdentity": {}, "f:renewTime": {}}}
    meta = {"creationTimestamp": "2026-11-25T09:00:00Z"}
    return {"metadata": meta | {"managedFields": [{"manager": manager, "fieldsV1": fields}]}}


# LEASE was created one second earlier.
LATER = "2026-11-25T11:00:01Z"


@pytest.mark.parametrize(
    ("of", "pods", "claim", "expected"),
    [
        pytest.param(written(DELETED), 1, LEASE, True, id="a lost pod"),
        pytest.param(written(PULL), 2, LEASE, True, id="a problem"),
        pytest.param(written(), 1, LEASE, True, id="a missing pod"),
        pytest.param(written(), 2, LEASE, False, id="no problem"),
        pytest.param(written(DELETED), 1, None, False, id="no claim"),
        pytest.param(written(DELETED, at=LATER), 1, LEASE, False, id="a release that serves it"),
        pytest.param(
            written(condition("Suspended", "Requested")), 0, LEASE, False, id="a suspended job"
        ),
        pytest.param(written(DELETED), 1, held_by("dijob-operator"), False, id="an old claim"),
        pytest.param(written(DELETED), 1, held_by("kubectl-edit"), True, id="a claim by hand"),
        pytest.param(
            written(DELETED, condition("Finished", "X")), 1, LEASE, False, id="it has ended"
        ),
    ],
)
def test_a_claim_may_be_why_a_problem_lasts(
    of: Job, pods: int, claim: Body | None, expected: bool
) -> None:
    """P5."""
    assert left_alone(of, [pod(rank) for rank in range(pods)], claim) is expected


def test_a_job_of_another_controller_is_not_compared_with_this_cluster() -> None:
    spec = {"managedBy": "kueue.x-k8s.io/multikueue"}
    of = job(DELETED, spec=spec, readyReplicas=2, desired=2)
    assert not is_status_stale(of, [])
    assert not left_alone(of, [], LEASE)
    (first, _) = [one for name, one in checks.run_checks(evidence(of)) if name == "status"]
    assert first.status is OK
    assert first.text.endswith("the status comes from kueue.x-k8s.io/multikueue")


def test_without_an_operator_doctor_does_not_promise_a_recovery() -> None:
    """P5."""
    of = written(DELETED, PULL)
    found = checks.run_checks(evidence(of, pods=[pod(0)], unserved=True, claim=LEASE))
    first, second = [one for name, one in found if name == "status"]
    assert "the Lease dijob-operator has assigned namespace" in first.text
    assert second.text.startswith("Running Blocked")


def test_an_ended_job_gets_only_checks_that_need_no_process() -> None:
    found = checks.run_checks(Evidence(job(), [pod(0)]))
    assert [name for name, _ in found] == [row.name for row in checks.CHECKS if not row.live]


def test_the_printed_checklist() -> None:
    found = checks.run_checks(evidence(probes=second(digest="def")))
    said = checks.format_checklist("test", found)
    assert "PROBLEM   same source        the source code differs between pods" in said
    assert "\n" + " " * 26 + "   -> mount the same code" in said
    assert said.endswith("\ntest: 1 problem")
    told = checks.checklist_data("test", found)
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
    assert selects_pod(policy("p", **selector), {"a": "1"}) is wanted


def test_the_names_and_targets_of_a_probe() -> None:
    named = job(spec={"replicas": 3, "addressing": "Hostname"})
    world = world_of(named.model)
    assert dialled_names(named, 1, world) == ["test-0.test", "test-1.test"]
    pods = [pod(0), pod(1), pod(2)]
    assert dialled_targets(named, pods, 2, world) == [("10.0.0.1", 50515), ("10.0.0.2", 50515)]
    redis = world_of(REDIS.model)
    assert (dialled_names(REDIS, 0, redis), dialled_targets(REDIS, pods, 0, redis)) == (
        ["r"],
        [("r", 6379)],
    )


def test_the_look_from_inside_runs_in_a_plain_python() -> None:
    """The probe finds whatever runs on this machine."""
    words = probe.build_command(["localhost", "no.such.invalid"], [("127.0.0.1", 9)])[0]
    done = subprocess.run([sys.executable, *words[1:]], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    found = probe.parse_answer(done.stdout, (0.0, 1.0))
    assert not found.problem
    assert "127.0.0.1" in found.names["localhost"]
    assert isinstance(found.names["no.such.invalid"], str)
    assert found.reach == {("127.0.0.1", 9): "refused"}
    assert found.interfaces
    assert found.versions["python"].startswith("3.")
    assert "invalid answer" in probe.parse_answer("[]\n", (0.0, 1.0)).problem
    assert json.loads(words[3])["names"] == ["localhost", "no.such.invalid"]


LEASES = "/apis/coordination.k8s.io/v1/namespaces/default/leases/dijob-operator"
EMPTY = {"items": [], "metadata": {"resourceVersion": "1"}}


@pytest.mark.parametrize("allowed", [True, False])
async def test_a_lease_in_the_jobs_namespace_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, allowed: bool
) -> None:
    """H21: doctor advised to check that an operator runs, although one did."""
    monkeypatch.setattr(collect, "_SETTLE_SECONDS", 0.0)

    async def lease(request: web.Request) -> web.Response:
        if not allowed:
            said = {"message": "leases is forbidden", "reason": "Forbidden"}
            return web.json_response(said, status=403)
        return web.json_response(LEASE)

    async def nothing(request: web.Request) -> web.Response:
        return web.json_response(EMPTY)

    def more(made: Kubelets) -> list[web.RouteDef]:
        lists = [path.format("default") for path in collect._LISTS.values()]
        return [web.get(LEASES, lease), *(web.get(path, nothing) for path in lists)]

    async with kubelets(tmp_path, more) as (_, kubeconfig), AsyncClient(kubeconfig) as client:
        found = checks.run_checks(await collect.collect_evidence(client, "test"))
    name, first = found[0]
    assert name == "status"
    assert ("to the release mine (since" if allowed else "leases is forbidden") in first.text


ANSWER = {
    "time": 1.0,
    "command": ["a"],
    "env": {},
    "interfaces": ["eth0"],
    "shm": [1, 1],
    "list": 1,
    "source": [1, "abc", False],
    "versions": {"python": "3.11"},
    "names": {"a": ["10.0.0.1"], "b": "no"},
    "reach": [["10.0.0.1", 1, ""]],
}


def test_an_answer_of_a_container_is_read() -> None:
    assert probe.parse_answer(json.dumps(ANSWER), (0.0, 1.0)).reach == {("10.0.0.1", 1): ""}


@pytest.mark.parametrize(
    "changed",
    [
        {"time": float("inf")},
        {"time": "soon"},
        {"env": ["a"]},
        {"interfaces": [1]},
        {"shm": ["a", "b"]},
        {"list": [1]},
        {"source": [1, ["abc"], False]},
        {"versions": {"torch": {}}},
        {"names": {"a": [[]]}},
        {"reach": [[["a"], 1, ""]]},
    ],
    ids=str,
)
def test_an_answer_of_another_form_is_none(changed: Body) -> None:
    """The container's Python belongs to the tenant. Such answers were internal errors before."""
    found = probe.parse_answer(json.dumps(ANSWER | changed), (0.0, 1.0))
    assert found.problem.startswith(f"invalid answer from the probe: {next(iter(changed))}")


@pytest.mark.parametrize("text", ["", "[]", "[" * 10_000, "null", "\x00", "{}"])
def test_an_invalid_answer_is_a_problem(text: str) -> None:
    assert "invalid answer" in probe.parse_answer(text, (0.0, 1.0)).problem
