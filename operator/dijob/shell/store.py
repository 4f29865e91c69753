"""What the cluster holds of one kind, as last seen: one list, then a watch, and what a new list shows as vanished.

Why not kopf.index: its start-up is worse than quadratic, and an event costs five times as much (docs/decisions/002).
"""

import asyncio
import logging
from collections.abc import Callable, Mapping
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from typing import Any, Generic, Protocol, TypeVar

from dijob.core.backoff import doubled
from dijob.shell import metrics
from dijob.shell.api import Api, ApiError, Stream
from dijob.shell.aside import Aside, name_of
from dijob.shell.clock import SYSTEM, Clock
from dijob.shell.jobs import order

log = logging.getLogger(__name__)

# What vanished while the apiserver was out of reach is noticed within 10 s of its return.
RETRY_SECONDS = (0.2, 6.0)
# A watch that has lasted so long may end in any way: the next one is begun without a pause.
LASTING_SECONDS = 5.0
# What is there already is taken in without a pause; then all others have their turn.
AT_ONCE = 100
# On the bookmark that ends the list at the beginning of a watch (KEP-3157).
INITIAL_END = "k8s.io/initial-events-end"


class Viewed(Protocol):
    """What the store must know of a view: whose it is, which object, and how new."""

    @property
    def uid(self) -> str: ...
    @property
    def owner(self) -> str: ...
    @property
    def version(self) -> str: ...


T = TypeVar("T", bound=Viewed)


