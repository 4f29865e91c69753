"""The recorder: a job that ends or is deleted is stored, whatever fails in between."""

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from dijob import names
from dijob.api.recorded import LogTail
from dijob.history.recorder import PROGRESS_SECONDS
from dijob.history.store import Query, Retention, StoreError
from dijob.history.tails import ReadTail
from dijob.kube.api import RequestError
from dijob.kube.kinds import JOBS
from fakes.history_lab import OWNER, HistoryLab, body

JOB = JOBS.path("ns", "job")
TTL: dict[str, Any] = {"ttlSecondsAfterFinished": 60}


@pytest.fixture
def lab(tmp_path: Path) -> HistoryLab:
    return HistoryLab(tmp_path / "history.db")


async def test_a_job_is_stored_when_it_starts_and_when_it_ends(lab: HistoryLab) -> None:
    lab.show(body(phase="Starting"))
    await lab.turn()
    assert lab.outcomes() == {"u1": "Starting"}
    lab.show(body(phase="Succeeded"))
    await lab.turn()
    lab.remove("u1")
    await lab.turn()
    (record,) = lab.store.list(Query())
    assert record.outcome == "Succeeded"
    assert record.deleted
    assert [one.phase for one in record.phases] == ["Starting", "Succeeded"]


async def test_a_job_that_is_deleted_before_it_ends_is_stored(lab: HistoryLab) -> None:
    lab.show(body())
    lab.remove("u1")
    await lab.turn()
    assert lab.outcomes() == {"u1": "Deleted"}


async def test_a_deletion_that_no_process_has_seen_is_noticed(lab: HistoryLab) -> None:
    lab.show(body("u1"), body("u2", name="other"), body("u3", phase="Failed", name="third"))
    await lab.turn()
    recorder = lab.renewed()
    await recorder.begin(lambda namespace: True)
    recorder.close_missing(["u2"])
    await lab.turn()
    assert lab.outcomes() == {"u1": "Deleted", "u2": "Running", "u3": "Failed"}
    assert all(one.deleted for one in lab.store.list(Query()) if one.uid != "u2")


async def test_a_namespace_that_is_not_served_is_left_alone(lab: HistoryLab) -> None:
    lab.show(body("u1"))
    await lab.turn()
    recorder = lab.renewed()
    await recorder.begin(lambda namespace: namespace == "elsewhere")
    recorder.close_missing([])
    await lab.turn()
    assert lab.outcomes() == {"u1": "Running"}


async def test_a_write_is_repeated_until_the_store_accepts_it(lab: HistoryLab) -> None:
    lab.store.down = True
    lab.show(body(phase="Failed", **TTL))
    for _ in range(3):
        with pytest.raises(StoreError):
            await lab.turn()
        await lab.recorder.acknowledge()
    assert lab.server.patched == []
    lab.store.down = False
    await lab.turn()
    assert lab.outcomes() == {"u1": "Failed"}
    assert lab.server.patched


async def test_progress_alone_is_stored_at_intervals(lab: HistoryLab) -> None:
    def progress(number: int) -> None:
        report = {"time": f"2026-11-27T10:00:{number:02}Z", "iteration": number}
        lab.show(body(status={"progress": report}))

    progress(1)
    await lab.turn()
    progress(2)
    await lab.turn()
    assert [len(one.curve) for one in lab.store.list(Query())] == [1]
    lab.clock.seconds += PROGRESS_SECONDS
    progress(3)
    await lab.turn()
    assert [len(one.curve) for one in lab.store.list(Query())] == [3]


async def test_another_process_continues_the_curve(lab: HistoryLab) -> None:
    report = {"time": "2026-11-27T10:00:01Z", "iteration": 1}
    lab.show(body(status={"progress": report}))
    await lab.turn()
    await lab.renewed().begin(lambda namespace: True)
    later = {"time": "2026-11-27T10:00:02Z", "iteration": 2}
    lab.show(body(phase="Succeeded", status={"progress": later}))
    await lab.turn()
    assert [len(one.curve) for one in lab.store.list(Query())] == [2]


