"""The simulated apiserver responds as a real one does. (tests/apiserver and tests/faults use a real
one.)
"""

import asyncio
from typing import Any

import pytest
from dijob import names
from dijob.kube.api import Api, RequestError, Stream
from samples.builders import Body, job_body
from simulator.cluster import Cluster
from simulator.connection import Fault, Line, Wire
from simulator.objects import Target
from simulator.virtual import VirtualLoop

pytestmark = pytest.mark.virtual_time

PODS = "/api/v1/namespaces/ns/pods"
JOB = f"/apis/{names.API_VERSION}/namespaces/ns/{names.PLURAL}/job"
MINE = {"app": "mine"}


def pod(name: str = "a", **meta: Any) -> Body:
    return {
        "metadata": {"name": name, "labels": MINE, **meta},
        "spec": {"containers": [{"name": "x"}]},
    }


class Door:
    """The operator's API client with a simulated apiserver."""

    def __init__(self) -> None:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualLoop)
        self.cluster = Cluster(loop)
        self.line = Line()
        self.api: Api = Wire(self.cluster.server, self.cluster.watches, self.line).api()
        self.cluster.apply(job_body())

    async def no(self, call: Any) -> int:
        """Return the status code with which a request is rejected."""
        with pytest.raises(RequestError) as found:
            await call
        return found.value.status

    async def shown(self, stream: Stream, count: int) -> list[tuple[str, str]]:
        """Return the types and the object names of the first events of a watch."""
        found = []
        async for event in self.api.watch(stream):
            found.append((event["type"], event["object"].get("metadata", {}).get("name", "")))
            if len(found) == count:
                break
        return found


async def test_a_creation_returns_metadata_only() -> None:
    door = Door()
    made = await door.api.create(PODS, pod())
    assert set(made) == {"kind", "apiVersion", "metadata"}
    assert made["metadata"]["uid"]
    assert made["metadata"]["managedFields"]
    stored = await door.api.get(f"{PODS}/a")
    assert (stored["kind"], stored["status"]) == ("Pod", {"phase": "Pending"})


async def test_which_requests_are_rejected() -> None:
    door = Door()
    made = (await door.api.create(PODS, pod()))["metadata"]
    of = {"metadata": {"uid": "another"}}
    assert await door.no(door.api.create(PODS, pod())) == 409
    assert await door.no(door.api.get(f"{PODS}/b")) == 404
    assert await door.no(door.api.patch(f"{PODS}/b", of)) == 404
    assert await door.no(door.api.patch(f"{PODS}/a", of)) == 422
    assert await door.no(door.api.patch(f"{PODS}/a", {"metadata": {"resourceVersion": "1"}})) == 409
    assert await door.no(door.api.patch(f"{PODS}/a", {"spec": {"nodeName": "x"}})) == 422
    assert (
        await door.no(
            door.api.patch(f"{PODS}/a", {"metadata": {"annotations": {"x": "y" * 300_000}}})
        )
        == 422
    )
    assert await door.no(door.api.delete(f"{PODS}/a", "another")) == 409
    assert await door.no(door.api.delete(f"{PODS}/a", made["uid"], version="1")) == 409
    assert await door.no(door.api.get("/api/v1/namespaces/ns/secrets")) == 404


async def test_the_status_is_a_subresource() -> None:
    door = Door()
    both = {"spec": {"suspend": True}, "status": {"phase": "Running", "new": 1}}
    await door.api.patch(JOB, both)
    stored = await door.api.get(JOB)
    assert (stored["spec"]["suspend"], stored["status"], stored["metadata"]["generation"]) == (
        True,
        {},
        2,
    )
    door.cluster.server.pruned.add("new")
    await door.api.patch(f"{JOB}/status", {**both, "spec": {"suspend": False}})
    stored = await door.api.get(JOB)
    assert (stored["spec"]["suspend"], stored["status"], stored["metadata"]["generation"]) == (
        True,
        {"phase": "Running"},
        2,
    )


async def test_a_write_without_changes_has_no_new_version() -> None:
    door = Door()
    made = (await door.api.create(PODS, pod()))["metadata"]
    answer = await door.api.patch(f"{PODS}/a", {"metadata": {"uid": made["uid"], "labels": MINE}})
    assert answer["metadata"]["resourceVersion"] == made["resourceVersion"]


async def test_a_deletion_waits_for_the_kubelet_and_for_finalizers() -> None:
    door = Door()
    for name in ("waits", "goes", "held"):
        await door.api.create(
            PODS, pod(name, **({"finalizers": ["x/y"]} if name == "held" else {}))
        )
    waits = door.cluster.pod("waits")
    waits.place("10.0.0.1")
    door.cluster.report(waits)
    for name in ("waits", "goes", "held"):
        await door.api.delete(f"{PODS}/{name}", door.cluster.pod(name).uid)
    assert door.cluster.names_of("pods") == {"waits", "held"}
    assert (await door.api.get(f"{PODS}/waits"))["metadata"][
        "deletionTimestamp"
    ] > "2026-05-04T12:00:29Z"
    await door.api.delete(f"{PODS}/waits", waits.uid, grace=0)
    await door.api.patch(f"{PODS}/held", {"metadata": {"finalizers": None}})
    assert door.cluster.names_of("pods") == set()


