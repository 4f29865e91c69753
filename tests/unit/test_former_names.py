"""The list number was called epoch. What an operator from before the rename has left goes on: its
statuses, its pods, and what the launchers in these say. Until 0.1.0 (docs/decisions/020).
"""

from collections.abc import Mapping
from dataclasses import replace

import pytest
from dijob import names
from dijob.core.decide.plan import plan
from dijob.core.members import gang_of
from dijob.core.membership.address_list import unaccounted
from dijob.core.observed.containers import renewal_of
from dijob.core.observed.parse import pod as read
from dijob.core.render.annotations import addresses_patch, variables
from dijob.core.render.fields import field_variable
from dijob.crd import schema
from dijob.crd.schema import at
from dijob.shell.status_writer import _changes
from unit.box import Process
from unit.builders import (
    LIST,
    NOW,
    gives,
    job,
    job_body,
    listed,
    main,
    main_status,
    observed,
    pod_body,
    pod_env,
    record,
    terminated,
    view,
)
from unit.kubelet import SimPod
from unit.objects import Body, Target
from unit.simulated import simulated
from unit.simulator import Cluster

NUMBERS = (names.ANNOTATION_LIST_NUMBER, names.FORMER_ANNOTATION)
DEAD = {
    "epoch": 3,
    "addressList": record(3, LIST).model_dump(by_alias=True),
    "lastRenewal": {"epoch": 3, "ranks": "1-2", "reason": "PodLost"},
}


def test_the_number_in_a_status_is_taken_over_and_the_former_field_kept() -> None:
    owner = job(status={"epoch": 3, "addressList": DEAD["addressList"]})
    decided = plan(owner, observed(*(listed(rank, number=3) for rank in range(3))), NOW)
    changes = _changes(owner.status, decided.status)
    assert (changes["listNumber"], decided.status.epoch, decided.status.renewals) == (3, 3, 0)
    again = plan(owner.model_copy(update={"status": decided.status}), observed(), NOW)
    assert "listNumber" not in _changes(decided.status, again.status)


def test_a_list_that_died_before_stays_dead_and_the_next_one_has_the_next_number() -> None:
    pods = (listed(0, number=3), view(1, ip="10.0.0.9"), view(2))
    decided = plan(job(status=DEAD), observed(*pods), NOW)
    last = decided.status.last_renewal
    assert last is not None
    assert (last.list_number, last.epoch, last.ranks) == (3, 3, "1-2")
    assert (decided.status.list_number, decided.status.epoch) == (4, 4)
    assert (decided.status.renewals, decided.actions) == (0, ())


def test_of_two_numbers_the_higher_one_counts() -> None:
    """An operator from before the rename, put back for a while, writes the former field alone."""
    decided = plan(job(status=DEAD | {"listNumber": 2}), observed(), NOW)
    assert (decided.status.list_number, decided.status.epoch) == (3, 3)


def test_a_pod_that_no_watch_shows_is_asked_for_though_it_was_renewed_long_ago() -> None:
    old = DEAD | {"epoch": 4, "addressList": record(4, LIST).model_dump(by_alias=True)}
    assert unaccounted(gang_of(job()), {}, job(status=old).status) == (0, 1, 2)


@pytest.mark.parametrize("path", ["status", "status.lastRenewal"])
def test_the_apiserver_keeps_the_former_field(path: str) -> None:
    assert {"listNumber", "epoch"} <= set(at(schema(), path)["properties"])


@pytest.mark.parametrize(
    ("annotations", "number"),
    [
        ({names.FORMER_ANNOTATION: "4"}, 4),
        ({names.ANNOTATION_LIST_NUMBER: "5", names.FORMER_ANNOTATION: "4"}, 5),
        ({names.ANNOTATION_LIST_NUMBER: "x", names.FORMER_ANNOTATION: "4"}, 0),
    ],
    ids=["the former one alone", "both", "somebody's edit"],
)
def test_the_number_is_in_the_new_annotation_else_in_the_former_one(
    annotations: Mapping[str, str], number: int
) -> None:
    body = pod_body(1)
    body["metadata"]["annotations"] |= annotations
    assert read(body).copy.address_list.number == number


def test_a_pod_that_reads_the_former_name_is_told_the_list_under_both() -> None:
    told = replace(gives(1, 7, LIST), reads=frozenset({names.FORMER_ANNOTATION}))
    patch = addresses_patch(gang_of(job()), told)["metadata"]["annotations"]
    assert [patch[key] for key in NUMBERS] == ["7", "7"]


