"""The actions of one pass, done at once, and what comes of them: a change that is refused is noted, not raised."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from dijob.core import changes, refusals
from dijob.core.actions import Action
from dijob.core.observe import Refusal
from dijob.shell.api import CONCURRENT_WRITES, ApiError, Json

Act = Callable[[Action], Awaitable[Json | None]]
Results = list[Json | BaseException | None]


@dataclass(frozen=True)
class Outcome:
    """What came of a plan's actions: the job's new body where the job changed, and the first error that is no refusal,
    to be raised once the status is written."""

    body: Json | None = None
    error: BaseException | None = None


async def outcome(actions: Iterable[Action], noted: dict[str, Refusal], act: Act) -> Outcome:
    """Do all of them by `act`. The refusals of changes come and go in `noted`; creations note theirs themselves."""
    plain, again = changes.turns(actions, noted)
    every = await asyncio.gather(_all(plain, noted, act), *(_in_turn(kind, noted, act) for kind in again))
    results = [result for each in every for result in each]
    return Outcome(
        next((result for result in results if isinstance(result, dict)), None),
        next((result for result in results if isinstance(result, BaseException)), None),
    )


async def _all(actions: Iterable[Action], noted: dict[str, Refusal], act: Act) -> Results:
    """Some at a time: to begin 1,500 at once would hold up everybody, and a list for each of so many ranks takes more
    memory than there is."""
    results: Results = []
    left = iter(actions)

    async def work() -> None:
        for action in left:
            results.extend(await asyncio.gather(_one(action, noted, act), return_exceptions=True))

    await asyncio.gather(*(work() for _ in range(CONCURRENT_WRITES)))
    return results


async def _in_turn(actions: tuple[Action, ...], noted: dict[str, Refusal], act: Act) -> Results:
    """Changes that were refused the last time: the first asks, the others when it may; else they wait as it does."""
    first, *others = actions
    results = await _all((first,), noted, act)
    if (refusal := noted.get(changes.key(first))) is None:
        return results + await _all(others, noted, act)
    for key in map(changes.key, others):
        noted[key] = replace(noted[key], retry_at=refusal.retry_at)
    return results


async def _one(action: Action, noted: dict[str, Refusal], act: Act) -> Json | None:
    key = changes.key(action)
    try:
        answer = await act(action)
    except ApiError as error:
        if not key:
            raise
        noted[key] = refusals.of_change(error.status, error.message, noted.get(key), datetime.now(UTC))
        return None
    noted.pop(key, None)
    return answer
