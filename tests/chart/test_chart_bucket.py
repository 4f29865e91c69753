"""The history with a bucket of a real S3 server, on a real apiserver."""

import signal
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
from chart.test_chart_history import TEAM, TTL, Recorded, recording
from dijob.names import ANNOTATION_RECORDED
from ports import free_port
from s3.server import BUCKET, S3Server

pytestmark = [pytest.mark.e2e, pytest.mark.long]

FOLDER = "clusters/one"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    made = S3Server(tmp_path_factory.mktemp("s3"))
    made.start()
    try:
        yield made
    finally:
        made.stop()


@pytest.fixture(scope="module")
def recorded(server: S3Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Recorded]:
    store = (f"--bucket=s3://{BUCKET}/{FOLDER}", f"--bucket-ca={server.authority}")
    folder = tmp_path_factory.mktemp("recorded")
    # Like the operator's image, the process has no certificates of a distribution.
    env = {**server.variables(), "SSL_CERT_FILE": "/nowhere", "SSL_CERT_DIR": "/nowhere"}
    with recording("chart-bucket", folder, store, env) as made:
        yield made


def path_of(name: str, uid: str) -> str:
    return f"{FOLDER}/{TEAM}/{name}/{uid}.json.gz"


def test_a_new_process_without_a_disk_finds_the_jobs_of_former_ones(
    recorded: Recorded, server: S3Server
) -> None:
    uid = recorded.create("gone", ttlSecondsAfterFinished=TTL, code=3, backoffLimit=0)
    recorded.until_gone("gone")
    suspended = recorded.create("waiting", suspend=True)
    recorded.until_recorded("waiting", "Suspended")
    recorded.stop(signal.SIGKILL)
    assert {path_of("gone", uid), path_of("waiting", suspended)} <= set(server.objects())
    recorded.lab.kubectl("delete", "dij", "waiting", "-n", TEAM, "--wait")
    recorded.start()
    recorded.until_recorded("waiting", "Deleted")
    said = recorded.history(recorded.user("bob"), "gone", "-n", TEAM)
    assert said.ok, said.text
    for words in ("Failed", uid, "exit code 3"):
        assert words in said.text


def missing(server: S3Server, path: str) -> str:
    return "" if path in server.objects() else str(server.objects())


def surplus(server: S3Server) -> str:
    """Return the objects if there is not exactly one."""
    found = [path for path in server.objects() if path.endswith(".json.gz")]
    return "" if len(found) == 1 else str(found)


def outage(recorded: Recorded, begin: int, attempts: int) -> str:
    """Return what is missing until the log, from a position on, reports so many failed attempts."""
    found = recorded.log.read_bytes()[begin:].count(b"the store failed, retrying")
    return "" if found >= attempts else f"{found} of {attempts}"


def test_an_outage_of_the_bucket_delays_the_deletion_of_a_job_and_nothing_else(
    recorded: Recorded, server: S3Server
) -> None:
    server.stop()
    uid = recorded.create("late", ttlSecondsAfterFinished=TTL)
    recorded.until_ended("late")
    begin = len(recorded.log.read_bytes())
    # The pauses between the attempts get longer, so the time to live has passed after three.
    recorded.until("three attempts have failed", lambda: outage(recorded, begin, 3))
    assert f"s3://{BUCKET}/{FOLDER}: " in recorded.log.read_text()
    body = recorded.body("late")
    assert body is not None
    assert ANNOTATION_RECORDED not in body["metadata"].get("annotations", {})
    server.start()
    recorded.until_gone("late")
    assert not missing(server, path_of("late", uid))
    assert "Traceback" not in recorded.log.read_text()


def test_a_start_during_an_outage_waits_for_the_bucket(
    recorded: Recorded, server: S3Server
) -> None:
    uid = recorded.create("earlier", suspend=True)
    recorded.until("the bucket has it", lambda: missing(server, path_of("earlier", uid)))
    recorded.stop()
    server.stop()
    begin = len(recorded.log.read_bytes())
    recorded.start()
    recorded.until("an attempt has failed", lambda: outage(recorded, begin, 1))
    said = recorded.history(recorded.user("bob"), "-n", TEAM)
    assert (said.ok, "try again later" in said.text) == (False, True), said.text
    server.start()
    recorded.until_recorded("earlier", "Suspended")


def test_a_wrong_key_is_reported_without_a_traceback(
    recorded: Recorded, server: S3Server, tmp_path: Path
) -> None:
    other = replace(recorded, folder=tmp_path, port=free_port(), process=None)
    other.env = {**recorded.env, "AWS_SECRET_ACCESS_KEY": "another secret"}
    other.start()
    try:
        other.until(
            "the history reports the refusal",
            lambda: "" if "SignatureDoesNotMatch" in other.log.read_text() else "no refusal",
        )
        assert "Traceback" not in other.log.read_text()
        assert "another secret" not in other.log.read_text()
    finally:
        other.stop()


def test_records_beyond_the_limit_are_removed_from_the_bucket(
    recorded: Recorded, server: S3Server
) -> None:
    names = ("first", "second", "third")
    paths = [path_of(name, recorded.create(name, suspend=True)) for name in names]
    for path in paths:
        recorded.until("the bucket has it", partial(missing, server, path))
    present = recorded.lab.kubectl("get", "dij", "-n", TEAM, "-o", "name").split()
    recorded.lab.kubectl("delete", "dij", "--all", "-n", TEAM, "--wait")
    # Records are deleted when the history starts, and then every few minutes.
    for name in present:
        recorded.until_recorded(name.rpartition("/")[2], "Deleted")
    recorded.stop()
    recorded.start("--max-jobs=1")
    recorded.until("one record is left", partial(surplus, server))
