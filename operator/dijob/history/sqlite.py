"""The store in an SQLite database on a volume.

One process writes. Readers use their own connections, and with the write-ahead log they do not wait
for the writer. Records are compressed JSON; queries select records by the other columns.
"""

import json
import sqlite3
import zlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from dijob.api.recorded import JobRecord, LogTail
from dijob.api.status import format_time, parse_time
from dijob.history.store import (
    Change,
    JobKey,
    Query,
    Retention,
    StoreError,
    Usage,
    as_stored,
)

# Increase this number when the tables change, and add the statements that convert the tables of
# older versions.
_VERSION: Final = 1
_TABLES: Final = """
CREATE TABLE IF NOT EXISTS jobs (
  uid TEXT PRIMARY KEY, namespace TEXT NOT NULL, name TEXT NOT NULL, outcome TEXT NOT NULL,
  owner TEXT NOT NULL, labels TEXT NOT NULL, created TEXT NOT NULL, over TEXT NOT NULL,
  deleted TEXT NOT NULL, record BLOB NOT NULL
) STRICT;
CREATE INDEX IF NOT EXISTS jobs_by_name ON jobs (namespace, name, created);
CREATE INDEX IF NOT EXISTS jobs_by_creation ON jobs (created);
CREATE INDEX IF NOT EXISTS jobs_by_end ON jobs (over) WHERE deleted <> '';
CREATE TABLE IF NOT EXISTS logs (
  uid TEXT NOT NULL REFERENCES jobs (uid) ON DELETE CASCADE, rank INTEGER NOT NULL,
  failed INTEGER NOT NULL, run TEXT NOT NULL, tail BLOB NOT NULL,
  PRIMARY KEY (uid, rank, failed)
) STRICT, WITHOUT ROWID;
"""
_HAS_LABEL: Final = "EXISTS (SELECT 1 FROM json_each(labels) AS l WHERE l.key = ? AND l.value = ?)"
# The pod has no folder for temporary files: its root file system is read-only.
_NO_FILES: Final = "PRAGMA temp_store = MEMORY"
_BUSY_SECONDS: Final = 5.0
# The file may grow beyond Retention.most_bytes by this factor before a write fails, because records
# are deleted only every few minutes.
_HEADROOM: Final = 1.25
# How many freed pages are returned to the file system at a time.
_PAGES_AT_ONCE: Final = 2_000
# While the database is too large, records are deleted in batches of this size.
_SIZE_BATCH: Final = 50


