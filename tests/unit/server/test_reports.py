"""Reports of running jobs to the HTTP server: profilings, progress in the status, metrics."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any, cast

import pytest
from dijob.api.status import format_time
from dijob.kube.api import Api, RequestError
from dijob.kube.kinds import JOBS
from dijob.server.__main__ import run_server
from dijob.server.callers import JobName
from dijob.server.metrics import REGISTRY, SILENT_SECONDS
from dijob.server.reports import PROGRESS_SECONDS, Manner, Reports
from dijob.server.requests import Limit, ProgressRequest, Rate
from fakes.server_lab import JOB, UID, Apiserver, Body, Lab, lab


async def test_the_status_keeps_the_last_profilings() -> None:
    async with lab() as it:
        for number in range(10):
            it.clock.seconds += 20
            path = f"/v2alpha1/job/{UID}/profilings"
            assert (await it.ask("POST", path, {"step": number}))[0] == 200
        kept = it.apiserver.job["status"]["profilings"]
        assert [each["data"]["step"] for each in kept] == list(range(2, 10))
        assert {each["pod"] for each in kept} == {"job-0"}
        codes = [(await it.ask("POST", path, {"step": 0}))[0] for _ in range(7)]
        assert codes.count(429) == 3


async def test_progress_is_written_once_a_minute_and_nothing_is_lost() -> None:
    async with lab() as it:
        path = f"/v2alpha1/{UID}/progress"

        def line() -> str:
            return str(it.apiserver.job["status"].get("progress", {}).get("line", ""))

        assert (await it.ask("POST", path, {"iteration": 100, "env_step": 6400}))[0] == 200
        await it.server.reports.write_due()
        assert line() == "iter 100, step 6400"
        await it.ask("POST", path, {"iteration": 200})
        await it.ask("POST", path, {"episode_return": 187.0})
        it.clock.seconds += PROGRESS_SECONDS - 1
        await it.server.reports.write_due()
        assert line() == "iter 100, step 6400"
        it.clock.seconds += 1
        await it.server.reports.write_due()
        assert line() == "iter 200, step 6400, return 187"
        assert it.apiserver.job["status"]["phase"] == "Running"
        writes = [call for call in it.apiserver.calls if call.method == "PATCH"]
        assert len(writes) == 2


async def test_iterations_that_a_restarted_program_repeats_are_counted() -> None:
    async with lab() as it:
        path = f"/v2alpha1/{UID}/progress"

        async def repeated(iteration: int) -> object:
            await it.ask("POST", path, {"iteration": iteration})
            it.clock.seconds += PROGRESS_SECONDS
            await it.server.reports.write_due()
            progress = it.apiserver.job["status"]["progress"]
            assert progress["iteration"] == iteration
            return progress.get("repeatedIterations")

        begin = format_time(it.clock.now())
        assert await repeated(100) is None
        # Two processes report in turn.
        assert await repeated(90) is None
        recovering = {"since": begin, "activity": "Recovering", "activitySince": begin}
        it.apiserver.job["status"]["goodput"] = recovering
        assert await repeated(70) == 20
        long_ago = {"time": begin, "seconds": 1}
        running = {**recovering, "activity": "Running", "lastInterruptions": [long_ago]}
        it.apiserver.job["status"]["goodput"] = running
        assert await repeated(60) == 20
        just_now = {"time": format_time(it.clock.now()), "seconds": 1}
        it.apiserver.job["status"]["goodput"] = {**running, "lastInterruptions": [just_now]}
        assert await repeated(55) == 25
        assert await repeated(200) == 25


async def test_progress_waits_if_another_replica_has_just_written_it() -> None:
    async with lab() as it:
        report = ProgressRequest(iteration=1).progress
        job = await it.server.callers.job(
            await it.server.callers.of("Bearer rank", "x"), UID, "get"
        )
        twin = Reports(cast(Api, it.apiserver), it.server.sizes, clock=it.clock)
        await twin.progress(job, report)
        await twin.write_due()
        it.clock.seconds += 10
        await it.server.reports.progress(job, ProgressRequest(iteration=2).progress)
        await it.server.reports.write_due()
        assert it.apiserver.job["status"]["progress"]["iteration"] == 1
        it.clock.seconds += PROGRESS_SECONDS - 9
        await it.server.reports.write_due()
        assert it.apiserver.job["status"]["progress"]["iteration"] == 2


async def test_a_later_report_to_another_replica_is_kept() -> None:
    async with lab() as it:
        job = await it.server.callers.job(
            await it.server.callers.of("Bearer rank", "x"), UID, "get"
        )
        twin = Reports(cast(Api, it.apiserver), it.server.sizes, clock=it.clock)
        await it.server.reports.progress(job, ProgressRequest(iteration=1, env_step=9).progress)
        it.clock.seconds += 50
        await twin.progress(job, ProgressRequest(iteration=2, episode_return=7.0).progress)
        await twin.write_due()
        for seconds in (0, PROGRESS_SECONDS - 1):
            it.clock.seconds += seconds
            await it.server.reports.write_due()
            assert it.apiserver.job["status"]["progress"]["line"] == "iter 2, return 7"
        it.clock.seconds += 1
        await it.server.reports.write_due()
        assert it.apiserver.job["status"]["progress"]["line"] == "iter 2, step 9, return 7"


async def test_replicas_of_the_server_share_the_limit_on_writes() -> None:
    async with lab() as it:
        api = cast(Api, it.apiserver)
        twin = Reports(api, it.server.sizes, Manner(replicas=2), it.clock)
        for number in range(3):
            path = JOBS.path("ns", f"job-{number}")
            it.apiserver.objects[path] = it.apiserver.objects[JOB]
            await twin.progress(
                JobName("ns", f"job-{number}"), ProgressRequest(iteration=1).progress
            )
        written = []
        for _ in range(5):
            await twin.write_due()
            written.append(sum(call.method == "PATCH" for call in it.apiserver.calls))
            it.clock.seconds += 0.5
        assert written == [1, 1, 2, 2, 3]


async def test_progress_of_a_job_that_does_not_exist_is_rejected_immediately() -> None:
    async with lab() as it:
        it.apiserver.allowed.add(("bob", "update", "ns/none"))
        status, reply = await it.ask("POST", "/v2alpha1/ns.none/progress", {"iteration": 1}, "bob")
        assert (status, reply["message"]) == (404, "DIJob ns.none does not exist")


async def test_the_metrics_of_a_job_are_removed_after_its_last_report() -> None:
    async with lab() as it:
        api = cast(Api, it.apiserver)
        reports = Reports(api, it.server.sizes, Manner(by_job=True), it.clock)
        await reports.progress(JobName("ns", "job"), ProgressRequest(env_step=7).progress)
        gauge = ("dijob_job_progress", {"namespace": "ns", "job": "job", "what": "env_step"})
        assert REGISTRY.get_sample_value(*gauge) == 7
        it.clock.seconds += SILENT_SECONDS
        await reports.write_due()
        assert REGISTRY.get_sample_value(*gauge) == 7
        it.clock.seconds += 1
        await reports.write_due()
        assert REGISTRY.get_sample_value(*gauge) is None


async def test_the_progress_of_all_jobs_is_two_writes_a_second() -> None:
    async with lab() as it:
        for number in range(6):
            path = JOBS.path("ns", f"job-{number}")
            body = json.loads(json.dumps(it.apiserver.objects[JOB]))
            body["metadata"] |= {"name": f"job-{number}", "uid": ""}
            it.apiserver.objects[path] = body
            report = ProgressRequest(iteration=number).progress
            await it.server.reports.progress(JobName("ns", f"job-{number}"), report)
        written = []
        for _ in range(6):
            await it.server.reports.write_due()
            written.append(sum(call.method == "PATCH" for call in it.apiserver.calls))
            it.clock.seconds += 0.5
        assert written == [1, 2, 3, 4, 5, 6]


def before_next_read(it: Lab, act: Callable[[], Awaitable[None]]) -> None:
    """Run `act` while the server waits for the apiserver's next response."""
    read = it.server.sizes.read

    async def interrupted(job: JobName) -> Body:
        it.server.sizes.read = read  # type: ignore[method-assign]
        await act()
        return await read(job)

    it.server.sizes.read = interrupted  # type: ignore[method-assign]


