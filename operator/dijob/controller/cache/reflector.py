"""Keeps a store up to date with one list-and-watch, like client-go's Reflector.

kopf's watch has no such store. It also does not report which objects disappeared while it was
interrupted. To find these objects, the Reflector compares each new list with the objects that it
knew before.
"""

import asyncio
import logging
from collections.abc import Mapping
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from typing import Any

from dijob.controller import metrics
from dijob.controller.cache.jobs import WentBackError, version_key
from dijob.controller.cache.store import Store
from dijob.core.backoff import doubled_wait
from dijob.kube.api import Api, RequestError, Stream
from dijob.process.clock import Clock

log = logging.getLogger(__name__)

# The first and the longest pause between retries. The longest pause is 6 s (plus jitter), so
# changes are noticed within 10 s after the apiserver becomes reachable again.
RETRY_SECONDS = (0.2, 6.0)
# A watch that lasted this long counts as a success, however it ended: the next one starts at once.
LASTING_SECONDS = 5.0
# Number of objects that are processed before other tasks get a turn. Processing a list of thousands
# of objects without a pause would block the event loop.
AT_ONCE = 100
# The annotation of the bookmark that ends a streaming list (KEP-3157).
INITIAL_END = "k8s.io/initial-events-end"


@dataclass
class _Listing:
    """The result of a list: the uids of all objects, the owners of changed objects, and the version
    to watch from.
    """

    uids: set[str] = field(default_factory=set)
    owners: set[str] = field(default_factory=set)
    version: str = ""


class _Versions:
    """The resourceVersions that a list-and-watch has reached. The watch continues from `last`."""

    def __init__(self, kind: str) -> None:
        self.last = ""
        self._kind = kind
        self._newest = 0

    def shown(self, version: str) -> None:
        """Note a version from the watch."""
        self.last = version
        self._newest = max(self._newest, version_key(version))

    def listed(self, version: str) -> None:
        """Note the version of a list. Raises WentBackError if an earlier list or the watch has
        shown a newer version.
        """
        # The lists are requested without a version, so the apiserver must return the newest state.
        # An older version means that etcd was restored from a backup.
        if version_key(version) < self._newest:
            raise WentBackError(self._kind, version, self._newest)
        self.last, self._newest = version, version_key(version)


