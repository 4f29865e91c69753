"""Runs the actions of one reconciliation concurrently and collects their results.

The rejection of a change is noted, not raised. The job's other pods still need their changes, and
the status must report the rejection.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, replace

from dijob.core.actions import Action
from dijob.core.decide import changes
from dijob.core.observed import rejections
from dijob.core.observed.views import ApiRejection
from dijob.kube.api import CONCURRENT_WRITES, Json, RequestError
from dijob.process.clock import Clock

Act = Callable[[Action], Awaitable[Json | None]]
Results = list[Json | BaseException | None]


@dataclass(frozen=True)
class PlanOutcome:
    """The results of a plan's actions: the new body of the job if an action changed it, and the
    first error that is not a rejection. The error is raised after the status has been written.
    """

    body: Json | None = None
    error: BaseException | None = None


@dataclass(frozen=True)
class Executor:
    """Runs actions with `act`. Rejections of changes are added to `noted`, and removed when the
    change succeeds. Creations note their rejections themselves.
    """

    noted: dict[str, ApiRejection]
    act: Act
    clock: Clock

    async def outcome(self, actions: Iterable[Action]) -> PlanOutcome:
        """Run all actions."""
        plain, again = changes.split_retries(actions, self.noted)
        every = await asyncio.gather(self._all(plain), *map(self._in_turn, again))
        results = [result for each in every for result in each]
        return PlanOutcome(
            next((result for result in results if isinstance(result, dict)), None),
            next((result for result in results if isinstance(result, BaseException)), None),
        )

    async def _all(self, actions: Iterable[Action]) -> Results:
        """Run actions, at most CONCURRENT_WRITES at a time."""
        # If 1,500 actions started at once, they would block the event loop. Each request body has a
        # peer list, so not all of the bodies would fit into memory.
        results: Results = []
        left = iter(actions)

        async def work() -> None:
            for action in left:
                results.extend(await asyncio.gather(self._one(action), return_exceptions=True))

        await asyncio.gather(*(work() for _ in range(CONCURRENT_WRITES)))
        return results

    async def _in_turn(self, actions: tuple[Action, ...]) -> Results:
        """Retry changes that were rejected before. Send one of them first. If this change succeeds,
        send the others. If this change is rejected again, the others wait for its next retry.
        """
        first, *others = actions
        results = await self._all((first,))
        if (rejection := self.noted.get(changes.rejection_key(first))) is None:
            return results + await self._all(others)
        for key in map(changes.rejection_key, others):
            self.noted[key] = replace(self.noted[key], retry_at=rejection.retry_at)
        return results

    async def _one(self, action: Action) -> Json | None:
        key = changes.rejection_key(action)
        try:
            response = await self.act(action)
        except RequestError as error:
            if not key:  # a creation
                raise
            before, now = self.noted.get(key), self.clock.now()
            self.noted[key] = rejections.of_change(error.status, error.message, before, now)
            return None
        # If something has reverted the change, `act` has already noted that elsewhere
        # (reverted.py).
        self.noted.pop(key, None)
        return response
