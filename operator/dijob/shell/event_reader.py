"""Reads the events of pods, where a pod's status does not say enough."""

import logging
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from dijob.api.model import Metadata
from dijob.core import pace
from dijob.core.backoff import doubled
from dijob.core.observed import patience, pod_events
from dijob.core.observed.unexplained import READ_AGAIN_SECONDS, events_due
from dijob.core.observed.views import Pod, since
from dijob.shell.api import Api, ApiError
from dijob.shell.clock import SYSTEM, Clock
from dijob.shell.kinds import EVENTS
from dijob.shell.news import News

log = logging.getLogger(__name__)

READ_AT_ONCE = 3
# A kubelet counts repeats of an event in one object.
MOST_EVENTS = "50"


# Between two tries in a namespace where events may not be read.
CLOSED_SECONDS = (10.0, 300.0)


@dataclass(frozen=True)
class _Closed:
    """How often in a row events might not be read, and until when (monotonic) they are not."""

    failures: int
    until: float


class EventReader:
    """Reads events into a job's news. A failure to do so is logged and never stops a pass."""

    def __init__(self, api: Api, clock: Clock = SYSTEM) -> None:
        self._api = api
        self._clock = clock
        # By namespace, where events may not be read.
        self._closed: dict[str, _Closed] = {}

    async def read(self, job: Metadata, pods: Iterable[Pod], news: News) -> None:
        """Read why nothing starts in pods (FailedMount, a sandbox that fails), and which probe has
        ended a container.
        """
        pods, closed = tuple(pods), self._closed.get(job.namespace)
        if closed and closed.until > self._clock.monotonic():
            return
        try:
            await self._read_warnings(job, pods, news)
            await self._read_causes(job, pods, news)
        except ApiError as error:
            if error.status in (401, 403):
                self._close(job.namespace, error)
            else:
                log.warning("%s: failed to read pod events: %s", job.name, error)

    def _close(self, namespace: str, error: ApiError) -> None:
        """Read no events there for a while, which is longer each time. Log it once."""
        before = self._closed.get(namespace)
        failures = before.failures + 1 if before else 1
        if failures == 1:
            log.warning("namespace %s: no permission to read events: %s", namespace, error)
        until = self._clock.monotonic() + doubled(failures, CLOSED_SECONDS)
        self._closed[namespace] = _Closed(failures, until)

    async def _read_warnings(self, job: Metadata, pods: Iterable[Pod], news: News) -> None:
        now, latency = self._clock.now(), self._api.throttle.latency
        for pod in events_due(pods, news.due, now, latency)[:READ_AT_ONCE]:
            again = pace.interval(READ_AGAIN_SECONDS, latency)
            news.due[pod.uid] = now + timedelta(seconds=again)
            text, first = pod_events.newest_warning(await self._events(job, pod), pod.made.main)
            age = since(first, now)
            if not text:
                news.warnings.pop(pod.uid, None)
            elif age is None or (left := patience.left(age)) <= 0:
                news.warnings[pod.uid] = text
            else:
                news.due[pod.uid] = now + timedelta(seconds=left)

    async def _read_causes(self, job: Metadata, pods: Iterable[Pod], news: News) -> None:
        ends = (each for each in pod_events.ends_by_probe(pods) if each[0] not in news.causes)
        for key, end, pod in list(ends)[:READ_AT_ONCE]:
            found = await self._events(job, pod)
            news.causes[key] = pod_events.failed_probe(found, key[1], end)

    async def _events(self, job: Metadata, pod: Pod) -> list[dict[str, Any]]:
        selector = f"involvedObject.uid={pod.uid}"
        path = EVENTS.path(job.namespace)
        found = await self._api.get(path, fieldSelector=selector, limit=MOST_EVENTS)
        self._closed.pop(job.namespace, None)
        return list(found.get("items") or ())
