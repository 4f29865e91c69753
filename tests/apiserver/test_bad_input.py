"""Bad input against the real apiserver: each row is refused or reported in words, and changes nothing that runs."""

import pytest
from apiserver.plane import Body, Plane, changed, job
from apiserver.rows import EDITS, REFUSED, REPORTED, EditRefused, Refused, Reported

pytestmark = pytest.mark.apiserver


def lacking(text: str, words: tuple[str, ...]) -> list[str]:
    return [word for word in words if word not in text]


@pytest.mark.parametrize("row", REFUSED.values(), ids=REFUSED.keys())
def test_refused(plane: Plane, untouched: str, row: Refused) -> None:
    said = plane.apply(row.body)
    assert not said.ok, said.text
    assert lacking(said.text, row.words) == [], said.text
    assert row.lines in (0, len(said.text.splitlines())), said.text
    assert plane.get("dijob", row.body["metadata"]["name"]) is None


@pytest.mark.parametrize("row", EDITS.values(), ids=EDITS.keys())
def test_edits_of_a_running_job_are_refused(plane: Plane, untouched: str, row: EditRefused) -> None:
    said = plane.ask(*(word.replace("{}", untouched, 1) if word == "{}" else word for word in row.arguments))
    assert not said.ok, said.text
    assert lacking(said.text, row.words) == [], said.text


def owned(plane: Plane, name: str) -> dict[str, Body]:
    """The pods of the job that stands there now."""
    uid = (plane.get("dijob", name) or {"metadata": {"uid": "none"}})["metadata"]["uid"]
    found = plane.pods(name)
    return {n: p for n, p in found.items() if [o["uid"] for o in p["metadata"]["ownerReferences"]] == [uid]}


@pytest.mark.parametrize("row", REPORTED.values(), ids=REPORTED.keys())
def test_reported(plane: Plane, untouched: str, row: Reported) -> None:
    things = [f"{body['kind'].lower()}/{body['metadata']['name']}" for body in (*row.before, *row.cure)]
    try:
        for body in row.before:
            assert (said := plane.apply(body)).ok, said.text
        # What is somebody else's may change by Kubernetes' own hand (a pod that starts), never by ours.
        before = [(body, _identity(plane, body)) for body in row.before]
        said = plane.apply(row.body)
        assert said.ok, said.text
        plane.until_condition("bad", row.condition, row.status, *row.words)
        plane.until(f"{row.pods} pods", lambda: len(owned(plane, "bad")) == row.pods, lambda: owned(plane, "bad"))
        assert [_identity(plane, body) for body, _ in before] == [was for _, was in before]
        if row.cure:
            assert plane.apply(*row.cure).ok
        if row.healed:
            if row.before:
                plane.remove(*things[: len(row.before)])
            plane.until_condition("bad", *row.healed, seconds=90)
    finally:
        plane.remove("dijob/bad", *things)


def _identity(plane: Plane, body: Body) -> tuple[str, Body, Body]:
    found = plane.get(body["kind"], body["metadata"]["name"])
    assert found is not None, f"{body['kind']} {body['metadata']['name']} is gone"
    return found["metadata"]["uid"], found["metadata"]["labels"], found["metadata"].get("ownerReferences", {})


def test_deleted_and_applied_again_at_once(plane: Plane, untouched: str) -> None:
    try:
        assert plane.apply(job("again")).ok
        plane.until_condition("again", "Running", "True")
        old = {pod["metadata"]["uid"] for pod in plane.pods("again").values()}
        plane.kubectl("delete", "dijob", "again", "--wait=false")
        assert plane.apply(job("again")).ok
        plane.until_condition("again", "Running", "True", seconds=60)
        pods = owned(plane, "again")
        assert len(pods) == 2, pods
        assert not old & {pod["metadata"]["uid"] for pod in pods.values()}
    finally:
        plane.remove("dijob/again")


def test_applied_again_while_an_old_pod_takes_long_to_end(plane: Plane, untouched: str) -> None:
    """The pod has no node, so nobody but this test takes its finalizer away."""
    made = changed(job("again"), "spec.template.spec.nodeSelector", {"no": "such-node"})
    try:
        assert plane.apply(made).ok
        plane.until("two pods", lambda: len(owned(plane, "again")) == 2, lambda: plane.pods("again"))
        held = '{"metadata":{"finalizers":["test.dijob/hold"]}}'
        plane.kubectl("patch", "pod", "again-0", "--type=merge", "-p", held)
        old = plane.pods("again")["again-0"]["metadata"]["uid"]
        plane.kubectl("delete", "dijob", "again", "--wait=false")
        assert plane.apply(made).ok
        plane.until_condition("again", "PodsCreated", "False", "WaitingForOldPod", "pod again-0")
        plane.kubectl("patch", "pod", "again-0", "--type=merge", "-p", '{"metadata":{"finalizers":null}}')
        plane.until_condition("again", "PodsCreated", "True")
        assert old not in {pod["metadata"]["uid"] for pod in owned(plane, "again").values()}
    finally:
        plane.ask("patch", "pod", "again-0", "--type=merge", "-p", '{"metadata":{"finalizers":null}}')
        plane.remove("dijob/again")
