"""Deletes the pods of a drill, and follows the job until it has recovered."""

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing

from dijob.cli.errors import CliError, Exit
from dijob.cli.watching.feed import Feed
from dijob.cli.watching.view import Snapshot
from dijob.client import AsyncClient, Job, RankPod
from dijob.client.connection import ClientRequest
from dijob.client.resources import PODS

from dijob_extras.drill.recovery import Recovery, Stage
from dijob_extras.drill.victims import Victims


async def carry_out(
    client: AsyncClient, name: str, victims: Victims, timeout: float, say: Callable[[str], None]
) -> Recovery:
    """Delete the pods, and return the recovery. `say` is called with a line for each stage.

    Raises CliError if the job ends, is deleted, or has not recovered within `timeout` seconds.
    """
    loop = asyncio.get_running_loop()
    async with aclosing(Feed(client, name).snapshots()) as states:
        # The watches must work before anything is deleted, so that no stage is missed.
        recovery = Recovery(await _first_state(states, victims), victims)
        for pod in victims.pods:
            await _delete_pod(client, pod)
        start = loop.time()
        try:
            async with asyncio.timeout(timeout):
                async for state in states:
                    for line in recovery.observe(state.job, state.pods, loop.time() - start):
                        say(line)
                    if state.job.finished:
                        raise CliError(f"the job ended during the drill: {state.job.outcome}")
                    if recovery.next_stage is None:
                        return recovery
        except TimeoutError:
            raise CliError(_explain_timeout(recovery, timeout), Exit.TIMED_OUT) from None
    raise CliError(f"job {name} was deleted during the drill", Exit.NOT_FOUND)


async def _first_state(states: AsyncGenerator[Snapshot], victims: Victims) -> Job:
    """Wait until the watches also show the pods, and return the job. Raises CliError if a victim
    has changed.
    """
    async for state in states:
        if forbidden := [one for one in state.unseen if 'resource "pods"' in one]:
            raise CliError(forbidden[0], Exit.REFUSED)
        if state.pods:
            now = {pod.uid for pod in state.pods}
            if all(pod.uid in now for pod in victims.pods):
                return state.job
            break
    raise CliError(
        "the pods have changed since the confirmation, so nothing was deleted: try again"
    )


async def _delete_pod(client: AsyncClient, pod: RankPod) -> None:
    # The uid prevents the API server from deleting a new pod that has the same name.
    body = {"preconditions": {"uid": pod.uid}}
    path = PODS.path_of(client.namespace, pod.name)
    await client.connection.json(ClientRequest("DELETE", path, body))


def _explain_timeout(recovery: Recovery, timeout: float) -> str:
    missing = {
        Stage.DETECTION: "the operator has not noticed the loss",
        Stage.RESTART: "not all deleted ranks are running again",
        Stage.CONNECTED: "not all ranks are connected",
        Stage.PROGRESS: "all ranks are connected, but the job has not reported progress",
    }
    stage, name = recovery.next_stage, recovery.before.name
    why = missing[stage] if stage else "unknown"
    return f"after {timeout:g} s, {why}: run `kubectl dijob doctor {name}`"