class Reflector:
    """One list-and-watch. Objects that are missing from a new list are removed from the store.

    `heard` is the time of the last event or bookmark (monotonic seconds). `synced` is set when the
    first list is complete. `uids` contains the uids of the objects that this list-and-watch has
    shown. After a response with a status code in `raises`, `run` raises RequestError and does not
    retry.
    """

    def __init__(self, stream: Stream, store: Store[Any], clock: Clock) -> None:
        self._stream = stream
        self._store = store
        self._kind = store.kind
        self._clock = clock
        self.heard = clock.monotonic()
        self.synced = asyncio.Event()
        self.uids: set[str] = set()
        self.raises: tuple[int, ...] = ()
        self._can_stream = True
        self._taken = 0
        self._versions = _Versions(store.kind)
        self._watching: asyncio.Task[str] | None = None
        self._renewed = False

    def renew(self) -> None:
        """Restart the watch from the last version. The watch may have died without an error."""
        if self._watching is not None:
            self._renewed = True
            self._watching.cancel()

    async def run(self, api: Api) -> None:
        """List and watch until canceled. Raise WentBackError if etcd was restored, and RequestError
        for a status code in `raises`.
        """
        version, failures = "", 0
        while True:
            began, watched, why = self._clock.monotonic(), bool(version), "it ended early"
            try:
                version = await (self._follow(api, version) if watched else self._list(api))
            except RequestError as error:
                if error.status in self.raises:
                    raise
                version, why = "", str(error)
            if version and (not watched or self._renewed):
                self._renewed = False
                # A list does not reset `failures`. Otherwise, if every watch ended immediately, the
                # pauses between the lists would never get longer.
                continue
            lasted = watched and self._clock.monotonic() - began >= LASTING_SECONDS
            failures = 0 if lasted else failures + 1
            if failures:
                delay = self._clock.spread(doubled_wait(failures, RETRY_SECONDS))
                log.warning("%s: watch failed, retrying in %.1f s: %s", self._kind, delay, why)
                await asyncio.sleep(delay)

    async def _list(self, api: Api) -> str:
        """Read all objects, and return the version to watch from."""
        metrics.RELISTS.labels(self._kind).inc()
        found = _Listing()
        try:
            await self._read(api, found)
            self._versions.listed(found.version)
            never_shown = self._store.take_never_shown(self._stream.path, found.version)
            for uid in (self.uids - found.uids) | never_shown:
                found.owners.add(self._store.owner_of(uid))
                self._store.drop(uid, found.version)
            self.uids = found.uids
        finally:
            # Report changes even if the list failed halfway. The next list would not report these
            # changes, because the store already contains them.
            for owner in found.owners:
                self._store.on_change(owner)
        self.synced.set()
        return found.version

    async def _read(self, api: Api, found: _Listing) -> None:
        """Read all objects as a stream, or in pages if the stream fails for any reason."""
        if self._can_stream:
            try:
                await self._read_stream(api, found)
            except RequestError as error:
                # The status 400 or 422 means that the feature gate WatchList is off. This is the
                # default before Kubernetes 1.34. After any other error, the next call of _read
                # tries the stream again.
                self._can_stream = error.status not in (400, 422)
                log.info(
                    "%s: streaming list failed, listing in pages instead: %s", self._kind, error
                )
                found.uids.clear()
            else:
                return
        await self._read_pages(api, found)

    async def _read_stream(self, api: Api, found: _Listing) -> None:
        """Read the objects one by one from a watch with initial events. With 4,000 pods, this takes
        half as much time and memory as reading pages.
        """
        async with aclosing(api.watch(replace(self._stream, initial=True))) as events:
            async for event in events:
                self.heard = self._clock.monotonic()
                body = event["object"]
                meta = body.get("metadata") or {}
                if event["type"] == "ERROR":
                    reason, message = body.get("reason") or "", body.get("message") or ""
                    raise RequestError(body.get("code") or 0, reason, message)
                if event["type"] != "BOOKMARK":
                    await self._take_listed(found, event["type"], body)
                elif INITIAL_END in (meta.get("annotations") or {}):
                    found.version = meta["resourceVersion"]
                    return
        raise RequestError(0, "Incomplete", "the stream ended before the list was complete")

    async def _read_pages(self, api: Api, found: _Listing) -> None:
        query = {"labelSelector": self._stream.selector, "limit": "500"}
        while True:
            page = await api.get(self._stream.path, **query)
            self.heard = self._clock.monotonic()
            for body in page.get("items") or ():
                await self._take_listed(found, "ADDED", body)
            if not (token := page["metadata"].get("continue")):
                break
            query["continue"] = token
        found.version = str(page["metadata"]["resourceVersion"])

    async def _take_listed(self, found: _Listing, type_: str, body: Mapping[str, Any]) -> None:
        """Process an object of the list, or a change that happens while the list is read."""
        found.owners |= await self._take(type_, body)
        uid = body["metadata"]["uid"]
        found.uids.discard(uid) if type_ == "DELETED" else found.uids.add(uid)

    async def _follow(self, api: Api, version: str) -> str:
        """Follow a watch until it ends or `renew` cancels it. Return the version to continue from,
        or "" if a new list is needed.
        """
        # The watch has its own task, so that `renew` can cancel it without canceling the reflector.
        self._watching = asyncio.create_task(self._watch(api, version))
        try:
            return await self._watching
        except asyncio.CancelledError:
            if not self._renewed:
                raise
            return self._versions.last
        finally:
            self._watching = None

    async def _watch(self, api: Api, version: str) -> str:
        async with aclosing(api.watch(replace(self._stream, version=version))) as events:
            async for event in events:
                self.heard = self._clock.monotonic()
                body = event["object"]
                if event["type"] == "ERROR":
                    log.info("%s: watch ended: %s", self._kind, body.get("message"))
                    return ""
                if event["type"] != "BOOKMARK":
                    for owner in await self._take(event["type"], body):
                        self._store.on_change(owner)
                self._versions.shown(version := body["metadata"]["resourceVersion"])
        return version

    async def _take(self, type_: str, body: Mapping[str, Any]) -> set[str]:
        """Process an event about one object. Return the owners of the object if it has changed."""
        self._taken += 1
        if self._taken % AT_ONCE == 0:
            await asyncio.sleep(0)
        if type_ == "DELETED":
            self.uids.discard(body["metadata"]["uid"])
            return self._store.remove(body)
        self.uids.add(body["metadata"]["uid"])
        return self._store.show(body)