async def test_a_job_with_a_time_to_live_is_marked_once_it_is_stored(lab: HistoryLab) -> None:
    lab.show(body(**TTL))
    await lab.turn()
    assert lab.server.patched == []
    lab.show(body(phase="Succeeded", **TTL))
    for _ in range(3):
        await lab.turn()
    annotations = {names.ANNOTATION_RECORDED: "u1"}
    assert lab.server.patched == [(JOB, {"metadata": {"uid": "u1", "annotations": annotations}})]


async def test_a_job_without_a_time_to_live_is_not_changed(lab: HistoryLab) -> None:
    lab.show(body(phase="Succeeded"))
    await lab.turn()
    assert lab.server.patched == []


async def test_a_time_to_live_that_is_set_after_the_end_is_noticed(lab: HistoryLab) -> None:
    lab.show(body(phase="Succeeded"))
    await lab.turn()
    lab.show(body(phase="Succeeded", **TTL))
    await lab.turn()
    await lab.turn()
    assert len(lab.server.patched) == 1


async def test_a_copied_annotation_does_not_count(lab: HistoryLab) -> None:
    made = body(phase="Succeeded", **TTL)
    made["metadata"]["annotations"] = {names.ANNOTATION_RECORDED: "another uid"}
    lab.show(made)
    await lab.turn()
    assert len(lab.server.patched) == 1


MARKS: dict[str, tuple[RequestError, int]] = {
    "no response": (RequestError(0, "ClientError", "refused"), 2),
    "the job is gone": (RequestError(404, "NotFound", "gone"), 1),
    "another job has its name": (
        RequestError(422, "Invalid", "uid", frozenset({"metadata.uid"})), 1,
    ),
}  # fmt: skip


@pytest.mark.parametrize(("error", "attempts"), MARKS.values(), ids=MARKS)
async def test_a_mark_is_tried_again_if_that_can_help(
    lab: HistoryLab, error: RequestError, attempts: int
) -> None:
    lab.server.errors = [error]
    lab.show(body(phase="Succeeded", **TTL))
    for _ in range(3):
        await lab.turn()
    assert 1 + len(lab.server.patched) == attempts


async def test_a_job_is_marked_after_its_logs_are_stored(lab: HistoryLab) -> None:
    lab.show(body(phase="Failed", **TTL))
    lab.tails._pending[OWNER] = 1
    await lab.turn()
    assert lab.server.patched == []
    del lab.tails._pending[OWNER]
    lab.tails.on_read(ReadTail(OWNER, "p0/0", LogTail(rank=0, text="the end")))
    await lab.recorder.acknowledge()
    assert lab.server.patched == []
    await lab.turn()
    assert [one.text for one in lab.store.logs("u1")] == ["the end"]
    assert lab.server.patched


async def test_a_log_of_a_job_that_is_gone_is_dropped(lab: HistoryLab) -> None:
    lab.show(body(phase="Failed"))
    lab.remove("u1")
    await lab.turn()
    lab.tails.on_read(ReadTail(OWNER, "p0/0", LogTail(rank=0)))
    await lab.turn()
    assert lab.store.logs("u1") == []


async def test_a_job_that_cannot_be_recorded_does_not_stop_the_others(lab: HistoryLab) -> None:
    broken = body("u1")
    broken["status"]["conditions"] = 3
    broken["spec"] = 3
    lab.show(broken, body("u2", name="other"))
    await lab.turn()
    assert lab.outcomes()["u2"] == "Running"


async def test_records_are_removed_by_age_while_the_recorder_runs(tmp_path: Path) -> None:
    lab = HistoryLab(tmp_path / "history.db", Retention(timedelta(hours=1)))
    lab.show(body("u1", phase="Failed"), body("u2", phase="Failed", name="kept"))
    lab.remove("u1")
    await lab.turn()
    await lab.recorder.prune()
    assert lab.outcomes() == {"u1": "Failed", "u2": "Failed"}
    lab.clock.seconds += 3601
    await lab.recorder.prune()
    assert lab.outcomes() == {"u2": "Failed"}
