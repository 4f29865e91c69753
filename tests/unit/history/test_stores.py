"""The stores of records: records are found again, and old ones are removed."""

import os
import sqlite3
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from dijob.api.recorded import JobRecord, LogTail
from dijob.history.bucket import BucketStore
from dijob.history.sqlite import SqliteStore
from dijob.history.store import Change, Query, RecordStore, Retention, StoreError
from obstore.store import MemoryStore

NOW = "2026-12-31T00:00:00Z"
LONG = timedelta(days=1000)


def record(number: int, **fields: Any) -> JobRecord:
    """Return the record of a deleted job, one day younger than that with the preceding number."""
    end = f"2026-{1 + number // 28:02}-{1 + number % 28:02}T00:00:00Z"
    given = {
        "uid": f"u{number}",
        "namespace": "ns",
        "name": f"job-{number % 3}",
        "created": end,
        "ended": end,
        "deleted": end,
        "phase": "Failed",
        **fields,
    }
    return JobRecord.model_validate(given)


@pytest.fixture(params=["sqlite", "bucket"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[RecordStore]:
    path = tmp_path / "history.db"
    made: RecordStore = (
        SqliteStore(path, 2**20)
        if request.param == "sqlite"
        else BucketStore(MemoryStore(), "s3://b/f", tmp_path, 2**20)
    )
    made.load()
    yield made
    made.close()


def put(store: RecordStore, *records: JobRecord) -> None:
    store.put([Change(one) for one in records])


def uids(store: RecordStore, **query: Any) -> list[str]:
    return [one.uid for one in store.list(Query(**query))]


SELECTED: dict[str, tuple[dict[str, Any], list[str]]] = {
    "all, newest first": ({}, ["u4", "u3", "u2", "u1", "u0"]),
    "the newest two": ({"most": 2}, ["u4", "u3"]),
    "a namespace": ({"namespace": "other"}, ["u3"]),
    "a name": ({"namespace": "ns", "name": "job-1"}, ["u4", "u1"]),
    "outcomes": ({"phases": ("Succeeded", "Deleted")}, ["u2", "u1"]),
    "since, and jobs that are not over": ({"since": "2026-01-04T00:00:00Z"}, ["u4", "u3"]),
    "an owner": ({"owner": "ada"}, ["u2"]),
    "labels": ({"labels": (("team", "blue"), ("a.b/c", ""))}, ["u4"]),
    "no such label": ({"labels": (("team", "b"),)}, []),
    "no SQL": ({"namespace": "' OR 1=1 --"}, []),
}


@pytest.mark.parametrize(("query", "found"), SELECTED.values(), ids=SELECTED)
def test_records_are_selected(store: RecordStore, query: dict[str, Any], found: list[str]) -> None:
    put(
        store,
        record(0),
        record(1, phase="Succeeded"),
        record(2, ended="", phase="Running", owner="ada", labels={"team": "red"}),
        record(3, namespace="other"),
        record(4, ended="", deleted="", phase="Running", labels={"team": "blue", "a.b/c": ""}),
    )
    assert uids(store, **query) == found


def test_the_newest_record_of_a_name_is_found_or_the_one_with_the_uid(store: RecordStore) -> None:
    put(store, record(1), record(4), record(7, namespace="other"))
    found = (
        store.find("ns", "job-1"),
        store.find("ns", "job-1", "u1"),
        store.find("ns", "job-1", "x"),
    )
    assert [one.uid if one else None for one in found] == ["u4", "u1", None]


def tail(rank: int, text: str, **fields: Any) -> LogTail:
    return LogTail(rank=rank, pod=f"job-{rank}", text=text, **fields)


def test_a_second_write_replaces_the_record_and_keeps_its_logs(store: RecordStore) -> None:
    store.put([Change(record(1), ((tail(1, "b"), "p1/0"), (tail(0, "a"), "p0/0")))])
    store.put([Change(record(1, message="more"), ((tail(1, "c"), "p1/1"),))])
    store.put([Change(record(1, message="more"), ((tail(1, "x", failed=True), "p1/0"),))])
    found = store.find("ns", "job-1")
    assert found is not None
    assert found.message == "more"
    assert [(one.rank, one.failed, one.text) for one in store.logs("u1")] == [
        (0, False, "a"),
        (1, True, "x"),
        (1, False, "c"),
    ]


def test_another_process_continues_with_the_jobs_that_may_exist(tmp_path: Path) -> None:
    first = SqliteStore(tmp_path / "history.db", 2**20)
    logs = ((tail(0, "a"), "p0/0"),)
    first.put([Change(record(1)), Change(record(2, deleted=""), logs)])
    first.close()
    second = SqliteStore(tmp_path / "history.db", 2**20)
    records, runs = second.unfinished()
    assert ([one.uid for one in records], runs) == (["u2"], {"p0/0"})
    second.close()


KEPT: dict[str, tuple[Retention, list[str]]] = {
    "by age": (Retention(timedelta(days=332)), ["u9", "u0"]),
    "by number": (Retention(LONG, most=3), ["u9", "u8", "u0"]),
    "everything": (Retention(LONG), [f"u{n}" for n in range(9, -1, -1)]),
}


@pytest.mark.parametrize(("retention", "kept"), KEPT.values(), ids=KEPT)
def test_old_records_of_deleted_jobs_are_removed(
    store: RecordStore, retention: Retention, kept: list[str]
) -> None:
    """The job 0 still exists, so its record is kept."""
    put(store, record(0, deleted=""), *(record(n + 20) for n in range(1, 10)))
    store.put([Change(record(21), ((tail(0, "a"), "p/0"),))])
    names = {f"u{n + 20}": f"u{n}" for n in range(1, 10)} | {"u0": "u0"}
    assert len(store.prune(retention, NOW, 100)) == 10 - len(kept)
    assert [names[one] for one in uids(store)] == kept
    assert bool(store.logs("u21")) is ("u1" in kept)


def test_one_run_removes_a_bounded_number_of_records(store: RecordStore) -> None:
    put(store, *(record(n) for n in range(10)))
    keep_one = Retention(LONG, most=1)
    assert [len(store.prune(keep_one, NOW, 4)) for _ in range(4)] == [4, 4, 1, 0]


def test_the_size_of_the_file_is_bounded(tmp_path: Path) -> None:
    """The records have random specs, so that they cannot be compressed."""
    path, most = tmp_path / "history.db", 400_000
    store = SqliteStore(path, most)
    many = [record(n % 300, uid=f"v{n}", spec={"x": os.urandom(2000).hex()}) for n in range(300)]
    put(store, *many[:60])
    with pytest.raises(StoreError, match="full"):
        put(store, *many)
    # The failed transaction left nothing behind.
    assert store.usage().records == 60
    assert len(store.prune(Retention(LONG, most_bytes=100_000), NOW, 1000)) > 30
    assert store.usage().used_bytes <= 100_000
    assert path.stat().st_size <= 150_000
    put(store, *many[60:70])
    store.close()


def test_a_database_of_a_newer_version_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "history.db"
    SqliteStore(path, 2**20).close()
    with sqlite3.connect(path) as db:
        db.execute("PRAGMA user_version = 99")
    db.close()
    with pytest.raises(StoreError, match="newer version"):
        SqliteStore(path, 2**20)


def test_a_file_that_is_no_database_is_reported(tmp_path: Path) -> None:
    path = tmp_path / "history.db"
    path.write_text("no database" * 1000)
    with pytest.raises(StoreError, match=r"history.db: file is not a database"):
        SqliteStore(path, 2**20)


def test_a_folder_that_cannot_be_written_is_reported(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(StoreError, match="file"):
        SqliteStore(tmp_path / "file" / "history.db", 2**20)
