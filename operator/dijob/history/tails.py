"""Reads the last parts of the logs of programs that have terminated.

Kubernetes deletes a log with its pod, so a log is read as soon as its program has terminated. Each
request has a limit on lines and bytes, and only a few requests run at the same time.
"""

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from dijob.api.recorded import LogTail
from dijob.api.status import format_time
from dijob.history import metrics
from dijob.history.views import PodView, ProgramRun
from dijob.kube.api import Api, RequestError
from dijob.kube.kinds import PODS
from dijob.process.clock import Clock

log = logging.getLogger(__name__)

# How many logs are read at the same time, and how long one read may take.
AT_ONCE: Final = 4
SECONDS: Final = 10.0
# After an error, a log is requested again after this pause.
PAUSE_SECONDS: Final = 2.0
ATTEMPTS: Final = 3
# If a log exceeds the requested number of bytes, the kubelet cuts off its end. So the request asks
# for more bytes than are kept.
_MOST_READ: Final = 2**20
# The logs of ranks above this number are kept only after failures.
MOST_RANKS: Final = 64
# Limit on the number of logs that wait to be read. Further logs are skipped: they are not worth the
# memory.
MOST_WAITING: Final = 10_000


@dataclass(frozen=True)
class TailLimits:
    """How much of each log is kept. With 0 bytes, no logs are read."""

    most_bytes: int = 16 * 1024
    most_lines: int = 400


@dataclass(frozen=True)
class ReadTail:
    """A log that has been read."""

    owner: str
    run: str
    tail: LogTail


@dataclass
class TailReader:
    """Reads each run's log once. `on_read` is called with the result. `known` are the runs whose
    logs are already in the store, have been read, or are waiting to be read.
    """

    api: Api
    clock: Clock
    limits: TailLimits = field(default_factory=TailLimits)
    on_read: Callable[[ReadTail], None] = lambda _: None
    known: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        self._waiting = asyncio.Queue[tuple[PodView, ProgramRun]](MOST_WAITING)
        self._pending: dict[str, int] = {}

    def saw(self, pods: tuple[PodView, ...]) -> None:
        """Note the pods of a job, and read the logs that are new."""
        if not self.limits.most_bytes:
            return
        for pod in pods:
            for run in pod.runs:
                wanted = 0 <= pod.rank < MOST_RANKS or (run.failed and pod.rank >= 0)
                if wanted and run.key not in self.known and not self._waiting.full():
                    self.known.add(run.key)
                    self._pending[pod.owner] = self._pending.get(pod.owner, 0) + 1
                    self._waiting.put_nowait((pod, run))

    def is_reading(self, owner: str) -> bool:
        """Whether logs of a job are still being read."""
        return owner in self._pending

    def forget(self, pod: str) -> None:
        """Forget the runs of a pod that is gone."""
        prefix = f"{pod}/"
        self.known -= {key for key in self.known if key.startswith(prefix)}

    async def run(self) -> None:
        """Read logs until canceled."""
        async with asyncio.TaskGroup() as group:
            for _ in range(AT_ONCE):
                group.create_task(self._work())

    async def _work(self) -> None:
        while True:
            pod, run = await self._waiting.get()
            try:
                await self._read(pod, run)
            finally:
                left = self._pending.pop(pod.owner) - 1
                if left:
                    self._pending[pod.owner] = left

    async def _read(self, pod: PodView, run: ProgramRun) -> None:
        for attempt in range(ATTEMPTS):
            try:
                text = await self._request(pod, run)
            except RequestError as error:
                # 404: the pod is gone. 400: the kubelet no longer has this container.
                if error.status in (400, 404):
                    break
                if attempt + 1 == ATTEMPTS:
                    metrics.LOST_LOGS.inc()
                    log.info("%s/%s: cannot read the log: %s", pod.namespace, pod.name, error)
                    break
                await asyncio.sleep(self.clock.spread(PAUSE_SECONDS))
            else:
                self.on_read(ReadTail(pod.owner, run.key, self._tail_of(pod, run, text)))
                return

    async def _request(self, pod: PodView, run: ProgramRun) -> bytes:
        query = {
            "container": pod.container,
            "tailLines": str(self.limits.most_lines),
            "limitBytes": str(_MOST_READ),
            **({"previous": "true"} if run.previous else {}),
        }
        path = f"{PODS.path(pod.namespace, pod.name)}/log"
        return await self.api.read_bytes(path, SECONDS, **query)

    def _tail_of(self, pod: PodView, run: ProgramRun, text: bytes) -> LogTail:
        most = self.limits.most_bytes
        cut = len(text) > most or text.count(b"\n") >= self.limits.most_lines
        kept = text[-most:]
        if len(text) > most:
            # Begin with a whole line, unless the kept text is a single line.
            kept = kept.partition(b"\n")[2] or kept
        return LogTail(
            rank=pod.rank,
            pod=pod.name,
            exit_code=run.exit_code,
            failed=run.failed,
            time=format_time(self.clock.now()),
            cut=cut,
            text=kept.decode(errors="replace"),
        )
