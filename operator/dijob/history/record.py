"""Makes the record of a job from the DIJob and its earlier record. This module does no I/O."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from dijob import names
from dijob.api.parse import parse_status
from dijob.api.recorded import CurvePoint, JobRecord, PhaseChange, find_owner
from dijob.api.reported import Progress
from dijob.api.status import Status, parse_time

# Limits of one record. A curve of 200 points fills a chart.
MOST_POINTS: Final = 200
MOST_PHASES: Final = 50

_ENDS: Final = (names.Phase.SUCCEEDED, names.Phase.FAILED)


def make_record(body: Mapping[str, Any], earlier: JobRecord | None, now: str) -> JobRecord:
    """Return the record of a job. The curve and the phases continue those of the earlier record."""
    meta, status, progress = body["metadata"], parse_status(body), _read_progress(body)
    phases = earlier.phases if earlier else ()
    curve = earlier.curve if earlier else ()
    ends = (one for one in status.conditions if one.type in _ENDS and one.status == "True")
    end = next(ends, None)
    ended = (status.completion_time or end.last_transition_time) if end else ""
    return JobRecord(
        uid=str(meta["uid"]),
        namespace=str(meta["namespace"]),
        name=str(meta["name"]),
        labels={str(key): str(value) for key, value in (meta.get("labels") or {}).items()},
        owner=find_owner(meta),
        created=str(meta.get("creationTimestamp") or ""),
        ended=ended,
        phase=end.type if end else status.phase,
        reason=end.reason if end else _current_reason(status),
        message=status.message,
        replicas=status.desired,
        restarts=status.restarts,
        renewals=status.renewals,
        progress=progress.line,
        first_failure=status.first_failure,
        goodput=status.goodput,
        phases=_with_phase(phases, end.type if end else status.phase, ended or now),
        curve=add_point(curve, _point_of(progress)),
        spec=dict(body.get("spec") or {}),
    )


def mark_deleted(record: JobRecord, now: str) -> JobRecord:
    """Return the record of a job that is gone."""
    return record if record.deleted else record.model_copy(update={"deleted": now})


def differs_in_state(one: JobRecord | None, other: JobRecord) -> bool:
    """Whether two records of a job differ in anything other than its progress."""
    if one is None:
        return True
    growing = {"curve": (), "progress": "", "goodput": None}
    return one.model_copy(update=growing) != other.model_copy(update=growing)


def add_point(curve: Sequence[CurvePoint], point: CurvePoint | None) -> tuple[CurvePoint, ...]:
    """Return the curve with a newer point. If a curve is too long, it loses the point whose
    neighbors are closest to each other in time. So the remaining points cover the whole run evenly.
    """
    if point is None or (curve and curve[-1].time >= point.time):
        return tuple(curve)
    longer = (*curve, point)
    if len(longer) <= MOST_POINTS:
        return longer
    times = [at.timestamp() if (at := parse_time(one.time)) else 0.0 for one in longer]
    gap = {at: times[at + 1] - times[at - 1] for at in range(1, len(longer) - 1)}
    worst = min(gap, key=lambda at: gap[at])
    return (*longer[:worst], *longer[worst + 1 :])


def _point_of(progress: Progress) -> CurvePoint | None:
    figures = (progress.iteration, progress.env_step, progress.episode_return)
    if not progress.time or all(one is None for one in figures):
        return None
    return CurvePoint(
        time=progress.time,
        iteration=progress.iteration,
        env_step=progress.env_step,
        episode_return=progress.episode_return,
    )


def _with_phase(phases: Sequence[PhaseChange], phase: str, time: str) -> tuple[PhaseChange, ...]:
    if not phase or (phases and phases[-1].phase == phase):
        return tuple(phases)
    # The first phases are kept: they show how the job started.
    kept = phases if len(phases) < MOST_PHASES else (*phases[: MOST_PHASES // 2], *phases[-20:])
    return (*kept, PhaseChange(phase=phase, time=time))


def _current_reason(status: Status) -> str:
    """Return the reason of the condition whose message is also the job's message."""
    said = (one for one in status.conditions if one.message)
    same = (one.reason for one in said if one.message == status.message)
    return next(same, "")


def _read_progress(body: Mapping[str, Any]) -> Progress:
    """Return the progress from the status, or empty progress if a user has made it invalid."""
    try:
        return Progress.model_validate((body.get("status") or {}).get("progress") or {})
    except ValueError:
        return Progress()
