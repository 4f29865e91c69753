"""What is waited for: the end of a job, its run, its deletion."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import aclosing, suppress
from dataclasses import dataclass
from typing import Any, Final

from dijob import names
from dijob.client.connection import Connection
from dijob.client.errors import NO_SUCH_KIND, ApiError, NotFound, TimedOut
from dijob.client.jobs import DELETED, Job, Outcome
from dijob.client.resources import DIJOBS, PODS, belongs
from dijob.client.retrying import Report, warn
from dijob.client.watching import watched

RUNNING: Final = "running"
SUCCEEDED: Final = "succeeded"
FINISHED: Final = "finished"
GOALS: Final = (FINISHED, SUCCEEDED, RUNNING)

Seen = Callable[[Job], None]


def missing(namespace: str, name: str) -> NotFound:
    """The error where there is no such job."""
    return NotFound(404, "NotFound", f"there is no DIJob {name} in namespace {namespace}")


def about(error: NotFound, namespace: str, name: str) -> NotFound:
    """What a call about a job that was not found says: the kind may be missing."""
    return error if error.reason == NO_SUCH_KIND else missing(namespace, name)


async def states(
    connection: Connection, namespace: str, name: str, report: Report = warn
) -> AsyncGenerator[Job | None]:
    """One job after each change; None once it is deleted, which is the last. NotFound where there
    is none at first. `report` is that of `watched`.
    """
    DIJOBS.path_of(namespace, name)  # raises BadName
    uid = ""
    path, one = DIJOBS.path(namespace), f"metadata.name={name}"
    async with aclosing(watched(connection, path, report=report, fieldSelector=one)) as found:
        async for objects in found:
            job = Job(objects[name]) if name in objects else None
            if job is None and not uid:
                raise missing(namespace, name)
            if job is None or (uid and job.metadata.uid != uid):
                yield None
                return
            uid = job.metadata.uid
            yield job


async def until(
    changes: AsyncGenerator[Job | None],
    name: str,
    goal: str = FINISHED,
    timeout: float | None = None,
    seen: Seen | None = None,
) -> Outcome:
    """The outcome of a job, or Running where that is the goal. `seen` is told of each state.

    Raises TimedOut after `timeout` seconds with what the job was doing; with 0 the job is looked at
    once.
    """
    end = None if timeout is None else asyncio.get_running_loop().time() + timeout
    job: Job | None = None
    try:
        async with asyncio.timeout_at(end if timeout else None):
            job = await anext(changes)
        async with asyncio.timeout_at(end):
            while job is not None:
                if seen is not None:
                    seen(job)
                if (outcome := reached(job, goal)) is not None:
                    return outcome
                job = await anext(changes)
            return Outcome(name, DELETED, "it was deleted before it had ended")
    except TimeoutError:
        now = f": it is {job.phase}: {job.message}" if job else ""
        raise TimedOut(f"{name} is not {goal} after {timeout:g} s{now}") from None


def reached(job: Job, goal: str) -> Outcome | None:
    """What the wait for a goal ends with; None while it goes on."""
    if (outcome := job.outcome) is not None:
        return outcome
    if goal == RUNNING and job.is_true("Running"):
        return Outcome(job.name, "Running", job.message)
    return None


@dataclass(frozen=True)
class Deleted:
    """A job whose deletion has been asked for; `uid` tells its pods from those of a namesake."""

    namespace: str
    name: str
    uid: str

    @staticmethod
    def of(namespace: str, name: str, answer: Mapping[str, Any]) -> "Deleted":
        """From what the apiserver answers: the object that goes, or a Status about it."""
        uid = (answer.get("metadata") or {}).get("uid") or (answer.get("details") or {}).get("uid")
        return Deleted(namespace, name, str(uid or ""))


async def until_gone(connection: Connection, job: Deleted, timeout: float) -> None:
    """Until a job is gone and all its pods. Raises TimedOut.

    Kubernetes itself waits only for dependents that block their owner's deletion, and pods of
    DIJobs do not. Whoever may not list pods waits for the job alone.
    """
    left = [
        f"{job.name} is not gone: its finalizers hold it (kubectl get dijob {job.name} -o yaml)"
    ]
    try:
        async with asyncio.timeout(timeout):
            await _job_is_gone(connection, job)
            async for pods in _pods_of(connection, job):
                left[:] = [f"{job.name} is deleted, and its pods have not ended: {', '.join(pods)}"]
                if not pods:
                    return
    except TimeoutError:
        raise TimedOut(f"{left[0]}, after {timeout:g} s") from None


async def _job_is_gone(connection: Connection, job: Deleted) -> None:
    changes = states(connection, job.namespace, job.name)
    async with aclosing(changes):
        with suppress(NotFound):
            async for seen in changes:
                # Without a uid in the answer no namesake can be told from the job itself.
                if seen is None or (job.uid and seen.metadata.uid != job.uid):
                    return


async def _pods_of(connection: Connection, job: Deleted) -> AsyncGenerator[list[str]]:
    """The names of its pods after each change; nothing where they may not be listed."""
    selector = f"{names.LABEL_JOB}={job.name}"
    found = watched(connection, PODS.path(job.namespace), labelSelector=selector)
    async with aclosing(found):
        try:
            async for pods in found:
                yield sorted(name for name, pod in pods.items() if belongs(pod, job.uid))
        except ApiError as error:
            if error.status != 403:
                raise