class Store(Generic[T]):
    """Views of all objects under `path` that `selector` selects, by the job that owns them (names.owner_key)."""

    def __init__(
        self, kind: str, streams: tuple[Stream, ...], view: Callable[[Mapping[str, Any]], T], clock: Clock = SYSTEM
    ) -> None:
        self.kind = kind
        self._clock = clock
        self.on_change: Callable[[str], None] = lambda owner: None
        self._view = view
        self._aside = Aside(kind)
        self._by_owner: dict[str, dict[str, T]] = {}
        self._owners: dict[str, str] = {}
        # What has gone, and the version after which nothing older may bring it back.
        self._gone: dict[str, int] = {}
        # What only our own writes have shown so far, and the feeds that may still show it.
        self._unseen: dict[str, set[int]] = {}
        self._feeds = tuple(_Feed(stream, clock.monotonic()) for stream in streams)

    def of(self, owner: str) -> tuple[T, ...]:
        """The views of one job."""
        return tuple(self._by_owner.get(owner, {}).values())

    def __len__(self) -> int:
        return len(self._owners)

    def put(self, view: T) -> None:
        """Take in what a write of our own has made, ahead of the watch; an older view never replaces a newer one."""
        known = self._by_owner.get(view.owner, {}).get(view.uid)
        least = order(known.version) if known is not None else self._gone.get(view.uid, -1) + 1
        if order(view.version) < least:
            return
        self._gone.pop(view.uid, None)
        former = self._owners.get(view.uid)
        if former is None:
            self._unseen[view.uid] = set(range(len(self._feeds)))
        elif former != view.owner:
            self._forget(view.uid, former)
        self._by_owner.setdefault(view.owner, {})[view.uid] = view
        self._owners[view.uid] = view.owner

    async def read(self, api: Api, path: str, selector: str) -> None:
        """Take in some of what the first list will show, ahead of it."""
        found = await api.get(path, labelSelector=selector)
        if self.listed:
            return  # it knows better by now
        for body in found.get("items") or ():
            if (view := self._viewed(body)) is not None:
                self.put(view)

    def drop(self, uid: str, version: str = "") -> None:
        """Forget an object that is known to be gone; a late event about it, up to this version, is ignored.

        What only seemed to go, because somebody took our label off, comes back with a newer one. "": it cannot.
        """
        owner = self._owners.pop(uid, None)
        self._unseen.pop(uid, None)
        self._gone[uid] = order(version)
        if len(self._gone) > 10_000:
            self._gone.pop(next(iter(self._gone)))
        if owner is not None:
            self._forget(uid, owner)

    def _forget(self, uid: str, owner: str) -> None:
        self._by_owner[owner].pop(uid, None)
        if not self._by_owner[owner]:
            del self._by_owner[owner]

    @property
    def silence(self) -> float:
        """Seconds since the quietest of the streams said anything; the apiserver sends a bookmark every minute."""
        return self._clock.monotonic() - min(feed.heard for feed in self._feeds)

    @property
    def listed(self) -> bool:
        """Whether everything has been listed once."""
        return all(feed.synced.is_set() for feed in self._feeds)

    async def synced(self) -> None:
        """Wait until everything has been listed once."""
        await asyncio.gather(*(feed.synced.wait() for feed in self._feeds))

    async def run(self, api: Api) -> None:
        """List and watch until cancelled. What fails, or ends at once, is begun again after a growing pause."""
        await asyncio.gather(*(self._follow(api, feed) for feed in self._feeds))

    async def _follow(self, api: Api, feed: "_Feed") -> None:
        version, failures = "", 0
        while True:
            began, watched, why = self._clock.monotonic(), bool(version), "it ended"
            try:
                version = await (self._watch(api, feed, version) if watched else self._list(api, feed))
            except ApiError as error:
                version, why = "", str(error)
            if version and not watched:
                continue  # a list alone is no sign that all is well: it is made after each watch that ends at once
            lasted = watched and self._clock.monotonic() - began >= LASTING_SECONDS
            failures = 0 if lasted else failures + 1
            if failures:
                delay = self._clock.spread(doubled(failures, RETRY_SECONDS))
                log.warning("%s: no watch that lasts, again in %.1f s: %s", self.kind, delay, why)
                await asyncio.sleep(delay)

    async def _list(self, api: Api, feed: "_Feed") -> str:
        """Read all; what was known and is not there any more has vanished unseen. Gives the version to watch from."""
        metrics.RELISTS.labels(self.kind).inc()
        found = _Found()
        try:
            await self._read(api, feed, found)
            for uid in (feed.uids - found.uids) | self._never_shown(feed, found.version):
                found.owners.add(self._owners.get(uid, ""))
                self.drop(uid, found.version)
            feed.uids = found.uids
        finally:
            # Also where it broke half way: the next list finds nothing new in what this one has shown.
            for owner in found.owners:
                self.on_change(owner)
        feed.synced.set()
        return found.version

    async def _read(self, api: Api, feed: "_Feed", found: "_Found") -> None:
        """As a stream; where that fails, for whatever reason, in pages."""
        if feed.streams:
            try:
                await self._stream(api, feed, found)
            except ApiError as error:
                # 400, 422: the apiserver's feature gate WatchList is off, as it is by default before 1.34.
                feed.streams = error.status not in (400, 422)
                log.info("%s: listed in pages, not as a stream: %s", self.kind, error)
                found.uids.clear()
            else:
                return
        await self._pages(api, feed, found)

    async def _stream(self, api: Api, feed: "_Feed", found: "_Found") -> None:
        """One object after the other: half of the time and memory of pages (docs/scale.md)."""
        async with aclosing(api.watch(replace(feed.stream, initial=True))) as events:
            async for event in events:
                feed.heard = self._clock.monotonic()
                meta = event["object"].get("metadata") or {}
                if event["type"] == "ERROR":
                    status = event["object"]
                    raise ApiError(status.get("code") or 0, status.get("reason") or "", status.get("message") or "")
                if event["type"] != "BOOKMARK":
                    self._note(feed, found, event)
                    if len(found.uids) % AT_ONCE == 0:
                        await asyncio.sleep(0)
                elif INITIAL_END in (meta.get("annotations") or {}):
                    found.version = meta["resourceVersion"]
                    return
        raise ApiError(0, "Incomplete", "the stream ended before everything was listed")

    def _note(self, feed: "_Feed", found: "_Found", event: Mapping[str, Any]) -> None:
        """What has been listed, and what changes while the list is still going on."""
        uid = event["object"]["metadata"]["uid"]
        if event["type"] == "DELETED":
            found.uids.discard(uid)
            feed.uids.discard(uid)
            found.owners.add(self._owners.get(uid, ""))
            self.drop(uid, event["object"]["metadata"].get("resourceVersion") or "")
        else:
            found.owners |= self._show(feed, event["object"])
            found.uids.add(uid)

    async def _pages(self, api: Api, feed: "_Feed", found: "_Found") -> None:
        query = {"labelSelector": feed.stream.selector, "limit": "500"}
        while True:
            page = await api.get(feed.stream.path, **query)
            feed.heard = self._clock.monotonic()
            for number, body in enumerate(page.get("items") or ()):
                if number % AT_ONCE == 0:
                    await asyncio.sleep(0)
                self._note(feed, found, {"type": "ADDED", "object": body})
            if not (token := page["metadata"].get("continue")):
                break
            query["continue"] = token
        found.version = str(page["metadata"]["resourceVersion"])

    def _never_shown(self, feed: "_Feed", version: str) -> set[str]:
        """What we made before this list and no feed shows: it is gone again, and no watch will ever say so."""
        gone = set()
        for uid, feeds in self._unseen.items():
            if order(self._by_owner[self._owners[uid]][uid].version) <= order(version):
                feeds.discard(self._feeds.index(feed))
            if not feeds:
                gone.add(uid)
        return gone

    def _show(self, feed: "_Feed", body: Mapping[str, Any]) -> set[str]:
        """Take in what a list or watch shows. Gives the owners to whom it is news: two where it has changed hands."""
        feed.uids.add(body["metadata"]["uid"])
        if (view := self._viewed(body)) is None:
            return set()
        former = self._owners.get(view.uid, view.owner)
        known = self._by_owner.get(former, {}).get(view.uid)
        concerned = set() if known == view else {view.owner, former}
        self.put(view)
        self._unseen.pop(view.uid, None)
        return concerned

    async def _watch(self, api: Api, feed: "_Feed", version: str) -> str:
        """Follow one watch to its end. Gives the version to go on from, "" when only a new list can help."""
        async for event in api.watch(replace(feed.stream, version=version)):
            feed.heard = self._clock.monotonic()
            await feed.gives_way()
            if event["type"] == "ERROR":
                log.info("%s: watch ended by the apiserver: %s", self.kind, event["object"].get("message"))
                return ""
            version = event["object"]["metadata"]["resourceVersion"]
            if event["type"] != "BOOKMARK":
                self._take(feed, event["type"], event["object"])
        return version

    def _take(self, feed: "_Feed", type_: str, body: Mapping[str, Any]) -> None:
        if type_ == "DELETED":
            view, uid = self._viewed(body), body["metadata"]["uid"]
            owner = self._owners.get(uid, "") if view is None else view.owner
            feed.uids.discard(uid)
            self._aside.clear(name_of(body))
            self.drop(uid, body["metadata"].get("resourceVersion") or "")
            self.on_change(owner)
            return
        for owner in self._show(feed, body):
            self.on_change(owner)

    def _viewed(self, body: Mapping[str, Any]) -> T | None:
        """The view of an object; None where it breaks us: what was known of it stays, and all others are seen."""
        try:
            view = self._view(body)
        except Exception as error:
            self._aside.put(name_of(body), error)
            return None
        self._aside.clear(name_of(body))
        return view


@dataclass
class _Found:
    """What one list has shown: uids, the owners to whom it is news, and the version to watch from."""

    uids: set[str] = field(default_factory=set)
    owners: set[str] = field(default_factory=set)
    version: str = ""


@dataclass(eq=False)
class _Feed:
    """One list and watch: the uids that it has shown, when it was last heard of (monotonic seconds), and whether its
    apiserver can list as a stream."""

    stream: Stream
    heard: float
    uids: set[str] = field(default_factory=set)
    synced: asyncio.Event = field(default_factory=asyncio.Event)
    streams: bool = True
    taken: int = 0

    async def gives_way(self) -> None:
        """What is there already comes without a pause: now and then all others have their turn."""
        self.taken += 1
        if self.taken % AT_ONCE == 0:
            await asyncio.sleep(0)