@pytest.mark.parametrize("key", NUMBERS)
@pytest.mark.parametrize("text", [None, "777", "0"])
def test_whichever_number_somebody_edits_it_is_written_again(key: str, text: str | None) -> None:
    """Pods from before the rename are shown the former one."""
    owner = job(status={"listNumber": 1, "addressList": record(1, LIST).model_dump(by_alias=True)})
    body = read_by_the_kubelet(pod_body(1, podIP="10.0.0.1", phase="Running"))
    told = replace(gives(1, 1, LIST), reads=read(body).made.reads)
    given = addresses_patch(gang_of(owner), told)["metadata"]["annotations"]
    edited = {**given, key: text}
    body["metadata"]["annotations"] |= {k: v for k, v in edited.items() if v is not None}
    body["spec"]["nodeName"] = "node-a"
    started = replace(listed(1).containers)
    seen = observed(listed(0), replace(read(body), containers=started), listed(2))
    decided = plan(owner, replace(seen, existing=frozenset({"service/job"})), NOW)
    assert decided.actions == (told,)
    assert (decided.status.list_number, decided.status.renewals) == (1, 0)


def test_programs_get_both_variables() -> None:
    found = pod_env(pod_body(owner=job(launcher="Off")))
    path = f"metadata.annotations['{names.ANNOTATION_LIST_NUMBER}']"
    assert (found["DI_LIST_NUMBER"], found[names.FORMER_VARIABLE]) == (path, path)


def test_the_launcher_of_an_older_pod_is_understood() -> None:
    ended = terminated(85, message="dijob: renewal, epoch 7\n")
    assert renewal_of(main_status(state=ended)) == 7


def read_by_the_kubelet(body: Body) -> Body:
    """The pod as an operator from before the rename has made it: its variables and its files come
    from annotations, and the number from the former one.
    """
    fields = dict(variables(gang_of(job())))
    fields.pop("DI_LIST_NUMBER")
    fields[names.FORMER_VARIABLE] = names.FORMER_ANNOTATION
    env = [field_variable(name, f"metadata.annotations['{key}']") for name, key in fields.items()]
    own = {**main(body), "env": [*main(body)["env"], *env]}
    return {**body, "spec": {**body["spec"], "containers": [own]}}


def as_before(pod: SimPod, cluster: Cluster) -> None:
    """Make of the pod what an operator from before the rename would have made."""
    body: Body = {**pod.shown()}
    annotations = dict(body["metadata"]["annotations"])
    annotations[names.FORMER_ANNOTATION] = annotations.pop(names.ANNOTATION_LIST_NUMBER)
    annotations[names.ANNOTATION_TOPOLOGY] = "{}"
    body["metadata"] = {**body["metadata"], "annotations": annotations}
    body = read_by_the_kubelet(body)
    cluster.server.replace(pod.target, body)
    pod.process = Process(pod.rank, pod.uid, {"DI_NODES": LIST, names.FORMER_VARIABLE: "1"})


@pytest.mark.virtual_time
async def test_a_job_from_before_goes_on_and_its_pods_hear_of_new_lists() -> None:
    async with simulated(job_body()) as world:
        await world.running()
        await world.operator.stop()
        for pod in world.cluster.pods.values():
            as_before(pod, world.cluster)
        body = world.cluster.read(names.PLURAL, "job")
        former = {key: value for key, value in body["status"].items() if key != "listNumber"}
        world.cluster.server.replace(Target(names.PLURAL, "ns", "job"), {**body, "status": former})
        begun, uids = list(world.cluster.processes), set(world.cluster.pods)
        world.line.calls.clear()
        await world.restart()
        await world.settle()
        written = [(call.target.plural, call.body) for call in world.writes()]
        assert [plural for plural, _ in written] == ["pods"] * 3 + [names.PLURAL]
        assert written[-1][1]["status"] == {"listNumber": 1}
        # The upgrade has cost nothing.
        found = world.cluster.job().status
        assert (found.list_number, found.epoch, found.phase) == (1, 1, "Running")
        assert (found.renewals, found.restarts) == (0, 0)
        assert (world.cluster.processes, set(world.cluster.pods)) == (begun, uids)
        # A rank is lost: whoever dials it starts again in its own pod, which is of the old kind.
        world.cluster.remove("pods", "job-1")
        await world.settle()
        found = world.cluster.job().status
        assert (found.list_number, found.epoch, found.phase) == (2, 2, "Running")
        assert (found.renewals, found.restarts) == (1, 0)
        kept = [pod for pod in world.cluster.pods.values() if pod.uid in uids]
        told = {pod.rank: pod.process.env[names.FORMER_VARIABLE] for pod in kept if pod.process}
        assert told == {0: "1", 2: "2"}
        for pod in kept:
            given = pod.body["metadata"]["annotations"]
            assert [given[key] for key in NUMBERS] == ["2", "2"], pod.name
