"""The page's data about jobs in the history. These jobs may have been deleted."""

import asyncio
from collections.abc import Sequence
from typing import Any, Final

from dijob import reasons
from dijob.api.printed import one_line
from dijob.api.recorded import CurvePoint, JobRecord, LogTail
from dijob.api.status import parse_time
from dijob.cli.history.show import measure_record, name_log, record_manifest
from dijob.client import AsyncClient, DijobError, dump
from dijob.client.history import HistoryQuery, HistoryReader
from dijob.client.jobs import failure_in_words
from dijob.reasons import ReasonKind

from dijob_extras.ui.sse import Message, Messages
from dijob_extras.ui.view import needs_action, without_preemption

Json = dict[str, Any]

# Records of ended jobs do not change, so the page does not need to be updated every second.
_AGAIN_SECONDS: Final = 15.0
_PULSE_SECONDS: Final = 4.0
_MOST_LISTED: Final = 200
_TONES: Final = {"Succeeded": "good", "Running": "good", "Failed": "problem"}


async def list_past(client: AsyncClient, everywhere: bool) -> Messages:
    """Yield the newest records of one or all namespaces, and again at regular intervals."""
    while True:
        try:
            query = HistoryQuery(
                namespace="" if everywhere else client.namespace, limit=_MOST_LISTED
            )
            found = await HistoryReader(client.connection).list_records(query)
            yield Message("past", {"sentence": "", "jobs": [past_row(one) for one in found]})
        except DijobError as error:
            yield Message("past", {"sentence": str(error), "jobs": []})
        async for pulse in _wait():
            yield pulse


async def show_past(client: AsyncClient, name: str, uid: str) -> Messages:
    """Yield a record with its logs, and yield it again at regular intervals."""
    while True:
        reader = HistoryReader(client.connection)
        try:
            record, _ = await reader.get_record(client.namespace, name, uid)
            logs, refusal = await _read_logs(reader, record)
            yield Message("record", past_page(record, logs, refusal))
        except DijobError as error:
            yield Message("gone", {"sentence": str(error)})
        async for pulse in _wait():
            yield pulse


async def _wait() -> Messages:
    """Wait until the next request, and yield None every few seconds. For each None, the server can
    send a comment. The page then knows that the stream is alive.
    """
    for _ in range(int(_AGAIN_SECONDS / _PULSE_SECONDS) + 1):
        await asyncio.sleep(_PULSE_SECONDS)
        yield None


async def _read_logs(reader: HistoryReader, record: JobRecord) -> tuple[list[LogTail], str]:
    """Return the logs of a job, or the reason why the user is not allowed to see them."""
    try:
        return await reader.read_logs(record.namespace, record.name, record.uid), ""
    except DijobError as error:
        return [], str(error)


def past_row(one: JobRecord) -> Json:
    """Return the row that shows a record in the list."""
    failure = failure_in_words(one.first_failure) if one.first_failure else ""
    return {
        "namespace": one.namespace,
        "name": one.name,
        "uid": one.uid,
        "phase": one.outcome,
        "tone": _TONES.get(one.outcome) or ("problem" if _needs_action(one) else "quiet"),
        "owner": one.owner,
        "created": one.created,
        "over": one.over,
        "deleted": one.deleted,
        "replicas": one.replicas,
        "restarts": one.restarts,
        "progress": one.progress,
        "message": without_preemption(
            one_line(failure if one.outcome == "Failed" and failure else one.message)
        ),
    }


def _needs_action(one: JobRecord) -> bool:
    """Return whether an unfinished job has a problem that it cannot solve by itself."""
    found = (reasons.find_reason(each.__name__, one.reason) for each in reasons.CATALOGUE)
    entries = (reason.entry for reason in found if reason)
    return not one.over and any(
        entry.kind is ReasonKind.PROBLEM and needs_action(entry.remedy) for entry in entries
    )


def past_page(one: JobRecord, logs: Sequence[LogTail], refusal: str) -> Json:
    """Return everything that the page shows about one record."""
    command = f"kubectl dijob history {one.name} -n {one.namespace} --uid {one.uid}"
    return {
        **past_row(one),
        "reason": one.reason,
        "message": one.message,
        "failure": failure_in_words(one.first_failure) if one.first_failure else "",
        "goodput": _goodput_percent(one),
        "renewals": one.renewals,
        "phases": [{"phase": each.phase, "time": each.time} for each in one.phases],
        "points": [_point(each) for each in one.curve],
        "logs": [_log(each) for each in logs],
        "unseen": refusal,
        "yaml": dump(record_manifest(one)),
        "commands": [
            ["Show the record", command],
            ["Print the logs", f"{command} --logs"],
            ["Run the job again", f"{command} -o manifest | kubectl create -f -"],
        ],
    }


def _goodput_percent(one: JobRecord) -> int | None:
    at = parse_time(one.over)
    spent = measure_record(one, at) if at else None
    return round(100 * spent.productive / spent.total) if spent and spent.total else None


def _point(one: CurvePoint) -> Json:
    """Return a point of the curve in the form that the page of a running job uses."""
    return {
        "time": one.time,
        "iteration": one.iteration,
        "step": one.env_step,
        "return": one.episode_return,
    }


def _log(one: LogTail) -> Json:
    return {"title": name_log(one).capitalize(), "failed": one.failed, "text": one.text}
