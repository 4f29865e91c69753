"""What has happened to a job, in the order of time: phases, lists, losses, events. Pure.

The cluster forgets: a condition knows its last change, events are gone after an hour. What the
command has seen itself (memory.py) goes before what is concluded from these.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

from dijob.api.status import Renewal
from dijob.cli.ui.memory import Memory, Step
from dijob.cli.ui.words import short
from dijob.client import Job
from dijob.client.jobs import failure_in_words
from dijob.client.reading import event_time
from dijob.core.members import expand, say
from dijob.names import Phase
from dijob.reasons import Running

MOST_EVENTS: Final = 100
_FIRST: Final = "First failure"
Event = Mapping[str, Any]


@dataclass(frozen=True)
class Item:
    """One thing that has happened."""

    time: str
    tone: str
    title: str
    text: str = ""


def told(job: Job, events: Sequence[Event], memory: Memory) -> list[dict[str, Any]]:
    """All of it, the newest last."""
    items = [*_milestones(job), *_lists(memory), *_losses(job, events), *_events(events)]
    seen = dict.fromkeys(item for item in items if item.time)
    return [asdict(item) for item in sorted(seen, key=lambda item: item.time)]


def _milestones(job: Job) -> Iterator[Item]:
    status = job.status
    yield Item(job.metadata.creation_timestamp, "plain", "Created")
    yield Item(status.suspend_time or "", "plain", "Suspended")
    yield Item(status.resume_time or "", "plain", "Resumed")
    if status.completion_time:
        tone = "good" if job.phase == Phase.SUCCEEDED else "problem"
        yield Item(status.completion_time, tone, job.phase, job.message)


def _lists(memory: Memory) -> Iterator[Item]:
    # The first one was there before the command was, who knows since when.
    for step in memory.lists[1:]:
        yield Item(step.time, "plain", f"Address list {step.value}", "is in force")


def _losses(job: Job, events: Sequence[Event]) -> Iterator[Item]:
    last, first = job.status.last_renewal, job.status.first_failure
    if last and last.time and not any(_tells_of(event, last) for event in events):
        who = say(expand(last.ranks)) if last.ranks else "all ranks"
        text = f"{last.message}; renewed: {who}" if last.message else f"renewed: {who}"
        yield Item(last.time, "problem", f"List {last.list_number} died: {last.reason}", text)
    if first and first.time:
        words = failure_in_words(first).removeprefix(f"{_FIRST}: ")
        yield Item(first.time, "problem", _FIRST, short(words))


def _tells_of(event: Event, loss: Renewal) -> bool:
    """Whether an event is about this loss: it comes after the status, within the second mostly."""
    return event.get("reason") == loss.reason and event_time(event) >= loss.time


def _events(events: Sequence[Event]) -> Iterator[Item]:
    for event in events[-MOST_EVENTS:]:
        tone = "problem" if event.get("type") == "Warning" else "good"
        time = event_time(event)
        times = int(event.get("count") or 1)
        again = f" ({times} times)" if times > 1 else ""
        said = short(str(event.get("message", "")))
        yield Item(time, tone, str(event.get("reason", "")), f"{said}{again}")


def phases(job: Job, events: Sequence[Event], memory: Memory) -> list[dict[str, str]]:
    """The job's phases, each from a time on."""
    # Of the same second, what was seen goes first: stamps are rounded down.
    steps, found = [*memory.phases, *_before(job, events)], list[Step]()
    for step in sorted((step for step in steps if step.time), key=lambda step: step.time):
        if not found or found[-1].value != step.value:
            found.append(step)
    return [asdict(step) for step in found]


def _before(job: Job, events: Sequence[Event]) -> Iterator[Step]:
    """Phases that the status and the events tell of."""
    status = job.status
    yield Step(job.metadata.creation_timestamp, Phase.PENDING)
    begun = [str(e.get("firstTimestamp") or "") for e in events if e.get("reason") == _BEGUN]
    running = job.condition("Running")
    if running and running.status == "True":
        begun.append(running.last_transition_time)
    if known := [time for time in begun if time]:
        yield Step(min(known), Phase.RUNNING)
    yield Step(status.suspend_time or "", Phase.SUSPENDED)
    yield Step(status.completion_time or "", job.phase)


# The event about a good reason has the name of its condition (core/report/summary.py).
_BEGUN: Final = Running.__name__
