"""Builds the job data that the page shows. No I/O."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

from dijob import reasons
from dijob.api.problems import SpecError
from dijob.api.recorded import find_owner
from dijob.api.status import Condition
from dijob.cli.goodput.show import measure_job, report_data
from dijob.cli.watching.view import Snapshot
from dijob.client import Job, RankPod
from dijob.core.members import Gang, gang_of
from dijob.names import Phase
from dijob.reasons import ReasonKind

from dijob_extras.ui import graph, story
from dijob_extras.ui.failure import describe_failure, summarize_failure
from dijob_extras.ui.manifest import list_words
from dijob_extras.ui.memory import PageMemory
from dijob_extras.ui.states import State, StateKind, of_pod, without_pod
from dijob_extras.ui.usage import Usage, describe_use

Json = dict[str, Any]

# A page with a bar for each of thousands of ranks would be slow.
MOST_BARS: Final = 100
# This many characters are enough to find a script by its name. The limit keeps the list of jobs
# small, because the list is sent again after each change.
MOST_COMMAND: Final = 120
# If the permission to read pods is missing, the apiserver's message contains this text.
_NO_PODS: Final = 'resource "pods"'
# If a job recovers from a problem by itself, the problem's remedy begins with this word.
_NO_ACTION: Final = "nothing"
# The second half of the scheduler's message about an unschedulable pod. This half repeats the
# number of nodes, and says that no other pod could be evicted.
_PREEMPTION: Final = re.compile(r" preemption: \d+/\d+ nodes are available: [^.]*\.")


def job_row(job: Job) -> Json:
    """Return a job's row in the list."""
    status, progress = job.status, job.progress
    return {
        "namespace": job.metadata.namespace,
        "name": job.name,
        "phase": job.phase,
        "tone": choose_tone(job),
        "message": without_preemption(" ".join(job.message.split())),
        "cause": summarize_failure(job),
        "ready": count_ready(job),
        "desired": status.desired,
        "restarts": status.restarts,
        "progress": progress.line if progress else "",
        "created": job.metadata.creation_timestamp,
        "ended": status.completion_time or "",
        "owner": find_owner(job.body["metadata"]),
        **_program(job),
    }


def without_preemption(text: str) -> str:
    """Return a job's message without the scheduler's remarks on preemption."""
    return _PREEMPTION.sub("", text)


def count_ready(job: Job) -> int:
    """Return the number of Ready ranks according to the status. As on the job's page, ranks that
    will be restarted with the next peer list do not count.
    """
    restarting = len(graph.rerendezvous_ranks(job))
    return min(job.status.ready_replicas, max(0, job.status.desired - restarting))


def _program(job: Job) -> Json:
    """Return the first image of a job, the beginning of its command, and the number of its GPUs."""
    try:
        model = job.model
    except SpecError:
        return {"image": "", "command": "", "gpus": 0}
    main = model.pod_sets[0].main_container
    command = story.shorten_text(" ".join(list_words(main)), MOST_COMMAND)
    return {"image": str(main.get("image") or ""), "command": command, "gpus": model.gpus}


def find_problems(job: Job) -> list[tuple[str, str]]:
    """Return the problems as pairs: the message of the condition, and the remedy from the catalog
    of reasons.
    """
    found = []
    for one in job.status.conditions:
        reason = reasons.find_reason(one.type, one.reason)
        entry = reason.entry if reason else None
        # A reason counts as a problem only if the condition has the status that the catalog lists
        # for this reason.
        if entry and entry.kind is ReasonKind.PROBLEM and entry.status == (one.status == "True"):
            found.append((" ".join(one.message.split()), entry.remedy))
    return found


def needs_action(remedy: str) -> bool:
    """Return whether a problem's remedy asks the user to do something."""
    return not remedy.startswith(_NO_ACTION)


def choose_tone(job: Job) -> str:
    """Return the tone of a job, which decides its color: good, waiting, recovering or problem."""
    remedies = [remedy for _, remedy in find_problems(job)]
    if job.phase == Phase.FAILED:
        return "problem"
    if remedies and not job.finished:
        return "problem" if any(map(needs_action, remedies)) else "recovering"
    if job.phase == Phase.SUCCEEDED or (job.is_true("Running") and job.is_true("PeersReady")):
        return "good"
    return "waiting"


@dataclass(frozen=True)
class Seen:
    """A snapshot of a job, its time, and what the command remembers about the job. `fell`
    contains the ranks that have just failed.
    """

    now: Snapshot
    memory: PageMemory
    time: datetime
    fell: frozenset[int] = frozenset()
    usage: Usage = field(default_factory=dict)


