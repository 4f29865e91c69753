"""Waits until a job is running, has finished, or is deleted."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import aclosing, suppress
from dataclasses import dataclass
from typing import Any, Final, Literal, get_args

from dijob import names
from dijob.client.connection import ClientConnection
from dijob.client.errors import (
    NO_SUCH_KIND,
    ApiError,
    JobNotFound,
    NotFound,
    TimedOut,
    check_choice,
)
from dijob.client.jobs import DELETED, Job, Outcome
from dijob.client.resources import DIJOBS, PODS, is_owned_by
from dijob.client.retrying import Report, log_failure
from dijob.client.watching import watch_objects

Goal = Literal["finished", "succeeded", "running"]
FINISHED: Final = "finished"
RUNNING: Final = "running"

Seen = Callable[[Job], None]


def explain_not_found(error: NotFound, namespace: str, name: str) -> NotFound:
    """Return the error for a job that was not found.

    If the cluster does not serve the kind at all, return the given error.
    """
    return error if error.reason == NO_SUCH_KIND else JobNotFound(namespace, name)


async def watch_job(
    connection: ClientConnection, namespace: str, name: str, report: Report = log_failure
) -> AsyncGenerator[Job | None]:
    """Yield a job after each change, and finally None if it is deleted.

    Raises NotFound if the job does not exist when the watch starts. `report` has the same meaning
    as in `watch_objects`.
    """
    # In the field selector, an invalid name would simply match nothing. `path_of` raises BadName
    # instead.
    DIJOBS.path_of(namespace, name)
    uid = ""
    path, one = DIJOBS.path(namespace), f"metadata.name={name}"
    async with aclosing(watch_objects(connection, path, report=report, fieldSelector=one)) as found:
        async for objects in found:
            job = Job(objects[name]) if name in objects else None
            if job is None and not uid:
                raise JobNotFound(namespace, name)
            # A different uid means a new job with the same name, so the watched job is gone.
            if job is None or (uid and job.metadata.uid != uid):
                yield None
                return
            uid = job.metadata.uid
            yield job


async def wait_for_outcome(
    changes: AsyncGenerator[Job | None],
    name: str,
    goal: Goal = FINISHED,
    timeout: float | None = None,
    seen: Seen | None = None,
) -> Outcome:
    """Return the outcome of a job, or Running if that is the goal. `seen` is called for each state.

    Raises TimedOut after `timeout` seconds; the error quotes the last state. If `timeout` is 0,
    only the current state is checked. Raises BadValue for an unknown goal.
    """
    check_choice("goal", goal, get_args(Goal))
    end = None if timeout is None else asyncio.get_running_loop().time() + timeout
    job: Job | None = None
    try:
        # Even with a timeout of 0, wait for the first state.
        async with asyncio.timeout_at(end if timeout else None):
            job = await anext(changes)
        async with asyncio.timeout_at(end):
            while job is not None:
                if seen is not None:
                    seen(job)
                if (outcome := outcome_for_goal(job, goal)) is not None:
                    return outcome
                job = await anext(changes)
            return Outcome(name, DELETED, "the job was deleted before it finished")
    except TimeoutError:
        now = f"; its phase is {job.phase}: {job.message}" if job else ""
        raise TimedOut(f"{name} is not {goal} after {timeout:g} s{now}") from None


def outcome_for_goal(job: Job, goal: str) -> Outcome | None:
    """Return the outcome that ends the wait for a goal, or None while the wait continues."""
    # A job that has finished ends every wait, since it will not reach another goal.
    if (outcome := job.outcome) is not None:
        return outcome
    if goal == RUNNING and job.is_true("Running"):
        return Outcome(job.name, "Running", job.message)
    return None


@dataclass(frozen=True)
class Deleted:
    """A job whose deletion was requested.

    `uid` distinguishes this job from a new job with the same name.
    """

    namespace: str
    name: str
    uid: str

    @staticmethod
    def of(namespace: str, name: str, answer: Mapping[str, Any]) -> "Deleted":
        """Read the uid from the response.

        The response is the object being deleted, or a Status about it.
        """
        uid = (answer.get("metadata") or {}).get("uid") or (answer.get("details") or {}).get("uid")
        return Deleted(namespace, name, str(uid or ""))


async def until_gone(connection: ClientConnection, job: Deleted, timeout: float) -> None:
    """Wait until a job and all its pods are gone. Raises TimedOut.

    A foreground deletion waits for pods as well, but not for those that an older operator created
    without blockOwnerDeletion. A user without permission to list pods waits only for the job.
    """
    left = [
        f"{job.name} still exists: its finalizers have not been removed yet"
        f" (see kubectl get dijob {job.name} -o yaml)"
    ]
    try:
        async with asyncio.timeout(timeout):
            await _job_is_gone(connection, job)
            async for pods in _pods_of(connection, job):
                left[:] = [
                    f"{job.name} is gone, but these pods are still running: {', '.join(pods)}"
                ]
                if not pods:
                    return
    except TimeoutError:
        raise TimedOut(f"after {timeout:g} s, {left[0]}") from None


async def _job_is_gone(connection: ClientConnection, job: Deleted) -> None:
    changes = watch_job(connection, job.namespace, job.name)
    async with aclosing(changes):
        with suppress(NotFound):
            async for seen in changes:
                # If the response contains no uid, a new job with the same name cannot be
                # distinguished from the old one.
                if seen is None or (job.uid and seen.metadata.uid != job.uid):
                    return


async def _pods_of(connection: ClientConnection, job: Deleted) -> AsyncGenerator[list[str]]:
    """Yield the names of the job's pods after each change.

    Yields nothing if the user lacks permission to list pods.
    """
    selector = f"{names.LABEL_JOB}={job.name}"
    found = watch_objects(connection, PODS.path(job.namespace), labelSelector=selector)
    async with aclosing(found):
        try:
            async for pods in found:
                yield sorted(name for name, pod in pods.items() if is_owned_by(pod, job.uid))
        except ApiError as error:
            # Deleting a job must not require the permission to list pods.
            if error.status != 403:
                raise
