"""Looks into the ranks' containers: one exec each, several at a time, each with a bound."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from dijob.client import AsyncClient, RankPod

_AT_ONCE: Final = 16
_SECONDS: Final = 20.0
# Of the tables of a pod with thousands of connections. The program that answers is the tenant's.
_MOST_BYTES: Final = 16 * 2**20

Command = Sequence[str]


@dataclass(frozen=True)
class Answer:
    """What a container has answered; `problem` says why it has not."""

    text: str = ""
    problem: str = ""


async def ask(
    client: "AsyncClient", pods: "Sequence[RankPod]", commands: Sequence[Command]
) -> Mapping[int, Answer]:
    """The answer of each rank's main container: that of the first command that it can run."""
    slots = asyncio.Semaphore(_AT_ONCE)

    async def one(pod: "RankPod") -> tuple[int, Answer]:
        async with slots:
            return pod.rank, await _asked(client, pod, commands)

    return dict(await asyncio.gather(*map(one, pods)))


async def _asked(client: "AsyncClient", pod: "RankPod", commands: Sequence[Command]) -> Answer:
    from dijob.client import ApiError, Refused, Unreachable
    from dijob.client.executing import Place, execute

    if not pod.running:
        return Answer(problem=f"it does not run ({pod.state})")
    problem = ""
    for command in commands:
        try:
            async with asyncio.timeout(_SECONDS):
                place = Place(client.namespace, pod.name, pod.container)
                done = await execute(client.connection, place, command, most=_MOST_BYTES)
        except TimeoutError:
            return Answer(problem=f"no answer from it within {_SECONDS:.0f} s")
        except Refused as error:
            return Answer(problem=str(error))
        except (ApiError, Unreachable) as error:
            problem = str(error)
            continue
        if done.stdout:
            return Answer(done.stdout.decode(errors="replace"))
        problem = f"it can run none of {', '.join(dict.fromkeys(each[0] for each in commands))}"
    return Answer(problem=" ".join(problem.split())[:300])
