"""The job's own Redis server: when it is created and deleted, which ranks wait for it, and what is
reported.
"""

from dataclasses import replace
from typing import Any

import pytest
from dijob import names
from dijob.api.model import DIJob
from dijob.api.status import format_time
from dijob.core.actions import CreatePod, CreateShared, DeletePod, PublishAddresses
from dijob.core.members import gang_of
from dijob.core.observed.views import ApiRejection, Creation, Observed, Pod, RejectionCause
from dijob.core.options import Options, option_warnings
from dijob.core.plan import Plan
from dijob.core.render import redis, service
from samples.builders import (
    NOW,
    changed,
    container,
    hands_out,
    job,
    later,
    listed,
    observed,
    plan,
    says,
    stored,
    view,
)

SERVICES = frozenset({"job", "job-mq"})
REDIS = {"messageQueue": {"type": "redis"}}
OWNER = job(**REDIS)
CREATE_SERVER = redis.server_manifests


def server(**fields: Any) -> Pod:
    return changed(
        view(0, OWNER), **{"rank": -1, "name": "job-mq", "uid": "uid-mq", "ready": True, **fields}
    )


def seen(*pods: Pod, by: Pod | None = None, **fields: Any) -> Observed:
    return replace(
        observed(*pods, **{"services": SERVICES, **fields}), unranked=(by,) if by else ()
    )


def gathered() -> list[Pod]:
    return [view(rank, OWNER) for rank in range(3)]


def kinds(decided: Plan) -> set[Any]:
    """Return what a plan does: the classes of its actions, or the functions that render shared
    objects.
    """
    return {
        action.manifests if isinstance(action, CreateShared) else type(action)
        for action in decided.actions
    }


def test_the_server_is_created_with_the_pods_and_no_rank_starts_before_it_is_ready() -> None:
    assert kinds(plan(OWNER, Observed(), NOW)) == {CREATE_SERVER, service.headless_manifests}
    assert kinds(plan(OWNER, seen(), NOW)) == {CREATE_SERVER, CreatePod}
    waiting = plan(OWNER, seen(*gathered(), by=server(ready=False)), NOW)
    assert not kinds(waiting) & {CREATE_SERVER, PublishAddresses}
    assert says(waiting)["BrokerReady"] == ("False", "Starting")
    assert says(waiting)["AddressesReady"] == ("False", "BrokerNotReady")
    assert "pod job-mq is starting" in waiting.status.message
    begun = hands_out(OWNER, seen(*gathered(), by=server()), NOW)
    assert PublishAddresses in kinds(begun)
    assert says(begun)["BrokerReady"] == ("True", "Ready")


@pytest.mark.parametrize(
    ("lost", "does"),
    [
        (server(phase="Failed", ready=False), {DeletePod}),
        (server(deleting=True), set()),
        (None, {CREATE_SERVER}),
    ],
    ids=["failed", "ending", "gone"],
)
def test_a_lost_server_is_recreated_before_anything_else(lost: Pod | None, does: set[Any]) -> None:
    ranks = [listed(rank, OWNER) for rank in range(3)]
    running = stored(OWNER, plan(OWNER, seen(*ranks, by=server()), NOW))
    decided = plan(running, seen(*ranks, by=lost), later(60))
    assert kinds(decided) == does
    assert decided.status.phase == "Running"
    assert says(decided)["BrokerReady"] == ("False", "Starting")


LIFE = server(started=format_time(NOW))


def told(rank: int, life: str = "uid-mq/0", **fields: Any) -> Pod:
    return listed(rank, OWNER, redis_run=life, restartable=True, **fields)


