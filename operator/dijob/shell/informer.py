"""A store that keeps itself up to date: one list and watch per namespace.

Why not kopf.index: its start-up is worse than quadratic, and an event costs five times as much
(docs/decisions/002).
"""

import asyncio

from dijob.shell.api import Api, Stream
from dijob.shell.clock import SYSTEM, Clock
from dijob.shell.reflector import Reflector
from dijob.shell.store import Store, T, View


class Informer(Store[T]):
    """The objects of one kind that the streams show."""

    def __init__(
        self, kind: str, streams: tuple[Stream, ...], view: View[T], clock: Clock = SYSTEM
    ) -> None:
        super().__init__(kind, view, frozenset(stream.path for stream in streams))
        self._clock = clock
        self.reflectors = tuple(Reflector(stream, self, clock) for stream in streams)

    async def run(self, api: Api) -> None:
        """List and watch until cancelled."""
        await asyncio.gather(*(reflector.run(api) for reflector in self.reflectors))

    async def read(self, api: Api, path: str, selector: str) -> None:
        """Take in some of what the first list will show, ahead of it."""
        found = await api.get(path, labelSelector=selector)
        if not self.listed:  # else the watch knows better by now
            for body in found.get("items") or ():
                self.put_body(body)

    @property
    def silence(self) -> float:
        """Seconds since the quietest of the streams said anything; bookmarks come each minute."""
        return self._clock.monotonic() - min(reflector.heard for reflector in self.reflectors)

    @property
    def listed(self) -> bool:
        """Whether everything has been listed once."""
        return all(reflector.synced.is_set() for reflector in self.reflectors)

    async def synced(self) -> None:
        """Wait until everything has been listed once."""
        await asyncio.gather(*(reflector.synced.wait() for reflector in self.reflectors))
