"""Configures the operator's log: human-readable lines, or JSON for programs.

The JSON format of kopf is not used, because it omits the name of the logger. It also omits the job
in lines that the operator itself logs.
"""

import json
import logging
import sys
from contextvars import ContextVar
from datetime import UTC, datetime
from enum import StrEnum
from types import TracebackType

import kopf

from dijob.api.printed import plain_text
from dijob.process.safe_lines import make_safe

# The job (NAMESPACE/NAME) that the current task is working on. Each log line contains this name, so
# that you can find the lines about one job even if their text does not name the job.
JOB: ContextVar[str] = ContextVar("job", default="")


class LogFormat(StrEnum):
    """The format of log lines."""

    TEXT = "text"
    JSON = "json"


class JsonLines(logging.Formatter):
    """One JSON object per line, with time (UTC), level, logger and message, plus job and exception
    if there are any.
    """

    def format(self, record: logging.LogRecord) -> str:
        line = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        if job := _job_of(record):
            line["job"] = job
        if record.exc_info:
            line["exception"] = plain_text(self.formatException(record.exc_info))
        return json.dumps(line)


def configure(level: str, log_format: LogFormat) -> None:
    """Log to standard error at this level and above: "debug", "info" or "warning"."""
    kopf.configure(
        verbose=level == "debug", quiet=level == "warning", log_format=kopf.LogFormat.FULL
    )
    # kopf's lines about watch events are left out. The operator's own lines about the Kubernetes
    # events that it posts are shorter and more informative.
    logging.getLogger("kopf.objects").setLevel(logging.WARNING)
    if log_format is LogFormat.JSON:
        for handler in logging.getLogger().handlers:
            handler.setFormatter(JsonLines())
    make_safe(logging.getLogger())
    # Otherwise, Python itself would print warnings and uncaught exceptions. They would be
    # neither formatted as JSON nor sanitized (safe_lines.py).
    logging.captureWarnings(True)
    sys.excepthook = _log_uncaught


def _job_of(record: logging.LogRecord) -> str:
    """Return the job of a record, or "" if there is none."""
    # kopf's log records about an object contain a reference to that object.
    if reference := getattr(record, "k8s_ref", None):
        return f"{reference.get('namespace')}/{reference.get('name')}"
    return JOB.get()


def _log_uncaught(
    kind: type[BaseException], error: BaseException, trace: TracebackType | None
) -> None:
    logging.getLogger("dijob").critical(
        "uncaught exception: %r", error, exc_info=(kind, error, trace)
    )
