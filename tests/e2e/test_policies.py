"""Failure policy, deadlines, suspend and time to live on real pods, each action once."""

import json
from datetime import datetime, timedelta
from typing import Any

import pytest
from identity import identities
from jobs import shell
from space import Body, Space, measured

pytestmark = pytest.mark.e2e

# With the first revision, rank 1 fails when a file appears; the other ranks keep running.
FAILS_ONCE = """
if [ "$DI_RANK" = 1 ] && [ "$DI_LIST_NUMBER" = 1 ]; then
  until [ -e /tmp/fail ]; do sleep 0.1; done; exit 42
fi
trap 'exit 0' TERM
while :; do sleep 0.1; done
"""
CODE: Body = {"onExitCodes": {"values": [42]}}


def job(name: str, action: str, script: str = FAILS_ONCE, **spec: Any) -> Body:
    rules = [{"action": "FailJob", "onExitCodes": {"values": [1]}}, {"action": action, **CODE}]
    never = {"restartPolicy": "Never", "terminationGracePeriodSeconds": 2}
    return shell(name, script, pod=never, replicas=3, failurePolicy={"rules": rules}, **spec)


def has_list(space: Space, name: str, number: int) -> str:
    status = space.status(name)
    right = (
        status.get("listNumber") == number
        and space.condition(name, "PeersReady").get("status") == "True"
    )
    return "" if right else f"list {status.get('listNumber')}: {status.get('message')}"


def fail(space: Space, name: str) -> None:
    """Wait until the job runs, and let rank 1 fail."""
    space.until("it runs", lambda: has_list(space, name, 1), 60)
    space.touch(f"{name}-1", "/tmp/fail")


def test_fail_job_fails_the_job_before_backoff_limit(space: Space) -> None:
    space.apply(job("fails", "FailJob", backoffLimit=5))
    fail(space, "fails")
    space.until_true("fails", "Failed")
    failed = space.condition("fails", "Failed")
    assert failed["reason"] == "FailurePolicy"
    assert "rank 1 exited 42, and failurePolicy.rules[1] says FailJob" in failed["message"]
    assert space.status("fails")["restarts"] == 1


# (the action, the ranks that are re-created, the counted failures)
ACTIONS = {"RestartJob": ({0, 1, 2}, 1), "Restart": ({1, 2}, 1), "Ignore": ({1, 2}, 0)}


@pytest.mark.parametrize(
    "action", ["RestartJob", pytest.param("Restart", marks=pytest.mark.long), "Ignore"]
)
def test_a_failed_rank(space: Space, action: str) -> None:
    """Rank 2 dials rank 1; rank 0 dials no other rank."""
    anew, restarts = ACTIONS[action]
    space.apply(job("mends", action, backoffLimit=1))
    space.until("it runs", lambda: has_list(space, "mends", 1), 60)
    before = identities(space, "mends")
    fail(space, "mends")
    space.until("it runs again", lambda: has_list(space, "mends", 2), 60)
    now = identities(space, "mends")
    assert {
        rank for rank in range(3) if now[f"mends-{rank}"][0] != before[f"mends-{rank}"][0]
    } == anew
    assert space.status("mends").get("restarts", 0) == restarts


def test_an_eviction_fails_a_job_whose_policy_says_so(space: Space) -> None:
    rules = [{"action": "FailJob", "onPodConditions": [{"type": "DisruptionTarget"}]}]
    space.apply(shell("evicted", FAILS_ONCE, failurePolicy={"rules": rules}))
    space.until_true("evicted", "Running")
    eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "evicted-1"}}
    path = f"/api/v1/namespaces/{space.name}/pods/evicted-1/eviction"
    space.kubectl("create", "--raw", path, "-f", "-", stdin=json.dumps(eviction))
    space.until_true("evicted", "Failed")
    assert space.condition("evicted", "Failed")["reason"] == "FailurePolicy"


STAYS = "trap 'sleep 1; exit 0' TERM; while :; do sleep 0.1; done"


def test_rank_0_decides(space: Space) -> None:
    script = f'if [ "$DI_RANK" = 0 ]; then sleep 2; exit 0; fi; {STAYS}'
    space.apply(shell("first", script, replicas=3, successPolicy="Rank0"))
    space.until_true("first", "Succeeded")
    assert space.condition("first", "Succeeded")["reason"] == "SuccessPolicy"
    space.until_left("first", "first-0")


@pytest.mark.long
def test_time_suspended_counts_for_no_deadline(space: Space) -> None:
    space.apply(shell("short", STAYS, activeDeadlineSeconds=25))
    space.until_true("short", "Running")
    space.kubectl("patch", "dijob/short", "--type=merge", "-p", '{"spec": {"suspend": true}}')
    space.until_left("short")
    since = space.status("short")["suspendTime"]
    space.until("26 s pass", lambda: "" if space.seconds_since(since) > 26 else "not yet", 60)
    assert space.status("short")["phase"] == "Suspended"
    space.kubectl("patch", "dijob/short", "--type=merge", "-p", '{"spec": {"suspend": false}}')
    space.until("it runs again", lambda: has_list(space, "short", 2), 60)
    space.until_true("short", "Failed", 60)
    assert space.condition("short", "Failed")["reason"] == "DeadlineExceeded"
    assert space.status("short")["suspendedSeconds"] >= 26


def test_a_job_that_cannot_start_fails_at_its_deadline_and_names_missing_ranks(
    space: Space,
) -> None:
    made = shell(
        "never", STAYS, pod={"nodeSelector": {"no": "such-node"}}, startupDeadlineSeconds=8
    )
    space.apply(made)
    waited = space.until_true("never", "Failed", 80)
    measured("seconds until a job with startupDeadlineSeconds 8 has Failed", f"{waited:.1f}")
    failed = space.condition("never", "Failed")
    assert failed["reason"] == "StartupDeadlineExceeded"
    assert "ranks 0-1: Unschedulable" in failed["message"]


def test_a_job_is_deleted_when_its_time_to_live_is_over(space: Space) -> None:
    """A finalizer keeps the deleted job until its timestamps have been read."""
    made = shell("brief", "exit 0", ttlSecondsAfterFinished=8)
    made["metadata"]["finalizers"] = ["example.com/hold"]
    space.apply(made)
    try:
        space.until_true("brief", "Succeeded")
        space.until("the job is deleted", lambda: "" if deletion(space) else "not yet", 60)
        deleted, ended = deletion(space), space.status("brief")["completionTime"]
        lived = datetime.fromisoformat(deleted) - datetime.fromisoformat(ended)
        assert lived >= timedelta(seconds=8)
    finally:
        off = '{"metadata": {"finalizers": null}}'
        space.kubectl("patch", "dijob", "brief", "--type=merge", "-p", off)
    space.until("the job is gone", lambda: "still there" if space.job("brief") else "", 60)
    space.until_gone("its children", space.children, 60)


def deletion(space: Space) -> str:
    """Return when the job "brief" was deleted; "" if it has not been."""
    return str(space.job("brief")["metadata"].get("deletionTimestamp", ""))
