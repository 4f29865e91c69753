"""The history on a simulated apiserver and a real database, with a clock that the test sets."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

from dijob import names
from dijob.api.status import format_time
from dijob.history.recorder import JobRecorder
from dijob.history.sqlite import SqliteStore
from dijob.history.store import Query, Retention, StoreError
from dijob.history.tails import TailLimits, TailReader
from dijob.history.views import JobView, view_job
from dijob.kube.api import Api, RequestError
from samples.builders import NOW, job_body

from fakes.server_lab import Standing

Body = dict[str, Any]


def body(
    uid: str = "u1",
    phase: str = "Running",
    name: str = "job",
    status: Mapping[str, Any] | None = None,
    **spec: Any,
) -> Body:
    """Return a DIJob in a phase."""
    made = job_body(status={"phase": phase, "desired": 3, **(status or {})}, **spec)
    made["metadata"] |= {"uid": uid, "name": name, "creationTimestamp": "2026-11-27T10:00:00Z"}
    if phase in ("Succeeded", "Failed"):
        condition = {"type": phase, "status": "True", "reason": "Because", "message": "It is so"}
        made["status"] |= {
            "conditions": [condition],
            "message": "It is so",
            "completionTime": format_time(NOW),
        }
    return made


@dataclass
class LogServer:
    """Serves and records the history's requests, which read logs and write annotations."""

    logs: dict[str, bytes] = field(default_factory=dict)
    errors: list[RequestError] = field(default_factory=list)
    read: list[tuple[str, dict[str, str]]] = field(default_factory=list)
    patched: list[tuple[str, Body]] = field(default_factory=list)

    async def read_bytes(self, path: str, seconds: float, **query: str) -> bytes:
        self.read.append((path, query))
        if self.errors:
            raise self.errors.pop(0)
        return self.logs.get(path, b"")

    async def patch(self, path: str, patch: Body) -> Body:
        if self.errors:
            raise self.errors.pop(0)
        self.patched.append((path, patch))
        return {}


class FailingStore(SqliteStore):
    """A store that rejects writes while `down` is true."""

    down = False

    def put(self, changes: Any) -> None:
        if self.down:
            raise StoreError("the disk is gone")
        super().put(changes)


@dataclass
class HistoryLab:
    """A recorder with its store. `show` passes jobs to the recorder, as the watch does."""

    path: Path
    retention: Retention = field(default_factory=Retention)
    server: LogServer = field(default_factory=LogServer)
    clock: Standing = field(default_factory=Standing)
    views: dict[str, JobView] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.store = FailingStore(self.path, self.retention.most_bytes)
        self.tails = TailReader(cast(Api, self.server), self.clock, TailLimits(most_bytes=1000))
        self.recorder = self.renewed()

    def renewed(self) -> JobRecorder:
        """Return a new recorder, as after a restart of the process."""
        api = cast(Api, self.server)
        self.recorder = JobRecorder(api, self.store, self.tails, self.retention, self.clock)
        self.recorder.jobs = lambda: self.views
        return self.recorder

    def show(self, *bodies: Body) -> None:
        for one in bodies:
            view = view_job(one)
            self.views[view.uid] = view
            self.recorder.saw(view)

    def remove(self, uid: str) -> None:
        del self.views[uid]
        self.recorder.saw_end(uid)

    async def turn(self) -> None:
        """Do what the recorder does once per second."""
        await self.recorder.store_due()
        await self.recorder.acknowledge()

    def outcomes(self) -> dict[str, str]:
        """Return the outcome of each stored record by uid."""
        return {one.uid: one.outcome for one in self.store.list(Query())}


OWNER = names.owner_key("ns", "job", "u1")
