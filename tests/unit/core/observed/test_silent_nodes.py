"""H37: how long pods stay on an unreachable node, and what is reported meanwhile."""

from typing import Any

import pytest
from dijob import names
from dijob.core.observed.views import Pod
from dijob.core.options import Options
from dijob.core.plan import make_plan
from dijob.core.render import redis
from dijob.core.render.pod import template_hash
from samples.builders import (
    NOW,
    Body,
    all_run,
    changed,
    conditions_of,
    job,
    later,
    manifest,
    observed,
    pod_body,
    read,
    running,
)
from samples.builders import plan as planned

NOT_READY, UNREACHABLE = names.TAINT_NOT_READY, names.TAINT_UNREACHABLE
SINCE = "2026-05-04T12:00:00Z"


def brief(taint: str, seconds: int) -> Body:
    return {
        "key": taint,
        "operator": "Exists",
        "effect": "NoExecute",
        "tolerationSeconds": seconds,
    }


def tolerations(given: list[Body] | None = None, seconds: int = 30, **spec: Any) -> list[Body]:
    owner = job({} if given is None else {"tolerations": given}, **spec)
    found: list[Body] = manifest(owner, 0, Options(lost_node_seconds=seconds))["spec"][
        "tolerations"
    ]
    return found


GPU = {"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}
FOREVER = {"key": UNREACHABLE, "operator": "Exists"}


@pytest.mark.parametrize(
    ("given", "added"),
    [
        pytest.param(None, [NOT_READY, UNREACHABLE], id="none"),
        pytest.param([], [NOT_READY, UNREACHABLE], id="an empty list"),
        pytest.param([GPU], [NOT_READY, UNREACHABLE], id="one for another taint"),
        pytest.param([FOREVER], [NOT_READY], id="one of the two"),
        pytest.param([brief(NOT_READY, 5)], [UNREACHABLE], id="the other one"),
        pytest.param(
            [brief(NOT_READY, 5) | {"effect": "NoSchedule"}],
            [NOT_READY, UNREACHABLE],
            id="another effect",
        ),
        pytest.param([{"operator": "Exists"}], [], id="all taints"),
        pytest.param(
            [{"operator": "Exists", "effect": "NoSchedule"}],
            [NOT_READY, UNREACHABLE],
            id="all taints of another effect",
        ),
    ],
)
def test_the_templates_own_tolerations_win(given: list[Body] | None, added: list[str]) -> None:
    expected = [brief(taint, 30) for taint in added]
    assert tolerations(given) == [*(given or ()), *expected]


def test_the_job_sets_the_time_or_else_the_operator() -> None:
    assert tolerations(seconds=7)[0] == brief(NOT_READY, 7)
    assert tolerations(seconds=7, lostNodeSeconds=0)[0] == brief(NOT_READY, 0)


def test_tolerations_that_are_not_a_list_are_left_to_the_api_server() -> None:
    assert manifest(job({"tolerations": "all"}))["spec"]["tolerations"] == "all"


def test_the_jobs_redis_server_stays_as_long_as_the_ranks() -> None:
    *_, server = redis.server_manifests(
        job(messageQueue={"type": "redis"}, lostNodeSeconds=3), Options()
    )
    assert server["spec"]["tolerations"] == [brief(NOT_READY, 3), brief(UNREACHABLE, 3)]


def test_running_pods_do_not_become_outdated() -> None:
    """Pods of an older operator have 300 s, and a new value in the job applies to new pods."""
    assert template_hash(job(lostNodeSeconds=3)) == template_hash(job())


def silent(rank: int = 0, **fields: Any) -> Pod:
    """Return a pod as the node controller leaves it."""
    ready = {"type": "Ready", "status": "False", "lastTransitionTime": SINCE, **fields}
    alive = {"type": "ContainersReady", "status": "True", "lastTransitionTime": SINCE}
    return read(pod_body(rank, phase="Running", podIP="10.0.0.1", conditions=[ready, alive]))


def test_an_unreachable_node_is_distinguished_from_a_program_that_is_not_ready() -> None:
    assert silent().placement.silent_since == SINCE
    assert silent().placement.eviction_seconds == 30
    assert silent(reason="ContainersNotReady").placement.silent_since == ""
    assert silent(reason="ReadinessGatesNotReady").placement.silent_since == ""
    assert silent(status="True").placement.silent_since == ""


@pytest.mark.parametrize(
    ("given", "seconds"),
    [
        ([], 0),
        ([brief(UNREACHABLE, 300)], 300),
        ([brief(UNREACHABLE, 300), {"operator": "Exists"}], 300),
        ([{"operator": "Exists"}], None),
        ([{"operator": "Exists", "effect": "NoSchedule"}], 0),
        ([FOREVER], None),
        ([brief(UNREACHABLE, -5)], 0),
        ([brief(UNREACHABLE, 300), brief(UNREACHABLE, 9)], 9),
    ],
)
def test_when_kubernetes_evicts_a_pod(given: list[Body], seconds: int | None) -> None:
    body = pod_body(0)
    body["spec"]["tolerations"] = given
    assert read(body).placement.eviction_seconds == seconds


def lost(**fields: Any) -> dict[str, Any]:
    return {
        "node": "node-1",
        "silent_since": SINCE,
        "ready": False,
        "eviction_seconds": 30,
    } | fields


def peers(*pods: Pod) -> tuple[str, str]:
    found = conditions_of(planned(running(), observed(*pods), later(5)))["PeersReady"]
    return found.reason, found.message


def test_the_unreachable_node_and_the_eviction_are_reported_at_once() -> None:
    first, second, third = all_run(running())
    reason, message = peers(first, changed(second, **lost()), third)
    assert reason == "RankNotReady"
    assert message == (
        f"rank 1: node node-1 has been unreachable since {SINCE}; Kubernetes will evict its pods at"
        " 2026-05-04T12:00:30Z"
    )


def test_all_ranks_of_the_node_are_one_group() -> None:
    """A pod that was not Ready before shows no sign of the loss."""
    first, second, third = all_run(running())
    unready = changed(third, node="node-1", ready=False, eviction_seconds=30)
    _, message = peers(first, changed(second, **lost()), unready)
    assert message.startswith("ranks 1-2: node node-1 has been unreachable since")


def test_a_pod_with_an_unlimited_toleration_is_never_evicted() -> None:
    first, second, third = all_run(running())
    _, message = peers(first, changed(second, **lost(eviction_seconds=None)), third)
    assert "kubectl delete pod --force job-1" in message


def test_a_starting_pod_on_an_unreachable_node_is_reported_too() -> None:
    starting = changed(all_run(job())[1], ip="", ips="", number=0, started="", **lost(ready=True))
    decided = make_plan(job(), observed(starting), NOW)
    assert "node node-1 has been unreachable" in conditions_of(decided)["AddressesReady"].message
