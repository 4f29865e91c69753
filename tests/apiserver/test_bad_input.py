"""Bad input on a real apiserver: each row is rejected or reported, and does not affect running
pods.
"""

import json
from collections.abc import Iterator

import pytest
from apiserver import rows, rows_edits, rows_tasks
from apiserver.plane import Body, Plane, changed, job
from apiserver.rows import EditRefused, Refused, Reported

pytestmark = pytest.mark.apiserver

REFUSED = rows.REFUSED | rows_tasks.REFUSED
REPORTED = rows.REPORTED | rows_tasks.REPORTED


def lacking(text: str, words: tuple[str, ...]) -> list[str]:
    return [word for word in words if word not in text]


@pytest.mark.parametrize("row", REFUSED.values(), ids=REFUSED.keys())
def test_rejected(plane: Plane, untouched: str, row: Refused) -> None:
    said = plane.try_apply(row.body)
    assert not said.ok, said.text
    assert lacking(said.text, row.words) == [], said.text
    assert row.lines in (0, len(said.text.splitlines())), said.text
    assert len(said.text) < 3000, "the message repeats a long value"
    assert plane.get("dijob", row.body["metadata"]["name"]) is None


@pytest.mark.parametrize("row", rows_edits.EDITS.values(), ids=rows_edits.EDITS.keys())
def test_edits_of_a_running_job_are_rejected(
    plane: Plane, untouched: str, row: EditRefused
) -> None:
    said = plane.ask(
        *(word.replace("{}", untouched, 1) if word == "{}" else word for word in row.arguments)
    )
    assert not said.ok, said.text
    assert lacking(said.text, row.words) == [], said.text


@pytest.fixture(scope="module")
def with_tasks(plane: Plane) -> Iterator[str]:
    """Yield a running job with tasks. Rejected requests must not change it."""
    plane.apply(rows_tasks.tasks_job("tasks"))
    plane.until_condition("tasks", "Running", "True")
    before = plane.uids("tasks")
    yield "tasks"
    assert before == plane.uids("tasks")
    plane.remove("dijob/tasks")


@pytest.mark.parametrize("row", rows_tasks.EDITS.values(), ids=rows_tasks.EDITS.keys())
def test_edits_of_a_running_job_with_tasks_are_rejected(
    plane: Plane, with_tasks: str, row: EditRefused
) -> None:
    said = plane.ask(*(with_tasks if word == "{}" else word for word in row.arguments))
    assert not said.ok, said.text
    assert lacking(said.text, row.words) == [], said.text


@pytest.fixture(scope="module")
def ended(plane: Plane) -> Iterator[str]:
    """Yield a failed job. Rejected requests must not change its spec."""
    plane.apply(job("ended", minReplicas=1, activeDeadlineSeconds=1))
    plane.until_condition("ended", "Finished", "True", "Failed")
    yield "ended"
    plane.remove("dijob/ended")


@pytest.mark.parametrize(
    "row", rows_edits.EDITS_AFTER_THE_END.values(), ids=rows_edits.EDITS_AFTER_THE_END.keys()
)
def test_edits_of_a_failed_job_are_rejected_with_advice(
    plane: Plane, ended: str, row: EditRefused
) -> None:
    before = (plane.get("dijob", ended) or {})["spec"]
    said = plane.ask(*(ended if word == "{}" else word for word in row.arguments))
    assert not said.ok, said.text
    assert lacking(said.text, row.words) == [], said.text
    assert len(said.text.splitlines()) == 1, said.text
    assert (plane.get("dijob", ended) or {})["spec"] == before


@pytest.mark.parametrize(
    "edit", rows_edits.ALLOWED_AFTER_THE_END.values(), ids=rows_edits.ALLOWED_AFTER_THE_END.keys()
)
def test_some_fields_can_be_changed_after_the_end(
    plane: Plane, ended: str, edit: tuple[str, ...]
) -> None:
    said = plane.ask(*(ended if word == "{}" else word for word in edit))
    assert said.ok, said.text
    assert plane.condition(ended, "Finished")["status"] == "True"


def test_a_change_that_was_accepted_can_be_reverted_while_the_job_runs(plane: Plane) -> None:
    made = changed(job("reverted"), "spec.template.spec.terminationGracePeriodSeconds", 5)
    # The rule does not notice that one undeclared field replaces another.
    slip = changed(job("reverted"), "spec.template.spec.terminationGracePeriodSecond", 5)
    # An older CRD may have accepted other changes too.
    image = [{"op": "replace", "path": f"/{rows.CONTAINER.replace('.', '/')}/image", "value": "b"}]
    try:
        plane.apply(made)
        plane.until_condition("reverted", "Running", "True")
        before = plane.uids("reverted")
        plane.apply(slip)
        plane.until_condition("reverted", "Invalid", "True", "TemplateChanged")
        plane.kubectl("patch", "dijob", "reverted", "--type=json", "-p", json.dumps(image))
        assert plane.condition("reverted", "Invalid")["status"] == "True"
        plane.apply(made)
        plane.until_condition("reverted", "Invalid", "False", "Valid")
        refused = plane.ask("patch", "dijob", "reverted", "--type=json", "-p", json.dumps(image))
        assert rows_edits.CANNOT in refused.text
        assert plane.uids("reverted") == before
    finally:
        plane.remove("dijob/reverted")


