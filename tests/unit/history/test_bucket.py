"""The store in a bucket: the bucket has everything, and each start reads it again."""

import gzip
import json
import os
from pathlib import Path
from typing import Any

import obstore
import pytest
from dijob.api.recorded import LogTail
from dijob.history.bucket import BucketStore, describe_error, open_bucket
from dijob.history.store import Change, Query, Retention, StoreError
from obstore.exceptions import PermissionDeniedError
from obstore.store import LocalStore, MemoryStore
from ports import free_port
from unit.history.test_stores import LONG, NOW, record, tail

NAME = "s3://records/cluster"


def started(bucket: Any, path: Path, most_bytes: int = 2**20) -> BucketStore:
    """Return a store as a new process has it."""
    store = BucketStore(bucket, NAME, path, most_bytes)
    store.load()
    return store


def paths(bucket: Any) -> list[str]:
    return sorted(one["path"] for page in obstore.list(bucket) for one in page)


def log(rank: int, text: str, **fields: Any) -> tuple[LogTail, str]:
    return tail(rank, text, **fields), f"p{rank}/{text}"


def test_a_new_process_finds_records_and_logs_without_the_former_disk(tmp_path: Path) -> None:
    bucket = MemoryStore()
    first = started(bucket, tmp_path / "a")
    first.put([Change(record(1), (log(0, "a"), log(1, "b")))])
    first.put([Change(record(1, message="more"), (log(1, "c"), log(1, "x", failed=True)))])
    first.put([Change(record(2, deleted=""), (log(0, "d"),))])
    assert paths(bucket) == ["ns/job-1/u1.json.gz", "ns/job-2/u2.json.gz"]
    second = started(bucket, tmp_path / "b")
    assert second.list(Query()) == first.list(Query())
    assert [one.text for one in second.logs("u1")] == ["a", "x", "c"]
    found, runs = second.unfinished()
    assert ([one.uid for one in found], runs) == (["u2"], {"p0/d"})


def test_a_removed_record_is_removed_from_the_bucket(tmp_path: Path) -> None:
    bucket = MemoryStore()
    store = started(bucket, tmp_path)
    store.put([Change(record(number)) for number in range(5)])
    gone = store.prune(Retention(LONG, most=2), NOW, 100)
    assert [key.uid for key in gone] == ["u0", "u1", "u2"]
    assert paths(bucket) == ["ns/job-0/u3.json.gz", "ns/job-1/u4.json.gz"]


