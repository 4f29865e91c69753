"""Rejected changes: what the controller remembers about them, and which other changes continue."""

import pytest
from dijob.api.status import Status
from dijob.controller.observe.delivery import LauncherDelivery
from dijob.controller.observe.memory import JobMemory
from dijob.controller.reconcile import Reconciler
from dijob.controller.write.actor import Actor
from dijob.core.actions import CreatePod, DeletePod, EndPod
from dijob.core.members import gang_of
from dijob.core.observed.views import Pod, RejectionCause
from dijob.core.options import Options
from dijob.kube.api import RequestError
from fakes.protected import POLICY, Protected, children
from samples.builders import OWNER, Body, job, job_body, listed, view


async def test_a_rejected_change_is_remembered_until_it_is_accepted() -> None:
    api, memory = Protected(protected={"job-1"}), JobMemory()
    known = children(*(view(rank) for rank in range(3)))
    actor = Actor(api.api(), known, LauncherDelivery(Options()))
    actions = tuple(DeletePod(f"job-{rank}", f"uid-{rank}") for rank in range(3))
    assert (await actor.carry_out(job(), actions, memory)).error is None
    assert {key: (no.why, no.message) for key, no in memory.rejections.items()} == {
        "delete pod/job-1 uid-1": (RejectionCause.FORBIDDEN, POLICY)
    }
    assert {pod.name: pod.deleting for pod in known.pods.of(OWNER)} == {
        "job-0": True,
        "job-1": False,
        "job-2": True,
    }
    api.protected.clear()
    await actor.carry_out(job(), actions[1:2], memory)
    assert memory.rejections == {}


MANY = 200
DELETIONS = tuple(DeletePod(f"job-{rank}", f"uid-{rank}") for rank in range(MANY))


async def test_one_of_many_rejected_changes_is_retried_first() -> None:
    api, memory = Protected(protected={action.name for action in DELETIONS}), JobMemory()
    known = children()
    actor = Actor(api.api(), known, LauncherDelivery(Options()))
    await actor.carry_out(job(replicas=MANY), DELETIONS, memory)
    assert len(api.asked("DELETE")) == MANY
    api.calls.clear()
    await actor.carry_out(job(replicas=MANY), DELETIONS, memory)
    assert api.asked("DELETE") == ["job-0"]
    assert {no.retry_at for no in memory.rejections.values()} == {
        memory.rejections["delete pod/job-0 uid-0"].retry_at
    }
    # One pod may be protected permanently, so the others must not wait for it.
    api.protected = {"job-0"}
    api.calls.clear()
    await actor.carry_out(job(replicas=MANY), DELETIONS, memory)
    assert api.asked("DELETE") == [action.name for action in (*DELETIONS[1:], DELETIONS[0])]
    assert set(memory.rejections) == {"delete pod/job-0 uid-0"}


async def test_a_rejected_kind_of_change_does_not_delay_other_kinds() -> None:
    api, memory = Protected(protected={"job-0"}), JobMemory()
    known = children()
    actor = Actor(api.api(), known, LauncherDelivery(Options()))
    actions = (DeletePod("job-0", "uid-0"), EndPod("job-1", "uid-1"))
    for _ in range(2):
        await actor.carry_out(job(), actions, memory)
    assert api.asked("PATCH") == ["job-1"] * 2


async def passes(api: Protected, *pods: Pod, times: int = 1) -> float | None:
    """Reconcile the job some times. Return the result of the last time."""
    api.body = job_body(
        status={"listNumber": 1, "conditions": [{"type": "PeersReady", "status": "True"}]}
    )
    known = children(*pods)
    reconciler = Reconciler(api.api(), known, Options())
    reconciler.jobs.put(api.body)
    wait: float | None = None
    for _ in range(times):
        wait = await reconciler.reconcile(("ns", "job"))
    return wait


# Rank 2 is to be removed from the job of two ranks; rank 1 has crashed in its pod.
LEAVES = (
    listed(0),
    listed(1, ready=False, complaint="container di-container: CrashLoopBackOff"),
    listed(2),
    listed(3),
)


def status(api: Protected) -> Status:
    return Status.model_validate(api.body["status"])


async def test_the_status_is_written_even_if_a_change_is_rejected() -> None:
    """A crashed rank is reported, whatever else the apiserver rejects."""
    api = Protected(protected={"job-3"})
    wait = await passes(api, *LEAVES, times=3)
    told = {c.type: (c.status, c.reason) for c in status(api).conditions}
    assert told["ChangesRefused"] == ("True", "PodDeletionRefused")
    assert told["PeersReady"][0] == "False"
    assert api.asked("DELETE") == ["job-3"]
    assert wait is not None
    assert 0 < wait <= 1


async def test_an_unexpected_error_quarantines_the_job_after_the_status_was_written(
    caplog: pytest.LogCaptureFixture,
) -> None:
    api = Protected(protected={"job-3"}, answer=RuntimeError("a bug of ours"))
    await passes(api, *LEAVES)
    assert (
        "dijobs ns/job is quarantined until it changes: RuntimeError: a bug of ours" in caplog.text
    )
    told = {c.type: c.status for c in status(api).conditions}
    assert told["PeersReady"] == "False"
    assert "ChangesRefused" not in told


class Deaf(Protected):
    """The name of each creation is taken, and the object with this name cannot be read."""

    async def create(self, path: str, body: Body, *, whole: bool = False) -> Body:
        raise RequestError(409, "AlreadyExists", "there is one")

    async def get(self, path: str, **query: str) -> Body:
        raise RequestError(503, "ServiceUnavailable", "try later")


async def test_a_namesake_that_cannot_be_read_is_a_rejection_too() -> None:
    api, memory, known = Deaf(), JobMemory(), children()
    actor = Actor(api.api(), known, LauncherDelivery(Options()))
    outcome = await actor.carry_out(job(), (CreatePod(gang_of(job()).members[0]),), memory)
    assert outcome.error is None
    assert memory.rejections["pod/job-0"].message == "try later"
