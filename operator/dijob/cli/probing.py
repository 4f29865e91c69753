"""Runs a command in each rank's container through exec, with limits on time, size and concurrency.

The commands come from this program, but the container's shell and Python belong to the tenant. So
the answers are untrusted, and may be late, huge or malformed.
"""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from dijob.client import AsyncClient, RankPod

_MAX_CONCURRENT: Final = 16
_TIMEOUT_SECONDS: Final = 20.0
# This is enough for the socket tables of a pod with thousands of connections. The limit protects
# this program's memory from a container that does not stop printing.
_MAX_BYTES: Final = 16 * 2**20

Command = Sequence[str]


@dataclass(frozen=True)
class Answer:
    """The output of a container, or the `problem` that prevented it."""

    text: str = ""
    problem: str = ""


async def ask_ranks(
    client: "AsyncClient", pods: "Sequence[RankPod]", commands: Sequence[Command]
) -> Mapping[int, Answer]:
    """Run a command in each rank's main container, and return the answers by rank.

    The commands are alternatives: the first one that the container can run is used.
    """
    slots = asyncio.Semaphore(_MAX_CONCURRENT)

    async def one(pod: "RankPod") -> tuple[int, Answer]:
        async with slots:
            return pod.rank, await _ask_pod(client, pod, commands)

    return dict(await asyncio.gather(*map(one, pods)))


async def _ask_pod(client: "AsyncClient", pod: "RankPod", commands: Sequence[Command]) -> Answer:
    from dijob.client import ApiError, Refused, Unreachable
    from dijob.client.executing import ContainerPlace, execute_command

    if not pod.running:
        return Answer(problem=f"not running ({pod.state})")
    problem = ""
    for command in commands:
        try:
            async with asyncio.timeout(_TIMEOUT_SECONDS):
                place = ContainerPlace(client.namespace, pod.name, pod.container)
                done = await execute_command(client.connection, place, command, most=_MAX_BYTES)
        except TimeoutError:
            return Answer(problem=f"no answer within {_TIMEOUT_SECONDS:.0f} s")
        except Refused as error:
            # A missing permission affects all commands, so the next one is not tried.
            return Answer(problem=str(error))
        except (ApiError, Unreachable) as error:
            # If the image lacks the program, the API server can report this as an exec error, so
            # the next command is tried.
            problem = str(error)
            continue
        if done.stdout:
            return Answer(done.stdout.decode(errors="replace"))
        programs = dict.fromkeys(each[0] for each in commands)
        problem = f"its container cannot run any of these programs: {', '.join(programs)}"
    return Answer(problem=" ".join(problem.split())[:300])