async def test_r9_a_report_that_arrives_during_another_jobs_write_is_kept() -> None:
    """R9: the job was recreated with the same name while another job's progress was written."""
    async with lab() as it:
        reports, again = it.server.reports, JobName("ns", "job", f"{UID[:-1]}f")
        it.apiserver.objects[JOBS.path("ns", "other")] = it.apiserver.objects[JOB]
        reports._writes = Limit(Rate(100.0, 100.0))
        await reports.progress(JobName("ns", "other"), ProgressRequest(iteration=5).progress)
        it.clock.seconds += 1
        await reports.progress(JobName("ns", "job", UID), ProgressRequest(iteration=1).progress)

        async def created_again() -> None:
            it.apiserver.objects[JOB] = json.loads(json.dumps(it.apiserver.job))
            it.apiserver.job["metadata"]["uid"] = again.uid
            await reports.progress(again, ProgressRequest(iteration=7).progress)

        before_next_read(it, created_again)
        for _ in range(2):
            it.clock.seconds += PROGRESS_SECONDS
            await reports.write_due()
        assert it.apiserver.job["status"]["progress"]["iteration"] == 7


async def test_r9_a_failed_write_loses_no_report() -> None:
    """R9: values of a report that could not be written are written with the next report."""
    async with lab() as it:
        reports, job = it.server.reports, JobName("ns", "job", UID)
        await reports.progress(job, ProgressRequest(env_step=9, iteration=1).progress)

        async def fails() -> None:
            await reports.progress(job, ProgressRequest(iteration=2).progress)
            raise RequestError(500, "InternalError", "no")

        before_next_read(it, fails)
        await reports.write_due()
        it.clock.seconds += PROGRESS_SECONDS
        await reports.write_due()
        assert it.apiserver.job["status"]["progress"]["line"] == "iter 2, step 9"


