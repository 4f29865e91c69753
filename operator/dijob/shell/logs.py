"""The operator's log, as lines for people or as JSON for programs.

kopf's own JSON names neither the logger nor the job that one of our lines is about.
"""

import json
import logging
import sys
from contextvars import ContextVar
from datetime import UTC, datetime
from enum import StrEnum
from types import TracebackType

import kopf

from dijob.api.printed import plain
from dijob.shell.safe_lines import make_safe

# The job, as NAMESPACE/NAME, that what is logged in this task is about.
JOB: ContextVar[str] = ContextVar("job", default="")


class LogFormat(StrEnum):
    """How a line of the log looks."""

    TEXT = "text"
    JSON = "json"


class JsonLines(logging.Formatter):
    """One object per line: time (UTC), level, logger, message, and where there are any job and
    exception.
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
            line["exception"] = plain(self.formatException(record.exc_info))
        return json.dumps(line)


def configure(level: str, log_format: LogFormat) -> None:
    """Log from this level on ("debug", "info", "warning"), to standard error."""
    kopf.configure(
        verbose=level == "debug", quiet=level == "warning", log_format=kopf.LogFormat.FULL
    )
    # One line per job and event says more than kopf's line per watch event does.
    logging.getLogger("kopf.objects").setLevel(logging.WARNING)
    if log_format is LogFormat.JSON:
        for handler in logging.getLogger().handlers:
            handler.setFormatter(JsonLines())
    make_safe(logging.getLogger())
    # What Python itself would print is neither JSON nor safe.
    logging.captureWarnings(True)
    sys.excepthook = _log_uncaught


def _job_of(record: logging.LogRecord) -> str:
    """kopf's lines about an object carry a reference to it."""
    if reference := getattr(record, "k8s_ref", None):
        return f"{reference.get('namespace')}/{reference.get('name')}"
    return JOB.get()


def _log_uncaught(
    kind: type[BaseException], error: BaseException, trace: TracebackType | None
) -> None:
    logging.getLogger("dijob").critical(
        "uncaught exception: %r", error, exc_info=(kind, error, trace)
    )