@pytest.mark.parametrize(
    "other",
    [
        server(uid="uid-2", started=format_time(later(55))),
        server(restarts=1, started=format_time(NOW), ready=False),
    ],
    ids=["another pod", "another container"],
)
def test_all_ranks_restart_with_a_new_server_without_counted_failures(other: Pod) -> None:
    """A rank that started with the old server may wait on its connection indefinitely."""
    ranks = [told(rank) for rank in range(3)]
    running = stored(OWNER, plan(OWNER, seen(*ranks, by=LIFE), NOW))
    assert not plan(running, seen(*ranks, by=LIFE), later(50)).actions
    lost = plan(running, seen(*ranks, by=other), later(60))
    assert lost.status.last_renewal is not None
    assert (lost.status.last_renewal.reason, lost.status.last_renewal.ranks) == (
        "BrokerLost",
        "0-2",
    )
    assert "the Redis server job-mq that the rank started with is gone" in lost.status.message
    assert (lost.status.renewals, lost.status.restarts) == (1, 0)
    waiting = plan(stored(running, lost), seen(*ranks, by=replace(other, ready=False)), later(61))
    assert PublishAddresses not in kinds(waiting)
    begun = hands_out(stored(running, lost), seen(*ranks, by=replace(other, ready=True)), later(62))
    lists = [action for action in begun.actions if isinstance(action, PublishAddresses)]
    copies = {
        (one.copy.address_list.number, one.copy.renew_from, one.copy.redis_run) for one in lists
    }
    assert copies == {(2, 2, f"{other.uid}/{other.containers.restarts}")}
    assert len(lists) == 3


def test_a_server_that_does_not_run_yet_restarts_no_rank() -> None:
    ranks = [told(rank) for rank in range(3)]
    running = stored(OWNER, plan(OWNER, seen(*ranks, by=LIFE), NOW))
    for now in (
        None,
        server(uid="uid-2", ready=False),
        replace(LIFE, deleting=True),
        changed(LIFE, started=""),
    ):
        assert plan(running, seen(*ranks, by=now), later(60)).status.last_renewal is None


def test_a_rank_that_joined_without_the_server_gets_its_run_later() -> None:
    """A list that was published meanwhile does not name the run, nor do lists of an older
    operator.
    """
    ranks = [told(0), told(1, life=""), told(2)]
    running = stored(OWNER, plan(OWNER, seen(*ranks, by=LIFE), NOW))
    decided = plan(running, seen(*ranks, by=LIFE), later(60))
    assert [action.name for action in decided.actions if isinstance(action, PublishAddresses)] == [
        "job-1"
    ]
    assert decided.status.last_renewal is None


@pytest.mark.parametrize(
    ("by", "charged"),
    [
        (None, 0),
        (server(ready=False), 0),
        (server(started=format_time(later(55))), 0),
        (server(started=format_time(later(0))), 1),
    ],
    ids=["gone", "starting", "just come back", "there for a while"],
)
def test_failures_due_to_a_missing_server_do_not_count(by: Pod | None, charged: int) -> None:
    ranks = [listed(rank, OWNER) for rank in range(3)]
    running = stored(OWNER, plan(OWNER, seen(*ranks, by=server()), NOW))
    crashed = changed(ranks[1], failures=1, ended=format_time(later(60)))
    decided = plan(running, seen(ranks[0], crashed, ranks[2], by=by), later(61))
    assert decided.status.restarts == charged
    again = plan(stored(OWNER, decided), seen(ranks[0], crashed, ranks[2], by=server()), later(120))
    assert again.status.restarts == charged, "judged once"


def test_a_deleted_service_of_the_server_is_recreated() -> None:
    gone = seen(*gathered(), by=server(), services=frozenset({"job"}))
    assert kinds(plan(OWNER, gone, NOW)) == {CREATE_SERVER}


def test_a_server_that_is_lost_repeatedly_is_recreated_with_back_off() -> None:
    creations = {"job-mq": Creation(4, NOW)}
    pods = seen(*gathered(), creations=creations)
    assert CREATE_SERVER not in kinds(plan(OWNER, pods, later(7)))
    assert CREATE_SERVER in kinds(plan(OWNER, pods, later(8)))


@pytest.mark.parametrize(
    ("fields", "reason", "words"),
    [
        (
            {"by": server(ready=False, complaint="ErrImagePull: no such image")},
            "NotRunning",
            "pod job-mq: ErrImagePull",
        ),
        (
            {"by": server(ready=False), "warnings": {"uid-mq": "FailedScheduling: no node"}},
            *("NotRunning", "pod job-mq: FailedScheduling"),
        ),
        (
            {
                "rejections": {
                    "service/job-mq": ApiRejection(RejectionCause.TAKEN, "is taken", later(15))
                }
            },
            "NameTaken",
            "is taken",
        ),
        (
            {
                "rejections": {
                    "networkpolicy/job-mq": ApiRejection(RejectionCause.FORBIDDEN, "no", later(9))
                }
            },
            "Refused",
            "no",
        ),
    ],
    ids=["image", "event", "name", "policy"],
)
def test_a_problem_of_the_server_is_in_the_status(
    fields: dict[str, Any], reason: str, words: str
) -> None:
    decided = plan(OWNER, seen(*gathered(), **fields), NOW)
    assert says(decided)["BrokerReady"] == ("False", reason)
    assert words in decided.status.message
    assert CREATE_SERVER not in kinds(decided)


