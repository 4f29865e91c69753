"""What is waited for: the end of a job, its run, its deletion."""

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from typing import Final

from dijob.client.connection import Connection
from dijob.client.errors import NO_SUCH_KIND, NotFound, TimedOut
from dijob.client.jobs import DELETED, Job, Outcome
from dijob.client.resources import DIJOBS
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


async def states(connection: Connection, namespace: str, name: str) -> AsyncGenerator[Job | None]:
    """One job after each change; None once it is deleted, which is the last. NotFound where there
    is none at first.
    """
    uid = ""
    path = DIJOBS.path(namespace)
    async with aclosing(watched(connection, path, fieldSelector=f"metadata.name={name}")) as found:
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

    Raises TimedOut after `timeout` seconds with what the job was doing.
    """
    last: list[Job] = []

    async def wait() -> Outcome:
        async for job in changes:
            if job is None:
                break
            last[:] = [job]
            if seen is not None:
                seen(job)
            if (outcome := reached(job, goal)) is not None:
                return outcome
        return Outcome(name, DELETED, "it was deleted before it had ended")

    try:
        async with asyncio.timeout(timeout):
            return await wait()
    except TimeoutError:
        now = f": it is {last[0].phase}: {last[0].message}" if last else ""
        raise TimedOut(f"{name} is not {goal} after {timeout:g} s{now}") from None


def reached(job: Job, goal: str) -> Outcome | None:
    """What the wait for a goal ends with; None while it goes on."""
    if (outcome := job.outcome) is not None:
        return outcome
    if goal == RUNNING and job.is_true("Running"):
        return Outcome(job.name, "Running", job.message)
    return None


async def until_gone(changes: AsyncGenerator[Job | None], name: str, timeout: float) -> None:
    """Until a job is deleted with all that holds it. Raises TimedOut."""
    try:
        async with asyncio.timeout(timeout):
            async for job in changes:
                if job is None:
                    return
    except NotFound:
        return
    except TimeoutError:
        raise TimedOut(
            f"{name} is not gone after {timeout:g} s: its finalizers, or pods that do not end, hold"
            f" it (kubectl get dijob {name} -o yaml)"
        ) from None
