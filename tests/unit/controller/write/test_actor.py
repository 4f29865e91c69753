"""How actions are executed, and which requests a rejection saves."""

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from dijob import names
from dijob.controller.cache.children import Children
from dijob.controller.channel.launchers import Launchers
from dijob.controller.observe.delivery import LauncherDelivery
from dijob.controller.observe.memory import JobMemory
from dijob.controller.write.actor import Actor
from dijob.core.actions import CreatePod, DeletePod, ForceDeletePod, OfPod, ReleasePod
from dijob.core.members import gang_of
from dijob.core.observed.reports import LauncherState
from dijob.core.options import Options
from dijob.core.render.pod import pod_manifest
from dijob.kube.api import CONCURRENT_WRITES, RequestError
from fakes.fake_api import FakeApi
from samples.builders import LIST, Body, container, gives, job, pod_body

SIZE = 200
OWNER = job(replicas=SIZE)


class Quota(FakeApi):
    """Accepts a limited number of pods. Each creation takes a moment."""

    room = 0

    async def create(self, path: str, body: Body, *, whole: bool = False) -> Body:
        self.calls.append(("POST", path, body))
        await asyncio.sleep(0)
        if not self.room:
            raise RequestError(403, "Forbidden", "exceeded quota")
        self.room -= 1
        return {
            **body,
            "metadata": {
                **body["metadata"],
                "uid": body["metadata"]["name"],
                "resourceVersion": "1",
            },
        }


class MetadataOnly(FakeApi):
    """Responds to a creation with metadata only, as the operator requests it."""

    async def create(self, path: str, body: Body, *, whole: bool = False) -> Body:
        meta = {**body["metadata"], "uid": "uid-0", "resourceVersion": "7"}
        return {"kind": "PartialObjectMetadata", "metadata": meta}


async def test_a_created_object_is_stored_from_its_manifest() -> None:
    owner, children = job({"containers": [container()], "nodeName": "absent"}), Children.of(())
    actor = Actor(MetadataOnly().api(), children, LauncherDelivery(Options()))
    await actor.carry_out(owner, (CreatePod(gang_of(owner).members[0]),), JobMemory())
    (pod,) = children.pods.of(owner.metadata.owner_key)
    assert (pod.uid, pod.version, pod.placement.node) == ("uid-0", "7", "absent")
    assert pod.placement.unacknowledged == "node absent"
    assert pod.made.restartable


class Connected:
    """A launcher's connection that waits for a response."""

    said: Mapping[str, str] | None = None

    def answer(self, said: Mapping[str, str]) -> bool:
        self.said = said
        return True

    def close(self) -> None:
        """Nothing is open."""


async def test_a_list_for_a_task_needs_no_write() -> None:
    """The name of such a pod does not have the rank, which is in its labels."""
    template = {"spec": {"containers": [container()]}}
    tasks = [
        {"type": "learner", "template": template},
        {"type": "collector", "replicas": 2, "template": template},
    ]
    owner = job(template=None, replicas=None, service="Auto", tasks=tasks)
    body = dict(pod_manifest(owner, gang_of(owner).members[2], Options(channel="h:1"), "key"))
    body["metadata"] |= {"uid": "uid-2", "resourceVersion": "7"}
    api, children = FakeApi(), Children.of(())
    children.pods.put_body(body)
    (pod,) = children.pods.of(owner.metadata.owner_key)
    launchers, link = Launchers(children.pods), Connected()
    launchers.receive(pod, link, LauncherState.WAITING, "10.0.0.2", {})
    action = replace(gives(2, 1, LIST), name=pod.name)
    actor = Actor(api.api(), children, LauncherDelivery(Options()), launchers=launchers)
    await actor.carry_out(owner, (action,), JobMemory())
    assert link.said is not None
    assert link.said[names.ANNOTATION_IPS] == LIST
    assert api.calls == []


class Observing(FakeApi):
    """Notes what the launcher has been sent before each patch."""

    def __init__(self, link: Connected) -> None:
        super().__init__()
        self.link = link
        self.sent: list[Mapping[str, str] | None] = []

    async def patch(self, path: str, body: Any, **options: Any) -> Body:
        self.sent.append(self.link.said)
        return await super().patch(path, body, **options)


