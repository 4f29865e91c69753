"""Reads the events of pods whose status does not explain enough.

Kubernetes reports some facts only in events: that a volume cannot be mounted, that a sandbox fails,
or why the kubelet has killed a container. The operator reads these events on demand and does not
watch them: a watch would deliver every event of the cluster.
"""

import logging
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from dijob.api.model import Metadata
from dijob.controller.observe.pod_memory import PodMemory
from dijob.core import pace
from dijob.core.backoff import doubled_wait
from dijob.core.observed import complaints, pod_events
from dijob.core.observed.unexplained import READ_AGAIN_SECONDS, events_due, probes_due
from dijob.core.observed.views import Pod, seconds_since
from dijob.kube.api import Api, RequestError
from dijob.kube.kinds import EVENTS
from dijob.process.clock import SYSTEM, Clock

log = logging.getLogger(__name__)

# One reconciliation reads the events of at most this many pods: each read makes the apiserver scan
# all events of the namespace.
READ_AT_ONCE = 3
# The limit of a read. A pod rarely has more events, because the kubelet counts repeats in one
# event.
MOST_EVENTS = "50"
# The shortest and the longest back-off in a namespace in which the operator has no permission to
# read events.
CLOSED_SECONDS = (10.0, 300.0)


@dataclass(frozen=True)
class _Closed:
    """The number of rejections in a row, and the end of the back-off (monotonic seconds)."""

    failures: int
    until: float


class EventReader:
    """Reads events into a PodMemory. Errors are logged, and never make a reconciliation fail."""

    def __init__(self, api: Api, clock: Clock = SYSTEM) -> None:
        self._api = api
        self._clock = clock
        # The namespaces in which the operator may not read events.
        self._closed: dict[str, _Closed] = {}

    async def read(self, job: Metadata, pods: Iterable[Pod], memory: PodMemory) -> None:
        """Read why pods do not start (FailedMount, sandbox errors), why the kubelet has killed a
        container, and why a probe fails.
        """
        pods, closed = tuple(pods), self._closed.get(job.namespace)
        if closed and closed.until > self._clock.monotonic():
            return
        try:
            await self._read_warnings(job, pods, memory)
            await self._read_causes(job, pods, memory)
            await self._read_probes(job, pods, memory)
        except RequestError as error:
            if error.status in (401, 403):
                self._close(job.namespace, error)
            else:
                log.warning("%s: failed to read pod events: %s", job.name, error)

    def _close(self, namespace: str, error: RequestError) -> None:
        """Stop reading events in a namespace for a while, longer each time. Log only the first
        rejection.
        """
        before = self._closed.get(namespace)
        failures = before.failures + 1 if before else 1
        if failures == 1:
            log.warning("namespace %s: no permission to read events: %s", namespace, error)
        until = self._clock.monotonic() + doubled_wait(failures, CLOSED_SECONDS)
        self._closed[namespace] = _Closed(failures, until)

    async def _read_warnings(self, job: Metadata, pods: Iterable[Pod], memory: PodMemory) -> None:
        now, latency = self._clock.now(), self._api.throttle.latency
        for pod in events_due(pods, memory.due, now, latency)[:READ_AT_ONCE]:
            memory.read_again(pod.uid, now, pace.write_interval(READ_AGAIN_SECONDS, latency))
            text, first = pod_events.newest_warning(
                await self._events(job, pod), pod.made.main, pod.made.image_volumes
            )
            age = seconds_since(first, now)
            # The problem behind a recent warning may resolve on its own (complaints.py), so the
            # events are read again before the warning is reported.
            if not text:
                memory.warnings.pop(pod.uid, None)
            elif age is None or (left := complaints.seconds_until_report(age)) <= 0:
                memory.warnings[pod.uid] = text
            else:
                memory.due[pod.uid] = now + timedelta(seconds=left)

    async def _read_causes(self, job: Metadata, pods: Iterable[Pod], memory: PodMemory) -> None:
        ends = (each for each in pod_events.unexplained_ends(pods) if each[0] not in memory.causes)
        for key, end, pod in list(ends)[:READ_AT_ONCE]:
            found = await self._events(job, pod)
            after = pod_events.end_before(key, memory.causes)
            memory.causes[key] = pod_events.kill_cause(found, key[1], end, after)

    async def _read_probes(self, job: Metadata, pods: Iterable[Pod], memory: PodMemory) -> None:
        now = self._clock.now()
        for probe, pod in probes_due(pods, memory.probes, memory.due, now)[:READ_AT_ONCE]:
            if text := pod_events.failing_probe(await self._events(job, pod), pod):
                # The failure of a probe is read only once: the probe's output may differ each time,
                # and each new output would change the job's status.
                memory.probes[probe] = text
            else:
                again = pace.write_interval(READ_AGAIN_SECONDS, self._api.throttle.latency)
                memory.read_again(pod.uid, now, again)

    async def _events(self, job: Metadata, pod: Pod) -> list[dict[str, Any]]:
        selector = f"involvedObject.uid={pod.uid}"
        path = EVENTS.path(job.namespace)
        found = await self._api.get(path, fieldSelector=selector, limit=MOST_EVENTS)
        self._closed.pop(job.namespace, None)
        return list(found.get("items") or ())