class Disk:
    """A folder that plays the bucket, and can be taken away."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.away = folder / "bucket", folder / "away"
        self.folder.mkdir()
        self.bucket = LocalStore(self.folder)

    def breaks(self) -> None:
        self.folder.rename(self.away)
        # Requests fail, because this is not a folder.
        self.folder.touch()

    def returns(self) -> None:
        self.folder.unlink()
        self.away.rename(self.folder)


def test_a_write_that_fails_in_the_bucket_is_repeated(tmp_path: Path) -> None:
    """The index does not get the record either: no reader sees what could still be lost."""
    disk = Disk(tmp_path)
    store = started(disk.bucket, tmp_path / "a")
    change = Change(record(1), (log(0, "a"),))
    disk.breaks()
    with pytest.raises(StoreError, match=NAME):
        store.put([change])
    assert store.list(Query()) == []
    disk.returns()
    store.put([change])
    assert [one.uid for one in store.list(Query())] == ["u1"]
    assert paths(disk.bucket) == ["ns/job-1/u1.json.gz"]


def test_a_deletion_that_fails_is_repeated_and_blocks_no_write(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """For example, if the account may not delete objects."""

    def refuse(*_: Any) -> None:
        raise PermissionDeniedError("AccessDenied")

    bucket = MemoryStore()
    store = started(bucket, tmp_path)
    store.put([Change(record(1)), Change(record(2))])
    with monkeypatch.context() as patch:
        patch.setattr(obstore, "delete", refuse)
        assert [key.uid for key in store.prune(Retention(LONG, most=1), NOW, 100)] == ["u1"]
    assert f"cannot delete 1 old records: {NAME}: AccessDenied" in caplog.text
    store.put([Change(record(3))])
    assert len(paths(bucket)) == 3
    assert [key.uid for key in store.prune(Retention(LONG, most=1), NOW, 100)] == ["u2"]
    assert paths(bucket) == ["ns/job-0/u3.json.gz"]


def test_a_bucket_that_is_larger_than_the_limit_is_read_and_then_reduced(tmp_path: Path) -> None:
    """For example, after maxMegabytes was set to a smaller value. An object with similar logs is
    much smaller than what the index needs for it.
    """
    bucket, most_bytes = MemoryStore(), 2_000_000
    first = started(bucket, tmp_path / "a", 2**25)
    text = os.urandom(4000).hex()
    logs = tuple(log(rank, text) for rank in range(16))
    first.put([Change(record(number), logs) for number in range(60)])
    size = sum(one["size"] for page in obstore.list(bucket) for one in page)
    assert first.usage().used_bytes > 4 * size
    second = started(bucket, tmp_path / "b", most_bytes)
    assert second.usage().records == 60
    with pytest.raises(StoreError, match="full"):
        second.put([Change(record(number + 100), logs) for number in range(60)])
    gone = second.prune(Retention(LONG, most_bytes=most_bytes), NOW, 1000)
    assert 0 < len(gone) <= 60
    assert second.usage().used_bytes <= most_bytes


def test_a_stop_ends_a_long_start(tmp_path: Path) -> None:
    bucket = MemoryStore()
    started(bucket, tmp_path / "a").put([Change(record(1))])
    store = BucketStore(bucket, NAME, tmp_path / "b", 2**20)
    store.close()
    with pytest.raises(StoreError, match="the history is stopping"):
        store.load()


def test_a_killed_process_leaves_its_index_to_the_next(tmp_path: Path) -> None:
    bucket = MemoryStore()
    started(bucket, tmp_path).put([Change(record(1))])
    assert [one.uid for one in started(bucket, tmp_path).list(Query())] == ["u1"]
    assert {one.name for one in tmp_path.iterdir()} <= {"index.db", "index.db-wal", "index.db-shm"}


DAMAGED: dict[str, bytes] = {
    "empty": b"",
    "no gzip": b"{}",
    "cut": gzip.compress(b'{"version": 1}')[:-9],
    "damaged": gzip.compress(b'{"version": 1}')[:-12] + b"\0" * 12,
    "no JSON": gzip.compress(b"{"),
    "another JSON": gzip.compress(b"[]"),
    "no record": gzip.compress(b'{"version": 1, "logs": []}'),
    "a secret in another record": gzip.compress(
        b'{"version": 1, "record": {"uid": ["hunter2"]}, "logs": []}'
    ),
}


@pytest.mark.parametrize("data", DAMAGED.values(), ids=DAMAGED)
def test_a_damaged_object_is_left_out(
    tmp_path: Path, data: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    bucket = MemoryStore()
    started(bucket, tmp_path / "a").put([Change(record(1))])
    obstore.put(bucket, "ns/job-7/u7.json.gz", data)
    for ignored in ("ns/notes.txt", "deeper/ns/job-1/u1.json.gz"):
        obstore.put(bucket, ignored, b"not a record")
    second = started(bucket, tmp_path / "b")
    assert [one.uid for one in second.list(Query())] == ["u1"]
    assert "s3://records/cluster/ns/job-7/u7.json.gz is left out" in caplog.text
    for unsaid in ("notes", "deeper", "hunter2"):
        assert unsaid not in caplog.text


def test_an_object_at_the_path_of_another_job_is_left_out(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """For example, a copy for a backup. If it were read, it could not be deleted again."""
    bucket = MemoryStore()
    started(bucket, tmp_path / "a").put([Change(record(1))])
    obstore.put(bucket, "backup/job/u1.json.gz", obstore.get(bucket, paths(bucket)[0]).bytes())
    obstore.delete(bucket, "ns/job-1/u1.json.gz")
    assert started(bucket, tmp_path / "b").list(Query()) == []
    assert "backup/job/u1.json.gz is left out" in caplog.text


def test_a_start_that_fails_is_repeated_and_changes_nothing(tmp_path: Path) -> None:
    """A newer version has written one of the records."""
    bucket, newer = MemoryStore(), gzip.compress(json.dumps({"version": 2}).encode())
    started(bucket, tmp_path / "a").put([Change(record(1))])
    obstore.put(bucket, "ns/job/u.json.gz", newer)
    store = BucketStore(bucket, NAME, tmp_path / "b", 2**20)
    for _ in range(2):
        with pytest.raises(StoreError, match="a newer version of the operator"):
            store.load()
        with pytest.raises(StoreError, match="not been read yet"):
            store.list(Query())
    assert bytes(obstore.get(bucket, "ns/job/u.json.gz").bytes()) == newer
    obstore.delete(bucket, "ns/job/u.json.gz")
    store.load()
    assert [one.uid for one in store.list(Query())] == ["u1"]


INVALID = [
    "records",
    "s3://",
    "s3://records",
    "s3://records/",
    "s3://records/a/",
    "s3://records/..",
    "s3://records/a/..",
    "s3://records//a",
    "gs://records/a",
]


@pytest.mark.parametrize("url", INVALID)
def test_the_folder_of_a_bucket_is_named(url: str) -> None:
    """Two clusters in one folder would show each other's jobs, so there is no default folder."""
    with pytest.raises(StoreError, match="write s3://BUCKET/FOLDER"):
        open_bucket(url)


