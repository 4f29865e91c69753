"""Formats records of the history. No I/O."""

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any, Final

from dijob import names
from dijob.api.printed import one_line
from dijob.api.recorded import CurvePoint, JobRecord, LogTail
from dijob.api.status import Status, parse_time
from dijob.cli.goodput.show import format_sentence
from dijob.cli.printing import format_age, format_duration, format_table
from dijob.client.jobs import failure_in_words
from dijob.core.report.time_spent import TimeSpent, read_time_spent

_HEAD: Final = ("NAME", "OUTCOME", "REPLICAS", "RESTARTS", "DURATION", "ENDED", "PROGRESS")
_WIDE: Final = ("OWNER", "DELETED", "UID")
_BLOCKS: Final = "▁▂▃▄▅▆▇█"
_CURVE_WIDTH: Final = 60


def format_records(
    records: Sequence[JobRecord], now: datetime, *, wide: bool = False, namespaces: bool = False
) -> str:
    """Return the table of records."""
    first = ("NAMESPACE",) if namespaces else ()
    rows = [(*first, *_HEAD, *(_WIDE if wide else ()), "MESSAGE")]
    for one in records:
        more = (one.owner, _ago(one.deleted, now), one.uid) if wide else ()
        place = (one.namespace,) if namespaces else ()
        rows.append((*place, *_cells(one, now), *more, one_line(one.message)))
    return format_table(rows)


def _cells(one: JobRecord, now: datetime) -> tuple[str, ...]:
    return (
        one.name,
        one.outcome,
        str(one.replicas or ""),
        str(one.restarts),
        _duration(one),
        _ago(one.over, now),
        one.progress,
    )


def describe_record(one: JobRecord, logs: Sequence[LogTail], now: datetime) -> str:
    """Return everything about one record as human-readable text."""
    reason = f" ({one.reason})" if one.reason else ""
    ended = f", {_ago(one.over, now)} ago" if one.over else ""
    rows = [
        ("Job", f"{one.namespace}/{one.name}"),
        ("UID", one.uid),
        ("Owner", one.owner),
        ("Outcome", f"{one.outcome}{reason}{ended}"),
        ("Message", one_line(one.message)),
        ("Created", one.created),
        ("Ended", one.ended),
        ("Deleted", one.deleted),
        ("Replicas", str(one.replicas or "")),
        ("Restarts", f"{one.restarts} counted failures, {one.renewals} re-rendezvous"),
        ("Progress", one.progress),
        ("Return", draw_curve(one.curve)),
        ("Goodput", _goodput(one, now)),
        ("Phases", ", ".join(f"{each.phase} {each.time}" for each in one.phases)),
        ("Logs", ", ".join(map(name_log, logs)) or "none"),
    ]
    width = max(len(name) for name, _ in rows) + 2
    lines = [f"{name + ':':{width}}{text}" for name, text in rows if text]
    if one.first_failure is not None:
        lines += ["", failure_in_words(one.first_failure)]
    return "\n".join(lines)


def draw_curve(curve: Sequence[CurvePoint]) -> str:
    """Draw the episode returns as a line of block characters, with the first and the last value;
    "" if there are fewer than two values.
    """
    values = [each.episode_return for each in curve if each.episode_return is not None]
    if len(values) < 2:
        return ""
    step = max(1, -(-len(values) // _CURVE_WIDTH))
    shown = values[::step]
    low, high = min(shown), max(shown)
    scale = (len(_BLOCKS) - 1) / (high - low) if high > low else 0
    line = "".join(_BLOCKS[int((value - low) * scale)] for value in shown)
    return f"{values[0]:.4g} {line} {values[-1]:.4g}"


def format_logs(logs: Iterable[LogTail]) -> str:
    """Return the text of the logs. If there are several, each has a heading."""
    found = list(logs)
    if len(found) == 1:
        return found[0].text.rstrip("\n")
    parts = (f"==> {name_log(each)}, pod {each.pod} <==\n{each.text.rstrip()}" for each in found)
    return "\n\n".join(parts)


def record_data(one: JobRecord, logs: Sequence[LogTail]) -> dict[str, Any]:
    """Return a record as data, for -o json and -o yaml."""
    listed = [each.model_dump(mode="json", by_alias=True, exclude={"text"}) for each in logs]
    return {**one.dump(), "logs": listed}


def record_manifest(one: JobRecord) -> dict[str, Any]:
    """Return the manifest from which the job can be created again."""
    meta: dict[str, Any] = {"name": one.name, "namespace": one.namespace}
    if one.labels:
        meta["labels"] = one.labels
    return {
        "apiVersion": names.API_VERSION,
        "kind": names.KIND,
        "metadata": meta,
        "spec": one.spec,
    }


def name_log(tail: LogTail) -> str:
    """Return the title of a log: the rank, any failure, and a note if only the log's end is
    recorded.
    """
    parts = ["failed"] if tail.failed else []
    parts += [f"exit code {tail.exit_code}"] if tail.exit_code else []
    parts += ["only its end"] if tail.cut else []
    return f"rank {tail.rank}" + (f" ({', '.join(parts)})" if parts else "")


def measure_record(one: JobRecord, at: datetime) -> TimeSpent | None:
    """Return how a recorded job spent its time until it ended; None if this is unknown. If the job
    has not ended, return how it spent its time until `at`.
    """
    status = Status(goodput=one.goodput)
    known = one.goodput is not None
    return read_time_spent(status, one.created, parse_time(one.over) or at) if known else None


def _goodput(one: JobRecord, now: datetime) -> str:
    spent = measure_record(one, now)
    return format_sentence(spent).removeprefix("goodput ") if spent else ""


def _duration(one: JobRecord) -> str:
    begin, end = parse_time(one.created), parse_time(one.over)
    return format_duration(max(0, int((end - begin).total_seconds()))) if begin and end else ""


def _ago(stamp: str, now: datetime) -> str:
    return format_age(stamp, now) if stamp else ""
