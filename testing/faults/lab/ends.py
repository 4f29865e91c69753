"""Ends simulated pods of a job, each with a given exit code."""

import asyncio

from faults.lab.crashes import REPLICAS
from faults.lab.kube import KubeError, pods
from faults.lab.lane import Lane

EXIT, EXIT_DELAY = "test.dijob/exit", "test.dijob/exit-delay"


async def succeed(lane: Lane, job: str) -> None:
    """Make every rank exit 0, one after the other."""
    await asyncio.gather(*(exits(lane, f"{job}-{rank}", 0, 50 * rank) for rank in range(REPLICAS)))


async def exits(lane: Lane, pod: str, code: int, delay: int) -> None:
    """Make the main container of a pod exit with `code` after `delay` milliseconds."""
    annotations = {EXIT: str(code), EXIT_DELAY: f"{delay}ms"}
    try:
        await lane.kube.patch(pods(lane.namespace, pod), {"metadata": {"annotations": annotations}})
    except KubeError as error:
        raise AssertionError(f"{pod} cannot be told to end: {error}") from error
