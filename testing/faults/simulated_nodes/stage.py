"""The environment in which the recipes run: a control plane, lanes in it, and a
final state for comparison.
"""

import asyncio
import itertools
import random
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar, cast

from cluster import Cluster

from faults.lab.kube import Kube
from faults.lab.lane import Lane, lane
from faults.lab.running import Operator

T = TypeVar("T")
# A kubelet restarts a container at once the first time, and then after 10 s, 20 s and so on.
FIRST_PAUSE_SECONDS = 10.0
CHANNEL_HELP = "pods get their peer lists through the channel, not as annotations"


@dataclass
class Stage:
    """A control plane with a client, a folder for logs, and the seed of all random choices. If
    `channel` is true, pods have a channel in place of a gate, and their launchers are simulated.

    `kept` stores results that several recipes use for comparisons, so that each is computed only
    once.
    """

    plane: Cluster
    kube: Kube
    folder: Path
    seed: int
    channel: bool = False
    kept: dict[str, asyncio.Task[object]] = field(default_factory=dict)
    _numbers: Iterator[int] = field(default_factory=itertools.count)

    def lane(self) -> AbstractAsyncContextManager[Lane]:
        """Return a lane in a new namespace."""
        namespace = f"bench-{self.seed}-{next(self._numbers)}"
        return lane(self.kube, namespace, self.own_folder(), channel=self.channel)

    def own_folder(self) -> Path:
        """Create a new folder."""
        folder = self.folder / str(next(self._numbers))
        folder.mkdir()
        return folder

    def dice(self, name: str) -> random.Random:
        """Return a random generator that is the same for the same seed and name."""
        # Each recipe has its own generator, so that its faults do not depend on the order of the
        # recipes.
        return random.Random(f"{self.seed} {name}")

    async def once(self, name: str, make: Callable[[], Awaitable[T]]) -> T:
        """Return the result of `make`, which is called only once per name."""

        async def made() -> object:
            return await make()

        if name not in self.kept:
            self.kept[name] = asyncio.create_task(made())
        # The task is shielded: when one recipe is canceled, others may still be waiting for the
        # task.
        return cast(T, await asyncio.shield(self.kept[name]))


@asynccontextmanager
async def kept_running(operator: Operator) -> AsyncIterator[list[int]]:
    """Restart the operator when it exits, as a kubelet does. Yield the list of its exit codes."""
    codes: list[int] = []

    async def keep() -> None:
        while True:
            codes.append(await operator.ended())
            # Like the back-off of a kubelet: the first restart has no delay.
            if len(codes) > 1:
                await asyncio.sleep(FIRST_PAUSE_SECONDS * 2 ** (len(codes) - 2))
            await operator.start()

    keeper = asyncio.create_task(keep())
    try:
        yield codes
    finally:
        keeper.cancel()
        await asyncio.gather(keeper, return_exceptions=True)
