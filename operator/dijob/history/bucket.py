"""The store in an S3-compatible bucket: one object per job, with the record and the logs.

Queries need an index, which is an SQLite database on the pod's disk. The index is built from the
bucket at each start, so nothing is lost with the pod. Every write goes to the bucket first, so a
later start finds everything that was in the index.
"""

import gzip
import json
import logging
import os
import re
import threading
import zlib
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Final

import certifi
import obstore
from obstore.exceptions import BaseError
from obstore.store import ObjectStore, S3Store

from dijob.api.recorded import JobRecord, LogTail
from dijob.history.sqlite import SqliteStore
from dijob.history.store import (
    Change,
    JobKey,
    Query,
    Retention,
    StoreError,
    Usage,
    as_stored,
)

log = logging.getLogger(__name__)

# Increase this number if older versions of the operator cannot read the new objects.
_VERSION: Final = 1
_SUFFIX: Final = ".json.gz"
# NAMESPACE/NAME/UID. Other objects in the folder are ignored.
_OBJECT: Final = rf"[^/]+/[^/]+/[^/]+{re.escape(_SUFFIX)}"
_INDEX: Final = "index.db"
# Patterns that find the cause in an object_store error.
_CAUSES: Final = (
    r"<Code>([^<]+)</Code>\s*<Message>([^<]+)</Message>",
    r"(InvalidCertificate)\(\s*(\w+)",
    r'(?:message|error): "([^"]+)"',
)
_NODE_IDENTITY: Final = "//169.254.169.254/"
# How many objects are read or written at the same time. Objects stay compressed while they wait.
_AT_ONCE: Final = 16
_CONNECT_SECONDS: Final = 5
_SECONDS: Final = 30
# The recorder repeats failed writes, so the library tries again only once.
_RETRIES: Final = 1


def open_bucket(url: str, certificates: Path | None = None) -> ObjectStore:
    """Return a folder in a bucket: s3://BUCKET/FOLDER.

    The usual variables of the AWS command line (`AWS_ENDPOINT_URL`, `AWS_REGION`,
    `AWS_ACCESS_KEY_ID`, ...) say where the bucket is, and which account to use. `certificates` is a
    PEM file with the authorities that have signed the certificate of a private server. Raises
    StoreError.
    """
    named = re.fullmatch(r"s3://[^/?#]+/([^?#]*[^/?#])", url)
    if not named or {"", ".", ".."} & set(named[1].split("/")):
        raise StoreError(
            f"{url!r} is not a folder in a bucket: write s3://BUCKET/FOLDER, with a folder that no"
            " other cluster uses"
        )
    endpoint = os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL", "")
    with _errors(url):
        # The operator's image does not contain the CA certificates of its distribution.
        trusted = [Path(certifi.where()), *([certificates] if certificates else [])]
        return S3Store.from_url(
            url,
            client_options={
                "root_certificate": b"\n".join(one.read_bytes() for one in trusted),
                "allow_http": endpoint.startswith("http://"),
                "connect_timeout": timedelta(seconds=_CONNECT_SECONDS),
                "timeout": timedelta(seconds=_SECONDS),
            },
            retry_config={
                "max_retries": _RETRIES,
                "retry_timeout": timedelta(seconds=_SECONDS),
            },
        )