async def test_lists_by_label_by_field_and_in_pages() -> None:
    door = Door()
    for name in "abc":
        await door.api.create(PODS, pod(name))
    await door.api.create(PODS, pod("d", labels={"app": "theirs"}))
    first = await door.api.get("/api/v1/pods", labelSelector="app=mine", limit="2")
    await door.api.create(PODS, pod("e"))
    rest = await door.api.get(
        "/api/v1/pods",
        labelSelector="app=mine",
        limit="2",
        **{"continue": first["metadata"]["continue"]},
    )
    assert [body["metadata"]["name"] for body in (*first["items"], *rest["items"])] == [
        "a",
        "b",
        "c",
    ]
    assert rest["metadata"] == {
        "resourceVersion": first["metadata"]["resourceVersion"],
        "continue": "",
    }
    found = await door.api.get(PODS, fieldSelector="metadata.name=d,status.phase=Pending")
    assert [body["metadata"]["name"] for body in found["items"]] == ["d"]


async def test_a_list_in_pages_can_expire() -> None:
    door = Door()
    for name in "ab":
        await door.api.create(PODS, pod(name))
    token = (await door.api.get(PODS, limit="1"))["metadata"]["continue"]
    door.cluster.server.compact()
    assert await door.no(door.api.get(PODS, **{"continue": token})) == 410


async def test_a_watch_can_begin_with_the_existing_objects() -> None:
    door = Door()
    await door.api.create(PODS, pod())
    found = await door.shown(Stream("/api/v1/pods", "app=mine", initial=True), 2)
    assert found == [("ADDED", "a"), ("BOOKMARK", "")]
    door.cluster.watches.lists = False
    assert await door.no(door.shown(Stream("/api/v1/pods", "app=mine", initial=True), 2)) == 422


async def test_a_watch_starts_at_a_version_and_respects_its_selector() -> None:
    door = Door()
    await door.api.create(PODS, pod())
    version = str(door.cluster.server.version)
    for label in ("theirs", "mine"):
        await door.api.patch(f"{PODS}/a", {"metadata": {"labels": {"app": label}}})
    await door.api.delete(f"{PODS}/a", door.cluster.pod("a").uid)
    found = await door.shown(Stream("/api/v1/pods", "app=mine", version), 3)
    assert found == [("DELETED", "a"), ("ADDED", "a"), ("DELETED", "a")]


async def test_a_watch_from_an_expired_version_fails_with_410() -> None:
    door = Door()
    version = str(door.cluster.server.version)
    await door.api.create(PODS, pod())
    door.cluster.server.compact()
    assert await door.shown(Stream("/api/v1/pods", "", version), 3) == [("ERROR", "")]


async def test_an_idle_watch_has_bookmarks_and_a_silent_one_times_out() -> None:
    door = Door()
    assert await door.shown(Stream("/api/v1/pods", ""), 99) == [("BOOKMARK", "")] * 4
    assert door.cluster.loop.time() == pytest.approx(300)
    watching = asyncio.create_task(door.shown(Stream("/api/v1/pods", ""), 1))
    await asyncio.sleep(1)
    door.cluster.watches.silence()
    assert await door.no(watching) == 0
    assert door.cluster.loop.time() == pytest.approx(370)


async def test_held_events_arrive_when_they_are_released() -> None:
    door = Door()
    found: list[str] = []
    note = found.append

    async def follow() -> None:
        async for event in door.api.watch(Stream("/api/v1/pods", "")):
            note(event["object"]["metadata"]["name"])

    watching = asyncio.create_task(follow())
    await asyncio.sleep(1)
    door.cluster.watches.held = True
    for name in "abc":
        await door.api.create(PODS, pod(name))
    await asyncio.sleep(1)
    assert found == []
    door.cluster.watches.release(2)
    await asyncio.sleep(1)
    assert found == ["a", "b"]
    door.cluster.watches.repeat(2)
    await asyncio.sleep(1)
    assert found == ["a", "b", "a"]
    watching.cancel()


@pytest.mark.parametrize(
    ("status", "done", "there"), [(503, False, False), (0, False, False), (0, True, True)]
)
async def test_a_fault_occurs_as_often_as_requested(status: int, done: bool, there: bool) -> None:
    door = Door()
    door.line.faults.append(Fault("POST", "pods", status, done=done))
    assert await door.no(door.api.create(PODS, pod())) == status
    assert ("a" in door.cluster.names_of("pods")) is there
    await door.api.create(PODS, pod("b"))


async def test_the_garbage_collector_deletes_the_children_of_a_deleted_job() -> None:
    door = Door()
    for name, uid in (("left", "job-uid"), ("stays", "")):
        owner = {
            "apiVersion": names.API_VERSION,
            "kind": names.KIND,
            "name": "job",
            "uid": uid,
            "controller": True,
        }
        await door.api.create(PODS, pod(name, **({"ownerReferences": [owner]} if uid else {})))
    door.cluster.collect()
    assert door.cluster.names_of("pods") == {"left", "stays"}
    door.cluster.remove(names.PLURAL, "job")
    door.cluster.collect()
    assert door.cluster.names_of("pods") == {"stays"}
    assert Target(names.PLURAL, "ns", "job") not in door.cluster.server.objects
