"""A store that is kept up to date by one list-and-watch per namespace (client-go's informer).

kopf's indexes serve the same purpose, but are too slow (docs/decisions/002). Their start-up time
grows faster than quadratically with the number of objects, and each event costs five times as much
as in this store.
"""

import asyncio

from dijob.controller.cache.reflector import Reflector
from dijob.controller.cache.store import Merge, Store, T, View
from dijob.kube.api import Api, Stream
from dijob.process.clock import SYSTEM, Clock


class Informer(Store[T]):
    """The objects of one kind, kept up to date by one watch for each entry of `streams`."""

    def __init__(
        self,
        kind: str,
        streams: tuple[Stream, ...],
        view: View[T],
        clock: Clock = SYSTEM,
        merge: Merge[T] | None = None,
    ) -> None:
        super().__init__(kind, view, frozenset(stream.path for stream in streams), merge)
        self._clock = clock
        self.reflectors = tuple(Reflector(stream, self, clock) for stream in streams)

    async def run(self, api: Api) -> None:
        """List and watch until canceled."""
        await asyncio.gather(*(reflector.run(api) for reflector in self.reflectors))

    async def read(self, api: Api, path: str, selector: str) -> None:
        """Read some objects before the initial list is complete."""
        found = await api.get(path, labelSelector=selector)
        # If the initial list has completed in the meantime, the watch has newer objects.
        if not self.listed:
            for body in found.get("items") or ():
                self.put_body(body)

    @property
    def silence(self) -> float:
        """Seconds since the last event or bookmark of the watch that has been silent longest."""
        # The time of the latest event across all watches would not be enough. If there is a watch
        # per namespace, the healthy watches would hide one that has stopped.
        return self._clock.monotonic() - min(reflector.heard for reflector in self.reflectors)

    @property
    def listed(self) -> bool:
        """Whether the initial lists are complete."""
        return all(reflector.synced.is_set() for reflector in self.reflectors)

    async def synced(self) -> None:
        """Wait until the initial lists are complete."""
        await asyncio.gather(*(reflector.synced.wait() for reflector in self.reflectors))
