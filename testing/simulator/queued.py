"""For unit tests: a simulated cluster with the stand-in for Kueue, and jobs that have a queue."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from dijob.core.options import Options
from samples.builders import job_body

from simulator.kueue import LABEL, Kueue
from simulator.objects import Body
from simulator.simulated import World, simulated

OPTIONS = Options(queues=True)


def queued_body(
    body: Body | None = None, labels: dict[str, str] | None = None, **spec: Any
) -> Body:
    """A DIJob with the label of a queue."""
    made = body or job_body(**spec)
    return {**made, "metadata": {**made["metadata"], "labels": labels or LABEL}}


@asynccontextmanager
async def queued(
    *bodies: Body, quota: int = 100, options: Options = OPTIONS, **kueue: Any
) -> AsyncIterator[tuple[World, Kueue]]:
    """A cluster with Kueue and these jobs."""
    async with simulated(*bodies, options=options, starts=False) as world:
        stand_in = Kueue(world.cluster, quota, **kueue)
        world.nodes.queue = stand_in.work
        world.operator.start()
        yield world, stand_in


def reported(world: World, type_: str = "GangScheduled") -> tuple[str, str]:
    """Return the reason and the message of a condition."""
    found = (one for one in world.cluster.job().status.conditions if one.type == type_)
    return next(((one.reason, one.message) for one in found), ("", ""))


def requests(world: World, plural: str = "workloads") -> list[str]:
    """Return the methods of the requests for a kind, without lists and watches."""
    return [
        call.method
        for call in world.line.calls
        if call.target.plural == plural and not call.query.get("watch") and call.target.namespace
    ]
