"""Posts events about jobs. Repeats increase the count of one Event object.

The name of an event contains a hash of the job's uid, the reason and the message. So a repeat has
the same name as the first event, even after a takeover, and no search is needed.
"""

import hashlib
import logging
from collections import OrderedDict
from typing import Any

from dijob import names
from dijob.api.model import Metadata
from dijob.api.status import format_time
from dijob.core.actions import Event
from dijob.core.observed.grouping import shorten_message
from dijob.kube.api import Api, RequestError
from dijob.kube.kinds import EVENTS
from dijob.process.clock import SYSTEM, Clock

log = logging.getLogger(__name__)

# Number of events whose count is remembered. The counts of all other events are read from the
# apiserver again.
REMEMBERED = 4096


class Recorder:
    """Posts events. An error is logged, and never makes a reconciliation fail."""

    def __init__(self, api: Api, clock: Clock = SYSTEM) -> None:
        self._api = api
        self._clock = clock
        self._counts: OrderedDict[str, int] = OrderedDict()

    async def tell(self, job: Metadata, event: Event) -> None:
        """Post the event, or increase its count if it exists already."""
        name = f"{job.name}.{_event_digest(job.uid, event)}"
        try:
            self._counts[name] = await self._posted(name, job, event)
        except RequestError as error:
            text = "%s/%s: failed to post event %s: %s"
            log.warning(text, job.namespace, job.name, event.reason, error)
            return
        self._counts.move_to_end(name)
        while len(self._counts) > REMEMBERED:
            self._counts.popitem(last=False)

    async def _posted(self, name: str, job: Metadata, event: Event) -> int:
        """Post the event and return its count."""
        path = EVENTS.path(job.namespace)
        if known := self._counts.get(name, 0):
            try:
                return await self._counted(f"{path}/{name}", known + 1)
            except RequestError as error:
                if not error.not_found:
                    raise
        # The event is new, or the apiserver has deleted it, as it does after an hour.
        try:
            await self._api.create(
                path, _event_body(name, job, event, format_time(self._clock.now()))
            )
            return 1
        except RequestError as error:
            if not error.conflict:
                raise
        # The event was posted by a previous leader.
        there = await self._api.get(f"{path}/{name}")
        return await self._counted(f"{path}/{name}", (there.get("count") or 0) + 1)

    async def _counted(self, path: str, count: int) -> int:
        again = {"count": count, "lastTimestamp": format_time(self._clock.now())}
        await self._api.patch(path, again)
        return count


def _event_digest(uid: str, event: Event) -> str:
    return hashlib.sha256(f"{uid} {event.reason} {event.message}".encode()).hexdigest()[:16]


def _event_body(name: str, job: Metadata, event: Event, now: str) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": name, "namespace": job.namespace},
        "involvedObject": {
            "apiVersion": names.API_VERSION,
            "kind": names.KIND,
            "name": job.name,
            "namespace": job.namespace,
            "uid": job.uid,
        },
        "type": "Warning" if event.warning else "Normal",
        "reason": event.reason,
        "message": shorten_message(event.message),
        "source": {"component": names.MANAGER},
        "firstTimestamp": now,
        "lastTimestamp": now,
        "count": 1,
    }
