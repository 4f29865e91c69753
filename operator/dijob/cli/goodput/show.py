"""Formats the report on a job's time as a sentence, a table and data. No I/O."""

from datetime import datetime
from typing import Any

from dijob.api.reported import repeated_share
from dijob.api.status import parse_time
from dijob.cli.goodput.parts import Kind, TimePart, divide_rank_time, divide_time, share_percent
from dijob.cli.printing import format_table
from dijob.client import Job
from dijob.core.report.time_spent import TimeSpent, read_time_spent

NOT_COUNTED = "the job's time was not counted: it ended under an older operator version"


def measure_job(job: Job, now: datetime) -> TimeSpent | None:
    """Return how a job has spent its time; None if no operator has counted it."""
    created, share = job.metadata.creation_timestamp, repeated_share(job.progress)
    return read_time_spent(job.status, created, now, share)


def format_sentence(spent: TimeSpent) -> str:
    """Return the goodput, and how the rest of the time was spent, largest part first."""
    parts = divide_time(spent)
    if not spent.total:
        return "goodput: no time has been counted yet"
    shares = dict(zip(parts, share_percent(parts), strict=True))
    rest = sorted((part for part in parts[1:] if shares[part]), key=lambda part: -part.seconds)
    words = (f"{shares[part]} % {part.label}{_at(part, spent)}" for part in rest)
    goodput = f"goodput {shares[parts[0]]} %"
    return f"{goodput}: {', '.join(words)}" if rest else goodput


def _at(part: TimePart, spent: TimeSpent) -> str:
    """Return the time at which a part began, without the date if counting began on the same day."""
    began, since = parse_time(part.began), parse_time(spent.since)
    if not (began and since):
        return ""
    return f" at {began:%H:%M}" if began.date() == since.date() else f" at {began:%Y-%m-%d %H:%M}"


def format_report(spent: TimeSpent, created: str) -> str:
    """Return a table of how the job spent its time, followed by the goodput as a sentence."""
    parts = divide_time(spent)
    shares = share_percent(parts)
    # The running time is always shown, because its share of the total is the goodput.
    rows = [
        (part.label, str(part.seconds), f"{share} %", part.began, part.ranks)
        for part, share in zip(parts, shares, strict=True)
        if part.seconds or part.kind is Kind.RUNNING
    ]
    head = ("TIME SPENT", "SECONDS", "SHARE", "BEGAN", "RANKS")
    total = ("total", str(spent.total), "100 %" if spent.total else "0 %", spent.since, "")
    return "\n".join([format_table([head, *rows, total]), "", *_notes(spent, created)])


def _notes(spent: TimeSpent, created: str) -> list[str]:
    since, begin = parse_time(spent.since), parse_time(created)
    late = since and begin and since > begin
    note = f"counted since {spent.since}; the time since the job's creation ({created}) is unknown"
    return [format_sentence(spent), *([note] if late else [])]


def report_data(spent: TimeSpent, ranks: range) -> dict[str, Any]:
    """Return the report as data, for -o json and -o yaml."""
    parts = divide_time(spent)
    return {
        "since": spent.since,
        "activity": spent.activity.value,
        "totalSeconds": spent.total,
        "goodput": round(spent.productive / spent.total, 4) if spent.total else None,
        "sentence": format_sentence(spent),
        "parts": [_part_data(part) for part in parts],
        "ranks": [
            {"rank": rank, "parts": [_part_data(part) for part in divide_rank_time(spent, rank)]}
            for rank in ranks
        ],
    }


def _part_data(part: TimePart) -> dict[str, Any]:
    more = {name: value for name in ("began", "ranks") if (value := getattr(part, name))}
    return {"kind": part.kind.value, "label": part.label, "seconds": part.seconds, **more}
