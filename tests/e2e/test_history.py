"""The history keeps the logs of real pods after their job is gone."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from dijob.api.recorded import JobRecord
from dijob.history.sqlite import SqliteStore
from jobs import shell
from running import running_module
from space import Space

pytestmark = pytest.mark.e2e

# Rank 1 fails after rank 0 is ready to be stopped.
SCRIPT = """
echo "rank $DI_RANK starts"
[ "$DI_RANK" = 0 ] && exec sleep 600
sleep 1
echo "here is what went wrong"
exit 3
"""


@contextmanager
def history(space: Space, folder: Path) -> Iterator[Path]:
    """Run a history for the space as a process, and yield the file of its database."""
    database, log = folder / "history.db", folder / "history.log"
    told = [f"--kubeconfig={space.cluster.kubeconfig}", f"--namespace={space.name}"]
    told += [f"--sqlite={database}", "--port=0", "--health-port=0"]
    with running_module("dijob.history", log, *told):
        yield database


@pytest.mark.long  # tests/unit/history/test_tails.py shows which logs are read
def test_the_logs_of_a_failed_job_remain_after_its_deletion(space: Space, tmp_path: Path) -> None:
    space.apply(shell("past", SCRIPT, replicas=2, backoffLimit=0))
    with history(space, tmp_path) as database:
        space.until_true("past", "Failed", 90)
        uid = space.job("past")["metadata"]["uid"]

        def kept() -> tuple[str, JobRecord | None]:
            """Return the log of the failure, and the record."""
            store = SqliteStore(database, 2**20)
            try:
                found = {(log.rank, log.failed): log.text for log in store.logs(uid)}
                return found.get((1, True), ""), store.find(space.name, "past")
            finally:
                store.close()

        def without_log() -> str:
            log, record = kept()
            return "" if "here is what went wrong" in log else f"{log!r}, {record}"

        space.until("the history has the log of the failure", without_log, 60)
        space.kubectl("delete", "dijob", "past", "--wait=false")

        def without_deletion() -> str:
            log, record = kept()
            assert record is not None
            complete = bool(record.deleted) and record.outcome == "Failed"
            return "" if complete and "here is what went wrong" in log else f"{log!r}, {record}"

        space.until("the history has the deletion, and keeps the log", without_deletion, 60)
