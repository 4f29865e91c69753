"""Prints objects as tables, JSON, YAML or names.

All commands print through `echo`, because parts of the text come from the cluster, where another
tenant may have written them (docs/decisions/044).
"""

import json
import shutil
import sys
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from dijob.api.printed import escape_json, one_line, plain_text
from dijob.cli.errors import CliError, Exit

if TYPE_CHECKING:
    from dijob.client import Job

Row = Sequence[str]

# These are the columns that `kubectl get dijob` prints (crd/__init__.py), so that both tables look
# the same.
HEAD: Final = ("NAME", "PHASE", "DESIRED", "READY", "RESTARTS", "AGE", "PROGRESS", "MESSAGE")
_GAP: Final = 3


def echo(text: str, *, err: bool = False, nl: bool = True) -> None:
    """Print text after removing control characters and escape sequences."""
    click.echo(plain_text(text), err=err, nl=nl)


def write_file(path: str, text: str) -> None:
    """Write a text to a file. Raises CliError (USAGE) if that is not possible."""
    try:
        Path(path).write_text(text)
    except OSError as error:
        raise CliError(f"cannot write {path}: {error.strerror}", Exit.USAGE) from error


def print_jobs(jobs: "Sequence[Job]", kind: str, *, many: bool, namespaces: bool = False) -> None:
    """Print jobs as a table, JSON, YAML or names, as `kubectl get` does."""
    if kind == "table":
        # Lines that are written to a pipe or a file are not cut, so that programs get the complete
        # message.
        width = shutil.get_terminal_size().columns if sys.stdout.isatty() else None
        now = datetime.now(UTC)
        head = (("NAMESPACE",) if namespaces else ()) + HEAD
        rows = [
            ((job.metadata.namespace,) if namespaces else ()) + job_cells(job, now) for job in jobs
        ]
        echo(format_table([head, *rows], width))
    elif kind == "name":
        for job in jobs:
            echo(f"dijob/{job.name}")
    else:
        # As with kubectl, a single job that was requested by name is printed as an object. Other
        # results are printed as a list.
        bodies = [dict(job.body) for job in jobs]
        one = bodies[0] if len(bodies) == 1 and not many else None
        listed = {"apiVersion": "v1", "kind": "List", "items": bodies}
        echo(format_object(one if one is not None else listed, kind), nl=False)


def format_object(data: Mapping[str, Any], kind: str) -> str:
    """Return an object as JSON or YAML, with a final newline."""
    if kind == "json":
        return escape_json(json.dumps(data, indent=2, ensure_ascii=False)) + "\n"
    # The client's writer uses no anchors, and escapes text that is not safe to print.
    from dijob.client import dump

    return dump(data)


def job_cells(job: "Job", now: datetime) -> tuple[str, ...]:
    """Return a job's cells for the columns of HEAD."""
    status = job.status
    return (
        job.name,
        job.phase,
        str(status.desired or ""),
        str(status.ready_replicas),
        str(status.restarts),
        format_age(job.metadata.creation_timestamp, now),
        job.progress.line if job.progress else "",
        one_line(job.message),
    )


def format_table(rows: Sequence[Row], width: int | None = None) -> str:
    """Align rows in columns, with each cell on one line. Lines longer than `width` are cut."""
    rows = [[one_line(cell) for cell in row] for row in rows]
    widths = [max(len(cell) for cell in column) for column in zip(*rows, strict=True)]
    lines = (
        (" " * _GAP).join(cell.ljust(size) for cell, size in zip(row, widths, strict=True)).rstrip()
        for row in rows
    )
    return "\n".join(
        line if not width or len(line) <= width else cut_line(line, width) for line in lines
    )


def cut_line(line: str, width: int) -> str:
    """Return a line of at most `width` characters."""
    return line if len(line) <= width else f"{line[: width - 1]}…"


def format_age(stamp: str, now: datetime) -> str:
    """Return the age of a timestamp in kubectl's format (90s, 12m, 3h, 4d); "" if it is unknown."""
    # The timestamp comes from the cluster, where a stored object can have any text in place of a
    # time.
    try:
        seconds = int((now - datetime.fromisoformat(stamp)).total_seconds())
    except (ValueError, TypeError):
        return ""
    return format_duration(max(seconds, 0))


def format_duration(seconds: int) -> str:
    """Format seconds as kubectl does: the smaller unit is shown only while it is significant."""
    # The limits are those of HumanDuration in k8s.io/apimachinery/pkg/util/duration.
    if seconds < 120:
        return f"{seconds}s"
    minutes, rest = divmod(seconds, 60)
    if minutes < 10:
        return f"{minutes}m{rest}s" if rest else f"{minutes}m"
    if minutes < 180:
        return f"{minutes}m"
    hours = minutes // 60
    if hours < 8:
        return f"{hours}h{minutes % 60}m" if minutes % 60 else f"{hours}h"
    return f"{hours}h" if hours < 48 else f"{hours // 24}d"