async def test_h20_an_unexpected_error_of_one_job_does_not_stop_the_reports_of_others() -> None:
    """H20: the error is logged and counted, and the write is retried."""
    async with lab() as it:
        reports, read = it.server.reports, it.server.sizes.read
        broken = JobName("ns", "broken")
        it.apiserver.objects[JOBS.path("ns", "broken")] = it.apiserver.objects[JOB]
        await reports.progress(broken, ProgressRequest(iteration=1).progress)
        await reports.progress(JobName("ns", "job"), ProgressRequest(iteration=2).progress)

        async def fails(job: JobName) -> Body:
            if job == broken:
                raise KeyError("an error of the server")
            return await read(job)

        it.server.sizes.read = fails  # type: ignore[method-assign]
        failed = REGISTRY.get_sample_value("dijob_server_failed_writes_total") or 0.0
        for _ in range(4):
            it.clock.seconds += 1
            await reports.write_due()
        assert it.apiserver.job["status"]["progress"]["iteration"] == 2
        assert REGISTRY.get_sample_value("dijob_server_failed_writes_total") == failed + 1
        assert str(broken) in reports._waiting


async def test_h20_the_server_ends_if_its_writing_task_ends(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """H20: a server that accepts reports and never writes them would look healthy."""

    async def ends(_: Reports) -> None:
        raise RuntimeError("the writing task ended")

    async def connect(*_: object) -> Any:
        return cast(Any, Apiserver())

    monkeypatch.setattr(Reports, "run", ends)
    monkeypatch.setattr(Api, "connect", connect)
    with pytest.raises(ExceptionGroup, match="unhandled errors"):
        await asyncio.wait_for(run_server(0, 0, Manner(), None), 10)
