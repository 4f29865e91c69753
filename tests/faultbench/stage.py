"""Where the recipes of the fault bench are run: a control plane, lanes in it, and an end to compare
with.
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
from faults.kube import Kube
from faults.lane import Lane, lane
from faults.running import Operator

T = TypeVar("T")
# A kubelet starts what has ended at once, and then after 10 s, 20 s and so on.
FIRST_PAUSE_SECONDS = 10.0


@dataclass
class Stage:
    """A control plane with a client, a folder for logs, and the seed of all chance.

    `kept` remembers what several recipes compare with.
    """

    plane: Cluster
    kube: Kube
    folder: Path
    seed: int
    kept: dict[str, asyncio.Task[object]] = field(default_factory=dict)
    _numbers: Iterator[int] = field(default_factory=itertools.count)

    def lane(self) -> AbstractAsyncContextManager[Lane]:
        """A lane in a namespace of its own."""
        return lane(self.kube, f"bench-{self.seed}-{next(self._numbers)}", self.own_folder())

    def own_folder(self) -> Path:
        """A new folder."""
        folder = self.folder / str(next(self._numbers))
        folder.mkdir()
        return folder

    def dice(self, name: str) -> random.Random:
        """Chance, the same for the same seed and name."""
        return random.Random(f"{self.seed} {name}")

    async def once(self, name: str, make: Callable[[], Awaitable[T]]) -> T:
        """What `make` gives; it is made once, however many ask for it."""

        async def made() -> object:
            return await make()

        if name not in self.kept:
            self.kept[name] = asyncio.create_task(made())
        return cast(T, await asyncio.shield(self.kept[name]))


@asynccontextmanager
async def kept_running(operator: Operator) -> AsyncIterator[list[int]]:
    """Start the operator again whenever it ends, as a kubelet does; gives its exit codes."""
    codes: list[int] = []

    async def keep() -> None:
        while True:
            codes.append(await operator.ended())
            if len(codes) > 1:
                await asyncio.sleep(FIRST_PAUSE_SECONDS * 2 ** (len(codes) - 2))
            await operator.start()

    keeper = asyncio.create_task(keep())
    try:
        yield codes
    finally:
        keeper.cancel()
        await asyncio.gather(keeper, return_exceptions=True)