def job_page(seen: Seen) -> Json:
    """Return the data of a job's page."""
    job, status = seen.now.job, seen.now.job.status
    ranks = _rank_rows(seen)
    # The figures, the table and the picture count the same ranks.
    ready = {row["rank"] for row in ranks if row["kind"] == StateKind.READY}
    return {
        **job_row(job),
        "ready": count_ready(job) if _hides_pods(seen) else len(ready),
        "done": sum(row["kind"] == StateKind.DONE for row in ranks),
        "uid": job.metadata.uid,
        "advice": _advise(job),
        "failure": describe_failure(job, seen.now.pods),
        "logRank": _choose_log(job, ranks),
        "figures": _figures(job),
        "deadline": _deadline(job),
        "conditions": [_condition_row(one) for one in status.conditions],
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


def _advise(job: Job) -> str:
    """Return what to do about the job's most important problem; "" if there is none."""
    # A remedy that needs an action is more important than one that needs none.
    remedies = sorted((remedy for _, remedy in find_problems(job)), key=needs_action, reverse=True)
    if not remedies:
        return ""
    if not needs_action(remedies[0]):
        return f"No action is needed{remedies[0].removeprefix(_NO_ACTION)}"
    return f"What to do: {remedies[0]}"


def _choose_log(job: Job, ranks: Sequence[Json]) -> int:
    """Return the rank whose log a reader needs first."""
    if job.phase == Phase.FAILED and job.status.first_failure:
        return job.status.first_failure.rank
    failed = (int(row["rank"]) for row in ranks if row["kind"] == StateKind.FAILED and row["pod"])
    return next(failed, 0) if job.phase == Phase.FAILED else 0


def _figures(job: Job) -> list[tuple[str, float]]:
    """Return the reported progress as labels and numbers."""
    if (known := job.progress) is None:
        return []
    pairs = (
        ("Return", known.episode_return),
        ("Iteration", known.iteration),
        ("Environment step", known.env_step),
    )
    return [(label, value) for label, value in pairs if value is not None]


def _deadline(job: Job) -> int | None:
    """Return the seconds that the job may take, or None if there is no limit."""
    try:
        return job.model.spec.active_deadline_seconds
    except SpecError:
        return None


def _condition_row(one: Condition) -> Json:
    reason = reasons.find_reason(one.type, one.reason)
    entry = reason.entry if reason else None
    known = entry is not None and entry.status == (one.status == "True")
    return {
        "type": one.type,
        "status": one.status,
        "reason": one.reason,
        "message": " ".join(one.message.split()),
        "since": one.last_transition_time,
        "problem": known and entry is not None and entry.kind is ReasonKind.PROBLEM,
    }


def _goodput(job: Job, now: datetime) -> Json | None:
    """Return how the job and each of its ranks have spent their time; None if it is unknown."""
    spent = measure_job(job, now)
    return report_data(spent, job.ranks[:MOST_BARS]) if spent else None


def _rank_rows(seen: Seen) -> list[Json]:
    """Return a row for each rank that the job wants, or that still has a pod."""
    job = seen.now.job
    pods: Mapping[int, RankPod] = {pod.rank: pod for pod in seen.now.pods}
    try:
        again, gang = graph.describe_restarts(job.model), gang_of(job.model)
    except SpecError:
        again, gang = [], None
    wanted = set(job.ranks) | pods.keys()
    return [
        {"rank": rank, "task": pods[rank].task if rank in pods else _task_name(gang, rank)}
        | _rank_row(pods.get(rank), _rank_state(rank, pods.get(rank), seen))
        | {"again": again[rank] if rank < len(again) else ""}
        | {"use": describe_use(pods[rank], seen.usage) if rank in pods else ""}
        for rank in sorted(wanted)
    ]


def _task_name(gang: Gang | None, rank: int) -> str:
    """Return the name of a rank's task; "" if the rank has none, or the spec is invalid."""
    task = gang.member(rank).task if gang else None
    return task.name if task else ""


def _rank_state(rank: int, pod: RankPod | None, seen: Seen) -> State:
    if pod is not None:
        over = seen.now.job.status.completion_time or "" if seen.now.job.finished else ""
        state = of_pod(pod, rank in seen.fell, over)
        old = state.kind is StateKind.READY and rank in graph.rerendezvous_ranks(seen.now.job)
        # The rank works, but will be restarted as soon as the next peer list is complete.
        return (
            State(StateKind.RENEWING, "Running; restarts with the next peer list") if old else state
        )
    if _hides_pods(seen):
        return State(StateKind.ABSENT, "Unknown: no permission to list pods")
    return without_pod(rank, seen.now.job.status)


def _hides_pods(seen: Seen) -> bool:
    return any(_NO_PODS in why for why in seen.now.unseen)


def _rank_row(pod: RankPod | None, state: State) -> Json:
    return {
        "kind": state.kind.value,
        "state": state.words,
        "pod": pod.name if pod else "",
        "node": pod.node if pod else "",
        "ip": pod.ip if pod else "",
        "restarts": pod.restarts if pod else 0,
        "list": pod.list_number if pod else 0,
    }
