"""Builds the data of jobs for the page. No I/O."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from dijob import reasons
from dijob.api.problems import SpecError
from dijob.api.reported import repeated_share
from dijob.cli.goodput.show import report_data
from dijob.cli.watching.view import Snapshot
from dijob.client import Job, RankPod
from dijob.client.jobs import failure_in_words
from dijob.core.report.time_spent import read_time_spent
from dijob.names import Phase
from dijob.reasons import ReasonKind

from dijob_extras.ui import graph, story
from dijob_extras.ui.memory import PageMemory
from dijob_extras.ui.states import State, StateKind, of_pod, without_pod

Json = dict[str, Any]

# A page with a bar for each of thousands of ranks would be slow.
MOST_BARS: Final = 100
# If the permission to read pods is missing, the apiserver's message contains this text.
_NO_PODS: Final = 'resource "pods"'


def job_row(job: Job) -> Json:
    """Return a job's row in the list."""
    status, progress = job.status, job.progress
    return {
        "namespace": job.metadata.namespace,
        "name": job.name,
        "phase": job.phase,
        "tone": choose_tone(job),
        "message": " ".join(job.message.split()),
        "ready": status.ready_replicas,
        "desired": status.desired,
        "restarts": status.restarts,
        "progress": progress.line if progress else "",
        "created": job.metadata.creation_timestamp,
    }


def find_problems(job: Job) -> list[tuple[str, str]]:
    """Return the problems as pairs: the message of the condition, and the remedy from the catalog
    of reasons.
    """
    found = []
    for one in job.status.conditions:
        reason = reasons.find_reason(one.type, one.reason)
        entry = reason.entry if reason else None
        # A reason is a problem only with the status that the catalog lists for it.
        if entry and entry.kind is ReasonKind.PROBLEM and entry.status == (one.status == "True"):
            found.append((" ".join(one.message.split()), entry.remedy))
    return found


def choose_tone(job: Job) -> str:
    """Return the tone of a job, which decides its color: good, waiting or problem."""
    if job.phase == Phase.FAILED or (find_problems(job) and not job.finished):
        return "problem"
    if job.phase == Phase.SUCCEEDED or (job.is_true("Running") and job.is_true("PeersReady")):
        return "good"
    return "waiting"


@dataclass(frozen=True)
class Seen:
    """A snapshot of a job, its time, and what the command remembers about the job. `fell` are the
    ranks that have just failed.
    """

    now: Snapshot
    memory: PageMemory
    time: datetime
    fell: frozenset[int] = frozenset()


def job_page(seen: Seen) -> Json:
    """Return the data of a job's page."""
    job, status = seen.now.job, seen.now.job.status
    ranks = _rank_rows(seen)
    ready = {pod.rank for pod in seen.now.pods if pod.ready and pod.rank not in seen.fell}
    wrong = find_problems(job)
    return {
        **job_row(job),
        "uid": job.metadata.uid,
        "remedy": wrong[0][1] if wrong else "",
        "failure": failure_in_words(status.first_failure),
        "started": status.start_time or job.metadata.creation_timestamp,
        "ended": status.completion_time or "",
        "list": status.list_number,
        "renewals": status.renewals,
        "workers": status.parallel_workers or 1,
        "ranks": ranks,
        "graph": graph.build_graph(job, ready),
        "phases": story.list_phases(job, seen.now.events, seen.memory),
        "story": story.build_history(job, seen.now.events, seen.memory),
        "points": seen.memory.points,
        "goodput": _goodput(job, seen.time),
        "since": seen.memory.since,
        "unseen": list(seen.now.unseen),
    }


def _goodput(job: Job, now: datetime) -> Json | None:
    """Return how the job and each of its ranks have spent their time; None if it is unknown."""
    created, share = job.metadata.creation_timestamp, repeated_share(job.progress)
    spent = read_time_spent(job.status, created, now, share)
    return report_data(spent, job.ranks[:MOST_BARS]) if spent else None


def _rank_rows(seen: Seen) -> list[Json]:
    """Return a row for each rank that the job wants, or that still has a pod."""
    job = seen.now.job
    pods: Mapping[int, RankPod] = {pod.rank: pod for pod in seen.now.pods}
    try:
        again = graph.describe_restarts(job.model)
    except SpecError:
        again = []
    wanted = set(job.ranks) | pods.keys()
    return [
        _rank_row(rank, pods.get(rank), _rank_state(rank, pods.get(rank), seen))
        | {"again": again[rank] if rank < len(again) else ""}
        for rank in sorted(wanted)
    ]


def _rank_state(rank: int, pod: RankPod | None, seen: Seen) -> State:
    if pod is not None:
        state = of_pod(pod, rank in seen.fell)
        old = state.kind is StateKind.READY and rank in graph.rerendezvous_ranks(seen.now.job)
        # The rank works, but will be restarted as soon as the next peer list is complete.
        return (
            State(StateKind.RENEWING, "Running; restarts with the next peer list") if old else state
        )
    if any(_NO_PODS in why for why in seen.now.unseen):
        return State(StateKind.ABSENT, "Unknown: no permission to list pods")
    return without_pod(rank, seen.now.job.status)


def _rank_row(rank: int, pod: RankPod | None, state: State) -> Json:
    return {
        "rank": rank,
        "kind": state.kind.value,
        "state": state.words,
        "task": pod.task if pod else "",
        "pod": pod.name if pod else "",
        "node": pod.node if pod else "",
        "ip": pod.ip if pod else "",
        "restarts": pod.restarts if pod else 0,
        "list": pod.list_number if pod else 0,
    }