class BucketStore:
    """A store in a bucket. `name` is the bucket's name in errors. Only this process may use the
    folder of the index. `most_bytes` is the size that the index should not exceed.
    """

    def __init__(self, bucket: ObjectStore, name: str, folder: Path, most_bytes: int) -> None:
        self._bucket = bucket
        self._name = name
        self._folder = folder
        self._most_bytes = most_bytes
        self._loaded: SqliteStore | None = None
        self._closed = threading.Event()
        # The paths of objects whose records have been removed from the index. `prune` deletes them.
        self._surplus: set[str] = set()

    @property
    def _index(self) -> SqliteStore:
        if self._loaded is None:
            raise StoreError(f"{self._name}: the records have not been read yet")
        return self._loaded

    def load(self) -> None:
        if self._loaded is not None:
            return
        with _errors(self._name):
            listed = [one["path"] for page in obstore.list(self._bucket) for one in page]
            paths = [path for path in listed if re.fullmatch(_OBJECT, path)]
            self._folder.mkdir(parents=True, exist_ok=True)
            # Remove an index that a killed process has left behind.
            for old in self._folder.glob(f"{_INDEX}*"):
                old.unlink()
        index = SqliteStore(self._folder / _INDEX, None)
        try:
            self._fill(index, paths)
            # Set the limit only now: only a filled index can show which records are too old.
            index.limit(self._most_bytes)
        except BaseException:
            index.close()
            raise
        log.info("read %d records from %s", index.usage().records, self._name)
        self._loaded = index

    def _fill(self, index: SqliteStore, paths: Sequence[str]) -> None:
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            for at in range(0, len(paths), _AT_ONCE):
                some = paths[at : at + _AT_ONCE]
                # An object is decompressed only when the index stores it: a large job has megabytes
                # of logs.
                index.put(_unpack_all(self._name, some, pool.map(self._download, some)))

    def _download(self, path: str) -> bytes | None:
        """Return an object, or None if it was deleted after the list was made."""
        if self._closed.is_set():
            raise StoreError(f"{self._name}: the history is stopping")
        with _errors(self._name):
            try:
                return bytes(obstore.get(self._bucket, path).bytes())
            except FileNotFoundError:
                return None

    def put(self, changes: Iterable[Change]) -> None:
        written = tuple(changes)
        objects = [(_path_of(one.record), _pack(self._complete(one))) for one in written]
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            for _ in pool.map(self._upload, objects):
                pass
        self._index.put(written)

    def _complete(self, change: Change) -> Change:
        """Add the logs that the job already has, because an object is written as a whole."""
        logs = {
            (tail.rank, tail.failed): (tail, run)
            for tail, run in (*self._index.runs(change.record.uid), *change.logs)
        }
        return Change(change.record, tuple(logs.values()))

    def _upload(self, given: tuple[str, bytes]) -> None:
        path, data = given
        with _errors(self._name):
            # A killed multipart upload would leave parts behind, and these cost money.
            obstore.put(self._bucket, path, data, use_multipart=False)

    def unfinished(self) -> tuple[list[JobRecord], set[str]]:
        return self._index.unfinished()

    def list(self, query: Query) -> Sequence[JobRecord]:
        return self._index.list(query)

    def find(self, namespace: str, name: str, uid: str = "") -> JobRecord | None:
        return self._index.find(namespace, name, uid)

    def logs(self, uid: str) -> Sequence[LogTail]:
        return self._index.logs(uid)

    def prune(self, retention: Retention, now: str, batch: int) -> Sequence[JobKey]:
        gone = self._index.prune(retention, now, batch)
        self._surplus |= {_path_of(key) for key in gone}
        if self._surplus:
            try:
                with _errors(self._name):
                    obstore.delete(self._bucket, sorted(self._surplus))
                self._surplus.clear()
            except StoreError as error:
                # The next call repeats the deletion. If the history restarts before that, it finds
                # the records again. A failed deletion must not block new records: the account may
                # lack the permission to delete.
                log.warning("cannot delete %d old records: %s", len(self._surplus), error)
        return gone

    def usage(self) -> Usage:
        return self._index.usage()

    def close(self) -> None:
        self._closed.set()
        if self._loaded is not None:
            self._loaded.close()


# The exceptions that a damaged object raises. ValidationError is a ValueError.
_UNREADABLE: Final = (OSError, EOFError, zlib.error, ValueError, KeyError, TypeError)


def _path_of(job: JobRecord | JobKey) -> str:
    """Return the path of an object, with the job's name, so that people can find the object."""
    return f"{job.namespace}/{job.name}/{job.uid}{_SUFFIX}"


def _pack(change: Change) -> bytes:
    data = {
        "version": _VERSION,
        "record": as_stored(change.record),
        "logs": [{"run": run, "tail": as_stored(tail)} for tail, run in change.logs],
    }
    return gzip.compress(json.dumps(data, separators=(",", ":")).encode(), mtime=0)


def _unpack_all(
    name: str, paths: Sequence[str], objects: Iterable[bytes | None]
) -> Iterator[Change]:
    for path, data in zip(paths, objects, strict=True):
        if data is None:
            continue
        try:
            change = _unpack(data)
        except _UNREADABLE as error:
            # One damaged object must not block the history of all other jobs. The text of the error
            # is not logged, because it can contain the object.
            log.warning("%s/%s is left out: %s", name, path, type(error).__name__)
            continue
        if path == _path_of(change.record):
            yield change
        else:
            log.warning("%s/%s is left out: it is the record of another job", name, path)


def _unpack(data: bytes) -> Change:
    read = json.loads(gzip.decompress(data))
    if read["version"] > _VERSION:
        raise StoreError(
            f"a newer version of the operator wrote the records (format {read['version']}, this"
            f" version knows {_VERSION}): use that version, or another folder"
        )
    logs = ((LogTail.model_validate(one["tail"]), str(one["run"])) for one in read["logs"])
    return Change(JobRecord.model_validate(read["record"]), tuple(logs))


@contextmanager
def _errors(name: str) -> Iterator[None]:
    try:
        yield
    except (BaseError, OSError) as error:
        raise StoreError(f"{name}: {describe_error(str(error))}") from error


def describe_error(text: str) -> str:
    """Return a one-line description of an object_store error.

    The error's first line says what was attempted. The cause is in the server's response (XML), or
    in the Rust structure that follows.
    """
    attempt = text.partition("\n")[0].partition("<")[0].strip(" :")
    found = (re.search(pattern, text) for pattern in _CAUSES)
    cause = next((": ".join(one.groups()) for one in found if one), "")
    if _NODE_IDENTITY in attempt:
        cause = "AWS_ACCESS_KEY_ID is not set, so the node's identity was requested"
    return f"{attempt} ({cause})" if cause else attempt
