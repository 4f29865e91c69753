"""Deleting a job waits for the job and its pods, and names those that remain."""

import asyncio
from collections.abc import AsyncGenerator
from pathlib import Path

import pytest
from dijob.client import AsyncClient, TimedOut
from dijob.client.waiting import Deleted, until_gone
from unit.client.kubelets import Kubelets, kubelets

JOB = Deleted("default", "test", "job-uid")


@pytest.fixture
async def world(tmp_path: Path) -> AsyncGenerator[tuple[Kubelets, AsyncClient]]:
    async with kubelets(tmp_path) as (made, kubeconfig), AsyncClient(kubeconfig) as client:
        await made.start(0)
        await made.start(1)
        for name, owner in (("test-0", "a namesake's uid"), ("test-1", JOB.uid)):
            reference = {"uid": owner, "controller": True}
            made.pods[name]["metadata"]["ownerReferences"] = [reference]
        yield made, client


async def test_delete_waits_until_the_jobs_own_pods_are_gone(
    world: tuple[Kubelets, AsyncClient],
) -> None:
    made, client = world
    made.job = None
    with pytest.raises(TimedOut, match=r"these pods are still running: test-1$"):
        await until_gone(client.connection, JOB, 2)  # long enough to list the pods
    waiting = asyncio.create_task(until_gone(client.connection, JOB, 30))
    await made.remove(1)
    await waiting


async def test_a_job_held_by_a_finalizer_is_named(world: tuple[Kubelets, AsyncClient]) -> None:
    made, client = world
    assert made.job is not None
    held = Deleted("default", "test", made.job["metadata"]["uid"])
    with pytest.raises(TimedOut, match="test still exists: its finalizers have not been removed"):
        await until_gone(client.connection, held, 0.5)


async def test_without_permission_to_list_pods_delete_waits_for_the_job(
    world: tuple[Kubelets, AsyncClient],
) -> None:
    made, client = world
    made.job = None
    made.forbidden.add("/api/v1/namespaces/default/pods")
    await until_gone(client.connection, JOB, 30)


@pytest.mark.parametrize(
    ("answer", "uid"),
    [
        pytest.param({"kind": "DIJob", "metadata": {"uid": "u"}}, "u", id="the deleted object"),
        pytest.param(
            {"kind": "Status", "details": {"uid": "u"}}, "u", id="a Status of a job that is gone"
        ),
        pytest.param({}, "", id="neither"),
    ],
)
def test_the_uid_of_the_deleted_job_comes_from_the_response(
    answer: dict[str, object], uid: str
) -> None:
    assert Deleted.of("default", "test", answer).uid == uid


async def test_a_response_without_a_uid_waits_for_the_job(
    world: tuple[Kubelets, AsyncClient],
) -> None:
    """R19: the job counted as deleted immediately."""
    _, client = world
    with pytest.raises(TimedOut, match="test still exists"):
        await until_gone(client.connection, Deleted("default", "test", ""), 0.5)
