"""Formats a job, its ranks and its events as rows and lines for `watch`. No I/O."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from dijob import names
from dijob.api.printed import one_line
from dijob.api.problems import SpecError
from dijob.api.status import parse_time
from dijob.cli.calling import in_words
from dijob.cli.printing import format_duration
from dijob.client import Job, RankPod
from dijob.client.reading import event_time
from dijob.topology import count_connections

HEAD = ("RANK", "TASK", "POD", "NODE", "IP", "STATE", "RESTARTS", "REVISION", "GATE")
EVENTS = 5


@dataclass(frozen=True)
class Snapshot:
    """The state of a job at one moment."""

    job: Job
    pods: Sequence[RankPod] = ()
    events: Sequence[Mapping[str, Any]] = field(default=())
    """The events, the newest last."""
    unseen: Sequence[str] = ()
    """The API errors of requests that the user is not allowed to make."""
    troubles: Sequence[str] = ()
    """Connection problems that may have left the state out of date."""


def elapsed_time(job: Job, now: datetime) -> str:
    """Return the current age of the job, or its age when it ended."""
    begin = parse_time(job.status.start_time) or parse_time(job.metadata.creation_timestamp)
    end = parse_time(job.status.completion_time) or now
    return format_duration(max(0, int((end - begin).total_seconds()))) if begin else ""


def edges_in_words(view: Snapshot) -> str:
    """Describe how many connections are probably up, based on the Ready ranks.

    The real connections are known only inside the pods (`kubectl dijob topology`).
    """
    status = view.job.status
    try:
        queue = view.job.model.queue
    except SpecError:
        return ""
    if queue not in names.DIALLING:
        return f"all {status.desired} ranks connect to Redis"
    if not status.topology or not status.desired:
        return ""
    workers = status.parallel_workers or 1
    # Ready usually means that the program is listening (docs/decisions/043), so two Ready ranks are
    # probably connected.
    ready = [pod.rank for pod in view.pods if pod.ready]
    topology = names.Topology(status.topology)
    up = count_connections(topology, ready, workers).total
    expected = count_connections(topology, range(status.desired), workers).total
    # The status does not contain the number of processes if only the program knows it.
    least = "" if status.parallel_workers is not None else "at least "
    return f"{status.topology}, {up} of {least}{expected} connections (estimated from readiness)"


def header_lines(view: Snapshot, now: datetime) -> list[str]:
    """Return the lines above the table of ranks."""
    job, status = view.job, view.job.status
    figures = [
        f"{status.ready_replicas} of {status.desired} ready",
        f"revision {status.list_number}",
        f"restarts {status.restarts}",
        f"re-rendezvous {status.renewals}",
        elapsed_time(job, now),
    ]
    lines = [f"{job.name}  {job.phase}  {', '.join(part for part in figures if part)}"]
    if job.message:
        lines.append(job.message)
    if job.manager and status.phase:
        lines.append(f"managed by {job.manager}, which writes this status")
    if known := edges_in_words(view):
        lines.append(known)
    peers = job.condition("PeersReady")
    # The job's message is often the message of PeersReady, and must not be shown twice.
    if peers and peers.status != "True" and peers.message and peers.message != job.message:
        lines.append(f"peers: {peers.message}")
    if job.progress and job.progress.line:
        lines.append(f"progress: {job.progress.line}")
    lines += (f"not shown: {why}" for why in view.unseen)
    lines += (f"may be out of date: {why}" for why in view.troubles)
    return [one_line(line) for line in lines]


def rank_rows(pods: Sequence[RankPod], most: int) -> list[tuple[str, ...]]:
    """Return a row for each rank, but at most `most` rows."""
    # Ranks that are not Ready are the interesting ones, so they are chosen first.
    shown = pods
    if len(pods) > most:
        shown = sorted(pods, key=lambda pod: (pod.ready, pod.rank))[: max(most, 1)]
    return [
        (
            str(pod.rank),
            pod.task,
            pod.name,
            pod.node,
            pod.ip,
            one_line(pod.state),
            str(pod.restarts),
            str(pod.list_number or ""),
            pod.gate,
        )
        for pod in sorted(shown, key=lambda pod: pod.rank)
    ]


def event_lines(view: Snapshot, now: datetime) -> list[str]:
    """Return the last events of the job with their ages."""
    return [
        one_line(
            f"{_format_ago(event, now)}{event.get('type', '')} {event.get('reason', '')}:"
            f" {event.get('message', '')}"
        )
        for event in view.events[-EVENTS:]
    ]


def _format_ago(event: Mapping[str, Any], now: datetime) -> str:
    time = parse_time(event_time(event))
    return f"{format_duration(max(0, int((now - time).total_seconds())))} ago: " if time else ""


def change_lines(view: Snapshot, begun: datetime) -> dict[str, str]:
    """Return the lines for an output that is not a terminal, keyed by their subject.

    A caller prints a line only if it differs from the last line with the same subject. At the start
    of the watch, events from before `begun` are printed too, so they are marked.
    """
    # The command itself prints the outcome of a job that has ended.
    found = {"": in_words(view.job)} if not view.job.finished else {}
    for pod in view.pods:
        task = f" ({pod.task})" if pod.task else ""
        where = ", ".join(part for part in (pod.node, pod.ip) if part)
        text = f"rank {pod.rank}{task}: {pod.state}{f' on {where}' if where else ''}"
        found[f"rank {pod.rank}"] = (
            text
            + (f", revision {pod.list_number}" if pod.list_number else "")
            + (f", restarts {pod.restarts}" if pod.restarts else "")
        )
    for event in view.events:
        meta = event.get("metadata", {})
        # The count is part of the key: an event that occurs again is printed again.
        key = f"event {meta.get('uid')} {event.get('count')}"
        time = event_time(event)
        seen_at = parse_time(time)
        old = " (before this watch)" if seen_at and seen_at < begun else ""
        about = f"{event.get('reason', '')}: {event.get('message', '')}"
        found[key] = f"event{f' {time}' if time else ''}{old}: {about}"
    found |= {why: f"not shown: {why}" for why in view.unseen}
    found |= {why: f"may be out of date: {why}" for why in view.troubles}
    return {about: one_line(line) for about, line in found.items()}
