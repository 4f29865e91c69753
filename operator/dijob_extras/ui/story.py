"""Builds the history of a job: phases, peer lists, losses and events, ordered by time. No I/O.

The cluster keeps little of this history: a condition records only its last change, and events are
deleted after an hour. What the command itself has seen (memory.py) takes precedence over
conclusions from conditions and events.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

from dijob.api.printed import one_line
from dijob.api.status import Renewal
from dijob.client import Job
from dijob.client.jobs import failure_in_words
from dijob.client.reading import event_time
from dijob.core.members import format_ranks, parse_ranks
from dijob.names import Phase
from dijob.reasons import Running

from dijob_extras.ui.memory import PageMemory, SeenValue

_MOST_CHARACTERS: Final = 300
MOST_EVENTS: Final = 100
_FIRST: Final = "First failure"
Event = Mapping[str, Any]


@dataclass(frozen=True)
class StoryItem:
    """An entry of the history."""

    time: str
    tone: str
    title: str
    text: str = ""


def build_history(job: Job, events: Sequence[Event], memory: PageMemory) -> list[dict[str, Any]]:
    """Return the history, oldest first."""
    items = [
        *_transition_items(job),
        *_peer_list_items(memory),
        *_failure_items(job, events),
        *_event_items(events),
    ]
    seen = dict.fromkeys(item for item in items if item.time)
    return [asdict(item) for item in sorted(seen, key=lambda item: item.time)]


def _transition_items(job: Job) -> Iterator[StoryItem]:
    status = job.status
    yield StoryItem(job.metadata.creation_timestamp, "plain", "Created")
    yield StoryItem(status.suspend_time or "", "plain", "Suspended")
    yield StoryItem(status.resume_time or "", "plain", "Resumed")
    if status.completion_time:
        tone = "good" if job.phase == Phase.SUCCEEDED else "problem"
        yield StoryItem(status.completion_time, tone, job.phase, job.message)


def _peer_list_items(memory: PageMemory) -> Iterator[StoryItem]:
    # The first peer list was active before the command first saw the job, so its time is unknown.
    for step in memory.lists[1:]:
        yield StoryItem(step.time, "plain", f"Peer list revision {step.value}", "is active")


def _failure_items(job: Job, events: Sequence[Event]) -> Iterator[StoryItem]:
    last, first = job.status.last_renewal, job.status.first_failure
    if last and last.time and not any(_is_about(event, last) for event in events):
        lost = parse_ranks(last.ranks)
        ranks = format_ranks(lost) if lost else "all ranks"
        text = f"{ranks} {'restarts' if len(lost) == 1 else 'restart'} with the next peer list"
        text = f"{last.message}; {text}" if last.message else text
        title = f"Peer list revision {last.list_number} is stale: {last.reason}"
        yield StoryItem(last.time, "problem", title, text)
    if first and first.time:
        words = failure_in_words(first).removeprefix(f"{_FIRST}: ")
        yield StoryItem(first.time, "problem", _FIRST, shorten_text(words))


def _is_about(event: Event, loss: Renewal) -> bool:
    """Return whether an event is about this loss. The operator publishes such an event after it has
    written the status.
    """
    return event.get("reason") == loss.reason and event_time(event) >= loss.time


def _event_items(events: Sequence[Event]) -> Iterator[StoryItem]:
    for event in events[-MOST_EVENTS:]:
        tone = "problem" if event.get("type") == "Warning" else "good"
        time = event_time(event)
        times = int(event.get("count") or 1)
        again = f" ({times} times)" if times > 1 else ""
        message = shorten_text(str(event.get("message", "")))
        yield StoryItem(time, tone, str(event.get("reason", "")), f"{message}{again}")


def list_phases(job: Job, events: Sequence[Event], memory: PageMemory) -> list[dict[str, str]]:
    """Return the job's phases, each with its start."""
    # If two phases have the same time, the one that the command has observed comes before the
    # inferred one. The time of an inferred phase comes from the job or its events, and is rounded
    # down. So the inferred phase usually began later than the observed one.
    steps, found = [*memory.phases, *_infer_phases(job, events)], list[SeenValue]()
    for step in sorted((step for step in steps if step.time), key=lambda step: step.time):
        # Both sources can contain the same phase with slightly different start times. Only the
        # earlier entry is kept.
        if not found or found[-1].value != step.value:
            found.append(step)
    return [asdict(step) for step in found]


def _infer_phases(job: Job, events: Sequence[Event]) -> Iterator[SeenValue]:
    """Yield the phases that can be inferred from the status and the events."""
    status = job.status
    yield SeenValue(job.metadata.creation_timestamp, Phase.PENDING)
    begun = [str(e.get("firstTimestamp") or "") for e in events if e.get("reason") == _BEGUN]
    running = job.condition("Running")
    if running and running.status == "True":
        begun.append(running.last_transition_time)
    if known := [time for time in begun if time]:
        yield SeenValue(min(known), Phase.RUNNING)
    yield SeenValue(status.suspend_time or "", Phase.SUSPENDED)
    yield SeenValue(status.completion_time or "", job.phase)


# When a condition becomes True, the reason of the event is the condition's type
# (core/report/summary.py).
_BEGUN: Final = Running.__name__


def shorten_text(text: str, most: int = _MOST_CHARACTERS) -> str:
    """Return the beginning of a text, as one line."""
    line = one_line(text)
    return line if len(line) <= most else f"{line[: most - 1]}…"