async def test_a_pod_with_a_list_in_its_annotations_gets_the_next_one_there_first() -> None:
    """The launcher stops its program as soon as it gets the list. Without the annotations, this end
    would count as a failure.
    """
    owner, children, link = job(service="Auto"), Children.of(()), Connected()
    body = dict(pod_manifest(owner, gang_of(owner).members[2], Options(channel="h:1"), "key"))
    told = {names.ANNOTATION_LIST_NUMBER: "1", names.ANNOTATION_IPS: LIST}
    annotations = body["metadata"]["annotations"] | told
    body["metadata"] |= {"uid": "uid-2", "resourceVersion": "7", "annotations": annotations}
    children.pods.put_body(body)
    (pod,) = children.pods.of(owner.metadata.owner_key)
    launchers, api = Launchers(children.pods), Observing(link)
    launchers.receive(pod, link, LauncherState.STARTED, "10.0.0.2", {})
    actor = Actor(api.api(), children, LauncherDelivery(Options()), launchers=launchers)
    outcome = await actor.carry_out(owner, (gives(2, 2, LIST),), JobMemory())
    assert outcome.error is None
    assert api.sent == [None]
    assert link.said is not None
    assert link.said[names.ANNOTATION_LIST_NUMBER] == "2"


class WatchIsFaster(MetadataOnly):
    """A watch shows a created object before the response arrives."""

    children: Children

    async def create(self, path: str, body: Body, *, whole: bool = False) -> Body:
        answer = await super().create(path, body)
        status = {"conditions": [{"type": "PodScheduled", "status": "True"}]}
        self.children.pods.show({**body, "metadata": answer["metadata"], "status": status})
        return answer


async def test_the_response_to_a_creation_does_not_replace_the_watchs_object() -> None:
    owner, api = job(), WatchIsFaster()
    api.children = Children.of(())
    actor = Actor(api.api(), api.children, LauncherDelivery(Options()))
    await actor.carry_out(owner, (CreatePod(gang_of(owner).members[0]),), JobMemory())
    (pod,) = api.children.pods.of(owner.metadata.owner_key)
    assert pod.placement.unacknowledged == ""


@pytest.mark.parametrize(
    ("room", "refused_before", "asked", "made"),
    [
        pytest.param(0, False, CONCURRENT_WRITES, 0, id="quota exhausted, first attempt"),
        pytest.param(0, True, 1, 0, id="quota still exhausted"),
        pytest.param(SIZE, True, SIZE, SIZE, id="quota has room again"),
        pytest.param(5, True, CONCURRENT_WRITES, 5, id="quota has room for some"),
    ],
)
async def test_a_rejection_that_applies_to_all_pods_costs_few_requests(
    room: int, refused_before: bool, asked: int, made: int
) -> None:
    api, children, memory = Quota(), Children.of(()), JobMemory()
    actor = Actor(api.api(), children, LauncherDelivery(Options()))
    actions = tuple(CreatePod(member) for member in gang_of(OWNER).members)
    if refused_before:
        await actor.carry_out(OWNER, actions, memory)
        api.calls.clear()
    api.room = room
    await actor.carry_out(OWNER, actions, memory)
    assert len(api.calls) == asked
    assert len(children.pods) == made
    assert len(memory.rejections) == SIZE - made
    assert {rejection.message for rejection in memory.rejections.values()} <= {"exceeded quota"}


@pytest.mark.parametrize(
    "action",
    [gives(0, 2, "10.0.0.1"), DeletePod("job-0", "uid-0"), ForceDeletePod("job-0", "uid-0")],
    ids=["a list", "a deletion", "a deletion by force"],
)
async def test_a_pod_is_changed_only_in_the_known_version(action: OfPod) -> None:
    """A former leader has an older version. The conflict makes it read the current pod."""
    newer = pod_body(0)
    newer["metadata"]["resourceVersion"] = "9"
    conflict = RequestError(409, "Conflict", "the object has been modified")
    api, children, memory = (
        FakeApi(lists=[newer], rejections=[conflict]),
        Children.of(()),
        JobMemory(),
    )
    children.pods.show(pod_body(0))
    actor, owner = Actor(api.api(), children, LauncherDelivery(Options())), job()
    await actor.carry_out(owner, (action,), memory)
    (_, _, asked), _ = api.calls
    assert "7" in (asked.get("version"), asked.get("metadata", {}).get("resourceVersion"))
    (pod,) = children.pods.of(owner.metadata.owner_key)
    assert (pod.version, pod.deleting, pod.has_list) == ("9", False, False)
    assert not memory.reverted.published


@pytest.mark.parametrize(
    ("status", "kept"), [(403, False), (500, False), (0, True)], ids=["403", "500", "no answer"]
)
async def test_a_failed_release_is_forgotten(status: int, kept: bool) -> None:
    """R13: without a response, the pod may have been deleted."""
    api = FakeApi(rejections=[RequestError(status, "", "no")])
    children, memory = Children.of(()), JobMemory()
    children.pods.show(pod_body(0))
    actor = Actor(api.api(), children, LauncherDelivery(Options()))
    await actor.carry_out(job(), (ReleasePod("job-0", "uid-0"),), memory)
    assert memory.released == ({"job-0"} if kept else set())
