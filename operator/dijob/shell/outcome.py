"""The actions of one pass, done at once, and what comes of them: a change that is refused is noted,
not raised.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, replace

from dijob.core.actions import Action
from dijob.core.decide import changes
from dijob.core.observed import refusals
from dijob.core.observed.views import Refusal
from dijob.shell.api import CONCURRENT_WRITES, ApiError, Json
from dijob.shell.clock import Clock

Act = Callable[[Action], Awaitable[Json | None]]
Results = list[Json | BaseException | None]


@dataclass(frozen=True)
class Outcome:
    """What came of a plan's actions: the job's new body where the job changed, and the first error
    that is no refusal, to be raised once the status is written.
    """

    body: Json | None = None
    error: BaseException | None = None


@dataclass(frozen=True)
class Executor:
    """How the actions of one pass are done: by `act`. The refusals of changes come and go in
    `noted`; creations note theirs themselves.
    """

    noted: dict[str, Refusal]
    act: Act
    clock: Clock

    async def outcome(self, actions: Iterable[Action]) -> Outcome:
        """Do all of them."""
        plain, again = changes.turns(actions, self.noted)
        every = await asyncio.gather(self._all(plain), *map(self._in_turn, again))
        results = [result for each in every for result in each]
        return Outcome(
            next((result for result in results if isinstance(result, dict)), None),
            next((result for result in results if isinstance(result, BaseException)), None),
        )

    async def _all(self, actions: Iterable[Action]) -> Results:
        """Some at a time: to begin 1,500 at once would hold up everybody, and a list for each of so
        many ranks takes more memory than there is.
        """
        results: Results = []
        left = iter(actions)

        async def work() -> None:
            for action in left:
                results.extend(await asyncio.gather(self._one(action), return_exceptions=True))

        await asyncio.gather(*(work() for _ in range(CONCURRENT_WRITES)))
        return results

    async def _in_turn(self, actions: tuple[Action, ...]) -> Results:
        """Changes that were refused before: the first asks, the others when it may; else they wait
        as it does.
        """
        first, *others = actions
        results = await self._all((first,))
        if (refusal := self.noted.get(changes.key(first))) is None:
            return results + await self._all(others)
        for key in map(changes.key, others):
            self.noted[key] = replace(self.noted[key], retry_at=refusal.retry_at)
        return results

    async def _one(self, action: Action) -> Json | None:
        key = changes.key(action)
        try:
            answer = await self.act(action)
        except ApiError as error:
            if not key:
                raise
            before, now = self.noted.get(key), self.clock.now()
            self.noted[key] = refusals.of_change(error.status, error.message, before, now)
            return None
        self.noted.pop(key, None)
        return answer