@pytest.mark.parametrize("edit", [{"suspend": True}, {}], ids=["suspended", "ended"])
def test_the_server_is_deleted_with_the_ranks(edit: dict[str, Any]) -> None:
    succeeded = {} if edit else {"phase": "Succeeded", "succeeded": True, "ready": False}
    ranks = [listed(rank, OWNER, **succeeded) for rank in range(3)]
    owner = stored(
        OWNER, plan(OWNER, seen(*[listed(rank, OWNER) for rank in range(3)], by=server()), NOW)
    )
    owner = DIJob(
        metadata=owner.metadata, spec=owner.spec.model_copy(update=edit), status=owner.status
    )
    pods = seen(*ranks, by=server())
    first = plan(owner, pods, later(1))
    second = plan(stored(owner, first), pods, later(2))
    assert DeletePod("job-mq", "uid-mq") in second.actions
    assert says(second)["BrokerReady"] == ("False", "Suspended" if edit else "Finished")


def test_a_server_of_the_user_is_not_managed() -> None:
    owner = job(messageQueue={"type": "redis", "host": "redis.ns"})
    decided = plan(owner, Observed(), NOW)
    assert CREATE_SERVER not in kinds(decided)
    assert all(condition.type != "BrokerReady" for condition in decided.status.conditions)


def test_the_ranks_get_the_name_and_port_of_the_server() -> None:
    assert gang_of(OWNER).redis == ("job-mq", 6379)
    assert gang_of(job(messageQueue={"type": "redis", "port": 7000})).redis == ("job-mq", 7000)


def test_ranks_with_host_network_can_connect_to_the_server() -> None:
    on_node = {"containers": [container()], "hostNetwork": True}
    owner = job(on_node, **REDIS)
    policy, *_ = redis.server_manifests(owner, Options())
    assert policy["spec"]["ingress"] == [{"ports": [{"port": 6379, "protocol": "TCP"}]}]
    (said,) = option_warnings(owner, Options())
    assert "job-mq" in said.message
    assert option_warnings(OWNER, Options()) == option_warnings(job(on_node), Options()) == ()


def test_the_objects_of_the_server() -> None:
    """Selectors of the job's ranks do not match the server, only the ranks can connect to it, and
    it can run on the same nodes.
    """
    options = Options(redis_image="img:redis", redis_resources={"limits": {"memory": "1Gi"}})
    placed = {
        "containers": [container()],
        "tolerations": [{"key": "gpu"}],
        "priorityClassName": "high",
        "volumes": [],
    }
    policy, service, pod = redis.server_manifests(
        job(placed, messageQueue={"type": "redis", "port": 7000}), options
    )
    assert {names.LABEL_JOB, names.LEGACY_JOB} & pod["metadata"]["labels"].keys() == set()
    for made in (policy, service, pod):
        assert made["metadata"]["name"] == "job-mq"
        assert made["metadata"]["ownerReferences"][0]["uid"] == OWNER.metadata.uid
    own = {names.LABEL_SERVER: "job"}
    assert own.items() <= pod["metadata"]["labels"].items()
    assert (policy["spec"]["podSelector"], service["spec"]["selector"]) == (
        {"matchLabels": own},
        own,
    )
    assert policy["spec"]["ingress"][0]["from"] == [
        {"podSelector": {"matchLabels": {names.LABEL_JOB: "job"}}}
    ]
    assert policy["spec"]["ingress"][0]["ports"] == [{"port": 7000, "protocol": "TCP"}]
    spec = pod["spec"]
    assert (spec["tolerations"][0], spec["priorityClassName"]) == ({"key": "gpu"}, "high")
    assert [one.get("tolerationSeconds") for one in spec["tolerations"]] == [None, 30, 30]
    assert "volumes" not in spec
    (server,) = spec["containers"]
    assert (server["image"], server["resources"]) == ("img:redis", {"limits": {"memory": "1Gi"}})
    assert server["command"][-2:] == ["--port", "7000"]