class SqliteStore:
    """A store in one file. `most_bytes` is the size that the file should not exceed. Without it,
    there is no limit until `limit` is called.
    """

    def __init__(self, path: Path, most_bytes: int | None) -> None:
        self._path = path
        with _errors(path):
            path.parent.mkdir(parents=True, exist_ok=True)
            # The threads of asyncio.to_thread use this connection one after the other.
            self._db = sqlite3.connect(path, timeout=_BUSY_SECONDS, check_same_thread=False)
            self._prepare()
            if most_bytes is not None:
                self.limit(most_bytes)

    def limit(self, most_bytes: int) -> None:
        """Make writes fail if the file would become larger than _HEADROOM times this size. A file
        that is already larger keeps its size.
        """
        with _errors(self._path):
            (page,) = self._db.execute("PRAGMA page_size").fetchone()
            pages = max(int(most_bytes * _HEADROOM) // page, 64)
            self._db.execute(f"PRAGMA max_page_count = {pages}")

    def _prepare(self) -> None:
        db = self._db
        # auto_vacuum must be set before the first table exists.
        db.execute("PRAGMA auto_vacuum = INCREMENTAL")
        db.execute("PRAGMA journal_mode = WAL")
        # With a write-ahead log, NORMAL cannot corrupt the database, but a power failure can lose
        # the last transactions. This loss would be permanent, because the operator deletes jobs
        # once they are recorded. So FULL is used.
        db.execute("PRAGMA synchronous = FULL")
        db.execute("PRAGMA foreign_keys = ON")
        db.execute("PRAGMA journal_size_limit = 16777216")
        db.execute(_NO_FILES)
        (version,) = db.execute("PRAGMA user_version").fetchone()
        if version > _VERSION:
            raise StoreError(
                f"{self._path} was written by a newer version of the operator (format {version},"
                f" this version knows {_VERSION}): use that version, or another volume"
            )
        db.executescript(_TABLES)
        db.execute(f"PRAGMA user_version = {_VERSION}")
        db.commit()

    def load(self) -> None:
        """Do nothing: the records are in the file."""

    def put(self, changes: Iterable[Change]) -> None:
        with _errors(self._path), self._db as db:
            for change in changes:
                _put_record(db, change.record)
                db.executemany(
                    "INSERT OR REPLACE INTO logs VALUES (?, ?, ?, ?, ?)",
                    (
                        (
                            change.record.uid,
                            tail.rank,
                            int(tail.failed),
                            run,
                            _pack(as_stored(tail)),
                        )
                        for tail, run in change.logs
                    ),
                )

    def unfinished(self) -> tuple[list[JobRecord], set[str]]:
        with _errors(self._path):
            rows = self._db.execute("SELECT record FROM jobs WHERE deleted = ''").fetchall()
            runs = self._db.execute(
                "SELECT run FROM logs JOIN jobs USING (uid) WHERE deleted = ''"
            ).fetchall()
        return [_read_record(row[0]) for row in rows], {row[0] for row in runs}

    def list(self, query: Query) -> Sequence[JobRecord]:
        where, values = _where(query)
        text = f"SELECT record FROM jobs WHERE {where} ORDER BY created DESC, uid LIMIT ?"
        with self._reading() as db:
            rows = db.execute(text, (*values, query.most)).fetchall()
        return [_read_record(row[0]) for row in rows]

    def find(self, namespace: str, name: str, uid: str = "") -> JobRecord | None:
        text = "SELECT record FROM jobs WHERE namespace = ? AND name = ?"
        more, values = (" AND uid = ?", (uid,)) if uid else ("", ())
        order = " ORDER BY created DESC LIMIT 1"
        with self._reading() as db:
            row = db.execute(text + more + order, (namespace, name, *values)).fetchone()
        return _read_record(row[0]) if row else None

    def logs(self, uid: str) -> Sequence[LogTail]:
        return [tail for tail, _ in self.runs(uid)]

    def runs(self, uid: str) -> Sequence[tuple[LogTail, str]]:
        """Return the logs of a job in rank order, each with the ID of its run."""
        with self._reading() as db:
            rows = db.execute(
                "SELECT tail, run FROM logs WHERE uid = ? ORDER BY rank, failed DESC", (uid,)
            ).fetchall()
        return [(LogTail.model_validate(_unpack(tail)), run) for tail, run in rows]

    def prune(self, retention: Retention, now: str, batch: int) -> Sequence[JobKey]:
        at = parse_time(now) or datetime.now(UTC)
        oldest = format_time(at - retention.age)
        with _errors(self._path):
            gone = [*self._delete("over < ?", (oldest,), batch)]
            (records,) = self._db.execute("SELECT count(*) FROM jobs").fetchone()
            gone += self._delete("1", (), min(records - retention.most, batch - len(gone)))
            while len(gone) < batch and self._used() > retention.most_bytes:
                deleted = self._delete("1", (), min(_SIZE_BATCH, batch - len(gone)))
                if not deleted:
                    break
                gone += deleted
            # `execute` would step this statement once, and each step frees a single page.
            self._db.executescript(f"PRAGMA incremental_vacuum({_PAGES_AT_ONCE});")
            # Without this call, the file shrinks only when the log is written back.
            self._db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
        return gone

    def _delete(self, where: str, values: tuple[str, ...], most: int) -> Sequence[JobKey]:
        """Delete at most `most` matching records of deleted jobs, oldest first."""
        if most <= 0:
            return []
        chosen = f"SELECT uid FROM jobs WHERE deleted <> '' AND {where} ORDER BY over LIMIT ?"
        with self._db as db:
            rows = db.execute(
                f"DELETE FROM jobs WHERE uid IN ({chosen}) RETURNING namespace, name, uid",
                (*values, most),
            ).fetchall()
        return [JobKey(*row) for row in rows]

    def usage(self) -> Usage:
        with _errors(self._path):
            (records,) = self._db.execute("SELECT count(*) FROM jobs").fetchone()
            return Usage(records, self._used())

    def _used(self) -> int:
        figures = ("page_count", "freelist_count", "page_size")
        pages, free, size = (self._db.execute(f"PRAGMA {one}").fetchone()[0] for one in figures)
        return int((pages - free) * size)

    def close(self) -> None:
        self._db.close()

    @contextmanager
    def _reading(self) -> Iterator[sqlite3.Connection]:
        with _errors(self._path):
            made = sqlite3.connect(f"{self._path.absolute().as_uri()}?mode=ro", uri=True)
            with closing(made) as db:
                db.execute(_NO_FILES)
                yield db


def _put_record(db: sqlite3.Connection, record: JobRecord) -> None:
    columns = {
        "uid": record.uid,
        "namespace": record.namespace,
        "name": record.name,
        "outcome": record.outcome,
        "owner": record.owner,
        "labels": json.dumps(record.labels),
        "created": record.created,
        "over": record.over,
        "deleted": record.deleted,
        "record": _pack(as_stored(record)),
    }
    names = ", ".join(columns)
    # REPLACE would delete the row first, and with it the logs.
    update = ", ".join(f"{name} = excluded.{name}" for name in columns)
    db.execute(
        f"INSERT INTO jobs ({names}) VALUES ({', '.join('?' * len(columns))})"
        f" ON CONFLICT (uid) DO UPDATE SET {update}",
        tuple(columns.values()),
    )


def _where(query: Query) -> tuple[str, list[str]]:
    """Return the condition of a query, and its values. The SQL contains no text from users."""
    parts, values = ["1"], list[str]()
    for column in ("namespace", "name", "owner"):
        if value := getattr(query, column):
            parts.append(f"{column} = ?")
            values.append(value)
    if query.phases:
        parts.append(f"outcome IN ({', '.join('?' * len(query.phases))})")
        values += query.phases
    if query.since:
        parts.append("(over = '' OR over >= ?)")
        values.append(query.since)
    for key, value in query.labels:
        parts.append(_HAS_LABEL)
        values += [key, value]
    return " AND ".join(parts), values


def _pack(data: Any) -> bytes:
    return zlib.compress(json.dumps(data, separators=(",", ":")).encode())


def _unpack(data: bytes) -> Any:
    return json.loads(zlib.decompress(data))


def _read_record(data: bytes) -> JobRecord:
    return JobRecord.model_validate(_unpack(data))


@contextmanager
def _errors(path: Path) -> Iterator[None]:
    try:
        yield
    except (sqlite3.Error, OSError) as error:
        raise StoreError(f"{path}: {error}") from error