def test_a_suspended_job_can_be_changed(plane: Plane) -> None:
    made = rows_tasks.tasks_job("held", suspend=True)
    try:
        plane.apply(made)
        plane.until_condition("held", "Suspended", "True", "spec.suspend")
        new = rows_tasks.tasks_job(
            "held",
            {"type": "none", "name": "other"},
            {"type": "learner"},
            suspend=True,
            group="g",
            topology="star",
        )
        plane.apply(new)
        # Replace the template by tasks, and resume.
        plane.apply(job("held", topology="alone", replicas=2))
        plane.until_condition("held", "Running", "True")
        assert sorted(plane.pods("held")) == ["held-0", "held-1"]
    finally:
        plane.remove("dijob/held")


def test_the_jobs_own_redis_server_keeps_its_port_while_the_job_is_suspended(
    plane: Plane,
) -> None:
    try:
        plane.apply(job("held", suspend=True, messageQueue={"type": "redis"}))
        plane.until_condition("held", "Suspended", "True", "spec.suspend")
        for edit in rows_tasks.EDITS_OF_SUSPENDED.values():
            said = plane.ask(*("held" if word == "{}" else word for word in edit.arguments))
            assert not said.ok, said.text
            assert lacking(said.text, edit.words) == [], said.text
            assert len(said.text.splitlines()) == 1, said.text
        for allowed in rows_tasks.ALLOWED_OF_SUSPENDED.values():
            said = plane.ask(*("held" if word == "{}" else word for word in allowed))
            assert said.ok, said.text
    finally:
        plane.remove("dijob/held")


def owned(plane: Plane, name: str) -> dict[str, Body]:
    """Return the pods of the current job with this name."""
    uid = (plane.get("dijob", name) or {"metadata": {"uid": "none"}})["metadata"]["uid"]
    found = plane.pods(name)
    return {
        n: p
        for n, p in found.items()
        if [o["uid"] for o in p["metadata"]["ownerReferences"]] == [uid]
    }


@pytest.mark.parametrize("row", REPORTED.values(), ids=REPORTED.keys())
def test_reported(plane: Plane, untouched: str, row: Reported) -> None:
    things = [
        f"{body['kind'].lower()}/{body['metadata']['name']}" for body in (*row.before, *row.cure)
    ]
    try:
        for body in row.before:
            # The Service of an earlier job with this name may still be there.
            until_absent(plane, body["kind"], body["metadata"]["name"])
            plane.apply(body)
        # Kubernetes may change objects of other owners (a pod that starts), but the operator must
        # not.
        before = [(body, _identity(plane, body)) for body in row.before]
        plane.apply(row.body)
        name = row.body["metadata"]["name"]
        plane.until_condition(name, row.condition, row.status, *row.words)
        plane.until(
            f"{row.pods} pods",
            lambda: len(owned(plane, name)) == row.pods,
            lambda: owned(plane, name),
        )
        assert [_identity(plane, body) for body, _ in before] == [was for _, was in before]
        if row.cure:
            plane.apply(*row.cure)
        if row.healed:
            if row.before:
                plane.remove(*things[: len(row.before)])
            plane.until_condition("bad", *row.healed, seconds=90)
    finally:
        plane.remove(f"dijob/{row.body['metadata']['name']}", *things)


def until_absent(plane: Plane, kind: str, name: str) -> None:
    plane.until(f"no {kind} {name}", lambda: not plane.get(kind, name), lambda: None)


def _identity(plane: Plane, body: Body) -> tuple[str, Body, Body]:
    found = plane.get(body["kind"], body["metadata"]["name"])
    assert found is not None, f"{body['kind']} {body['metadata']['name']} is gone"
    return (
        found["metadata"]["uid"],
        found["metadata"]["labels"],
        found["metadata"].get("ownerReferences", {}),
    )


def test_a_job_can_be_deleted_and_applied_again_at_once(plane: Plane, untouched: str) -> None:
    try:
        plane.apply(job("again"))
        plane.until_condition("again", "Running", "True")
        old = set(plane.uids("again").values())
        plane.kubectl("delete", "dijob", "again", "--wait=false")
        plane.apply(job("again"))
        plane.until_condition("again", "Running", "True", seconds=60)
        pods = owned(plane, "again")
        assert len(pods) == 2, pods
        assert not old & {pod["metadata"]["uid"] for pod in pods.values()}
    finally:
        plane.remove("dijob/again")


def test_a_job_applied_again_waits_for_old_pods(plane: Plane, untouched: str) -> None:
    """The old pod has no node, so nothing but this test removes its finalizer."""
    made = changed(job("again"), "spec.template.spec.nodeSelector", {"no": "such-node"})
    try:
        plane.apply(made)
        plane.until(
            "two pods", lambda: len(owned(plane, "again")) == 2, lambda: plane.pods("again")
        )
        held = '{"metadata":{"finalizers":["test.dijob/hold"]}}'
        plane.kubectl("patch", "pod", "again-0", "--type=merge", "-p", held)
        old = plane.uids("again")["again-0"]
        plane.kubectl("delete", "dijob", "again", "--wait=false")
        plane.apply(made)
        plane.until_condition("again", "PodsCreated", "False", "WaitingForOldPod", "pod again-0")
        plane.kubectl(
            "patch", "pod", "again-0", "--type=merge", "-p", '{"metadata":{"finalizers":null}}'
        )
        plane.until_condition("again", "PodsCreated", "True")
        assert old not in {pod["metadata"]["uid"] for pod in owned(plane, "again").values()}
    finally:
        plane.ask(
            "patch", "pod", "again-0", "--type=merge", "-p", '{"metadata":{"finalizers":null}}'
        )
        plane.remove("dijob/again")
