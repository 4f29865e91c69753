"""Quarantine: an object whose processing raises is skipped until it changes, and all others are
processed.
"""

import logging
from typing import Any

import pytest
from dijob.api import parse
from dijob.controller import metrics, reconcile
from dijob.controller.cache.children import Children
from dijob.controller.observe.memory import JobMemory
from dijob.controller.reconcile import Reconciler
from dijob.controller.write import status_writer
from dijob.controller.write.actor import Actor
from dijob.core.decide.requeue import RESYNC_SECONDS
from dijob.core.options import Options
from dijob.kube.api import RequestError
from fakes.fake_api import FakeApi, Over
from samples.builders import OWNER, Body, job_body, pod_body

KEY = ("ns", "job")


class Api(FakeApi):
    """Stores the job's status, which a merge patch of conditions requires."""

    version = 1

    async def patch(self, path: str, body: Body, **_: Any) -> Body:
        self._write("PATCH", path, body)
        self.version += 1
        stored = job_body(status=body["status"])
        stored["metadata"]["resourceVersion"] = str(self.version)
        return stored


class Broken(Exception):
    """An unexpected exception."""


def break_(*_: object) -> None:
    raise Broken("no such thing")


def set_aside(kind: str) -> float:
    return metrics.REGISTRY.get_sample_value("dijob_quarantined", {"kind": kind}) or 0.0


@pytest.fixture
def children() -> Children:
    children = Children.of(())
    for store in children.stores.values():
        for reflector in store.reflectors:
            reflector.synced.set()
    return children


WHERE = {
    "parse the spec": (JobMemory, "parse"),
    "sort the pods": (reconcile, "by_rank"),
    "compare with the peer list": (reconcile, "build_context"),
    "plan": (reconcile, "plan_from"),
    "execute the actions": (Actor, "carry_out"),
}


@pytest.mark.parametrize(("owner", "name"), WHERE.values(), ids=WHERE)
async def test_a_job_that_raises_is_quarantined_until_it_changes(
    owner: object,
    name: str,
    children: Children,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    api = Api()
    under_test = Reconciler(api.api(), children, Options())
    under_test.jobs.put(job_body())
    with monkeypatch.context() as patch:
        patch.setattr(owner, name, break_)
        await under_test.reconcile(KEY)
        waits = [await under_test.reconcile(KEY) for _ in range(3)]
    assert waits == [RESYNC_SECONDS] * 3
    statuses = [body["status"] for method, path, body in api.calls if path.endswith("/status")]
    assert len(statuses) == 1
    condition, health = statuses[0]["conditions"]
    assert (health["type"], health["reason"]) == ("Stalled", "Invalid")
    assert (condition["type"], condition["status"], condition["reason"]) == (
        "Invalid",
        "True",
        "OperatorError",
    )
    assert "(Broken: no such thing)" in condition["message"]
    told = [record for record in caplog.records if record.levelno == logging.ERROR]
    assert [(record.getMessage()[:29], bool(record.exc_info)) for record in told] == [
        ("dijobs ns/job is quarantined ", True)
    ]
    assert set_aside("dijobs") == 1

    changed = job_body(status=statuses[0])
    changed["metadata"]["resourceVersion"] = "9"
    assert under_test.jobs.put(changed) == KEY
    await under_test.reconcile(KEY)
    assert set_aside("dijobs") == 0
    assert any(path.endswith("/services") for _, path, _ in api.calls)


async def test_an_api_error_does_not_quarantine_a_job(
    children: Children, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise RequestError(500, "", "away")

    under_test = Reconciler(Api().api(), children, Options())
    under_test.jobs.put(job_body())
    monkeypatch.setattr(reconcile, "plan_from", refuse)
    before = set_aside("dijobs")
    with pytest.raises(RequestError):
        await under_test.reconcile(KEY)
    assert set_aside("dijobs") == before


async def test_a_job_whose_status_raises_too_is_logged(
    children: Children, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    under_test = Reconciler(Api().api(), children, Options())
    under_test.jobs.put(job_body())
    monkeypatch.setattr(parse, "parse_job", break_)
    monkeypatch.setattr(status_writer, "parse_status", break_)
    assert await under_test.reconcile(KEY) == RESYNC_SECONDS
    assert "ns/job: failed to write the status" in caplog.text


def poisoned(**meta: Any) -> Body:
    body = pod_body(0)
    body["spec"]["containers"] = 7
    body["metadata"] |= {"uid": "poison", "name": "job-0", **meta}
    return body


def shown(type_: str, body: Body) -> Body:
    return {"type": type_, "object": body}


async def test_a_pod_that_cannot_be_parsed_is_quarantined_alone(
    caplog: pytest.LogCaptureFixture,
) -> None:
    api, pods, woken = FakeApi(), Children.of(()).pods, list[str]()
    pods.on_change = woken.append
    cured = pod_body(0)
    cured["metadata"] |= {"uid": "poison", "resourceVersion": "9"}
    first: Body = {"metadata": {"resourceVersion": "5"}, "items": [poisoned(), pod_body(1)]}
    api.lists = [first]
    events = [poisoned(resourceVersion="8"), pod_body(2), cured]
    api.watches = [
        [
            *(shown("MODIFIED", body) for body in events),
            shown("DELETED", poisoned(resourceVersion="10")),
        ]
    ]
    seen = list[tuple[list[str], float]]()
    pods.on_change = lambda _: seen.append(([pod.uid for pod in pods.of(OWNER)], set_aside("pods")))
    with pytest.raises(Over):
        await pods.run(api.api())
    assert seen == [
        (["uid-1"], 1),
        (["uid-1", "uid-2"], 1),
        (["uid-1", "uid-2", "poison"], 0),
        (["uid-1", "uid-2"], 0),
    ]
    # One line for the first error, and one after the pod was valid in between.
    assert caplog.text.count("pods ns/job-0 is quarantined") == 2


async def test_a_pod_that_can_no_longer_be_parsed_keeps_its_last_view() -> None:
    api, pods = FakeApi(), Children.of(()).pods
    api.lists = [{"metadata": {"resourceVersion": "5"}, "items": [pod_body(0)]}]
    broken = poisoned(resourceVersion="8", uid="uid-0")
    api.watches = [[shown("MODIFIED", broken)]]
    with pytest.raises(Over):
        await pods.run(api.api())
    assert [pod.uid for pod in pods.of(OWNER)] == ["uid-0"]
