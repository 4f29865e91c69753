"""The interface of the store of records. Its methods block and therefore run in threads."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Protocol

from dijob.api.recorded import JobRecord, LogTail


class StoreError(Exception):
    """The store cannot be read or written at the moment."""


def as_stored(model: JobRecord | LogTail) -> dict[str, Any]:
    """Return a record or a log as the JSON object that is stored."""
    return model.model_dump(mode="json", by_alias=True, exclude_none=True)


@dataclass(frozen=True)
class Retention:
    """Which records of deleted jobs are kept: for how long, how many, and how many bytes in total.

    Records of jobs that still exist are always kept.
    """

    age: timedelta = timedelta(days=90)
    most: int = 10_000
    most_bytes: int = 512 * 2**20


@dataclass(frozen=True)
class Query:
    """Which records to list, newest first. An empty field selects all.

    `since` is the earliest end time; jobs that have not ended always match. `labels` are labels
    that the job must have.
    """

    namespace: str = ""
    name: str = ""
    phases: tuple[str, ...] = ()
    since: str = ""
    owner: str = ""
    labels: tuple[tuple[str, str], ...] = ()
    most: int = 100


@dataclass(frozen=True)
class Change:
    """A record to store, with the logs that are new."""

    record: JobRecord
    logs: tuple[tuple[LogTail, str], ...] = ()
    """Each log, with the key of the run that wrote it (ProgramRun.key). The key contains the pod's
    uid and the number of times that the container had restarted before this run."""


@dataclass(frozen=True)
class Usage:
    """How full the store is."""

    records: int
    used_bytes: int


@dataclass(frozen=True, order=True)
class JobKey:
    """Identifies the record of a job."""

    namespace: str
    name: str
    uid: str


class RecordStore(Protocol):
    """Stores one record per job, by the job's uid. A second write of a record replaces the first.

    Every method may raise StoreError.
    """

    def load(self) -> None:
        """Make the stored records available. Called before the first write, and repeated until it
        succeeds.
        """

    def put(self, changes: Iterable[Change]) -> None:
        """Store records. After an error, some of the records may be stored, so all must be written
        again.
        """

    def unfinished(self) -> tuple[list[JobRecord], set[str]]:
        """Return the records of jobs whose deletion is not recorded and, for these jobs, the runs
        whose logs are stored.
        """

    def list(self, query: Query) -> Sequence[JobRecord]:
        """Return records, with the newest jobs first."""

    def find(self, namespace: str, name: str, uid: str = "") -> JobRecord | None:
        """Return the newest record with this name, or the one with this uid."""

    def logs(self, uid: str) -> Sequence[LogTail]:
        """Return the logs of a job, in rank order."""

    def prune(self, retention: Retention, now: str, batch: int) -> Sequence[JobKey]:
        """Delete at most `batch` records that need not be kept. Return those that were deleted."""

    def usage(self) -> Usage:
        """Return how full the store is."""

    def close(self) -> Any:
        """Close the store."""