def test_an_error_of_the_server_is_one_sentence_with_the_bucket(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("AWS_ENDPOINT_URL_S3", raising=False)
    where = {"AWS_ENDPOINT_URL": f"http://127.0.0.1:{free_port()}", "AWS_ACCESS_KEY_ID": "a"}
    for name, value in (where | {"AWS_SECRET_ACCESS_KEY": "b"}).items():
        monkeypatch.setenv(name, value)
    with pytest.raises(StoreError) as raised:
        started(open_bucket(NAME), tmp_path)
    assert str(raised.value).startswith(f"{NAME}: ")
    assert str(raised.value).endswith("error sending request (Connection refused)")


# Shortened from what obstore 0.12.1 raises with the S3 server versitygw 1.8.0.
ERRORS: dict[str, tuple[str, str]] = {
    "a wrong key": (
        "Error performing PUT https://s3/a - Server returned non-2xx status code: 403 Forbidden:"
        ' <?xml version="1.0" encoding="UTF-8"?>\n<Error><Code>SignatureDoesNotMatch</Code>'
        "<Message>Check your key.</Message><AWSAccessKeyId>user</AWSAccessKeyId></Error>\n\nDebug",
        "Error performing PUT https://s3/a - Server returned non-2xx status code: 403 Forbidden"
        " (SignatureDoesNotMatch: Check your key.)",
    ),
    "an unknown authority": (
        "HTTP error: error sending request\n\nDebug source:\nerror: InvalidCertificate(\n"
        "    UnknownIssuer,\n),",
        "HTTP error: error sending request (InvalidCertificate: UnknownIssuer)",
    ),
    "an unknown host": (
        'HTTP error: error sending request\n\nDebug source:\n"dns error",\nCustom {\n'
        '    kind: Uncategorized,\n    error: "failed to lookup address information",\n}',
        "HTTP error: error sending request (failed to lookup address information)",
    ),
    "no account": (
        "Error performing PUT http://169.254.169.254/latest/api/token in 1ms\n\nDebug source:\n",
        "Error performing PUT http://169.254.169.254/latest/api/token in 1ms"
        " (AWS_ACCESS_KEY_ID is not set, so the node's identity was requested)",
    ),
    "nothing more": ("Invalid path", "Invalid path"),
}


@pytest.mark.parametrize(("text", "line"), ERRORS.values(), ids=ERRORS)
def test_an_error_is_one_line_with_its_cause(text: str, line: str) -> None:
    assert describe_error(text) == line


def test_certificates_that_are_none_are_rejected(tmp_path: Path) -> None:
    (tmp_path / "ca.crt").write_text("-----BEGIN CERTIFICATE-----\nx\n-----END CERTIFICATE-----\n")
    with pytest.raises(StoreError, match=NAME):
        open_bucket(NAME, tmp_path / "ca.crt")
