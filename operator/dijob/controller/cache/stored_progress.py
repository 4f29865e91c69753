"""Reads the progress in the status of known jobs, for metrics and autoscalers. Every replica
knows this progress, because every replica watches the jobs.
"""

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

from dijob.api.reported import Progress
from dijob.api.status import parse_time

# An older value does not describe the current state, so it must not cause a job to be scaled.
RECENT_SECONDS: Final = 300.0

FIGURES: Final = (
    "iteration",
    "env_step",
    "episode_return",
    "waiting_percent",
    "buffer_percent",
    "signal",
)


def read_progress(body: Mapping[str, Any] | None) -> Progress:
    """Return the progress in the status of a job. The result is empty if the status contains no
    progress, or if a user has made it invalid.
    """
    try:
        return Progress.model_validate(((body or {}).get("status") or {}).get("progress") or {})
    except ValueError:
        return Progress()


def read_figures(body: Mapping[str, Any] | None) -> dict[str, float]:
    """Return the numbers in the progress of a job, keyed by the model's field names."""
    known = read_progress(body).model_dump(include=set(FIGURES), exclude_none=True)
    return {name: known[name] for name in FIGURES if name in known}


def recent_figures(body: Mapping[str, Any] | None, now: datetime) -> dict[str, float]:
    """Return the numbers in the progress of a job. Return {} if the job is not running, or if none
    of the numbers has changed for RECENT_SECONDS.
    """
    changed = parse_time(read_progress(body).time)
    phase = ((body or {}).get("status") or {}).get("phase")
    if phase != "Running" or changed is None:
        return {}
    recent = abs((now - changed).total_seconds()) <= RECENT_SECONDS
    return read_figures(body) if recent else {}
