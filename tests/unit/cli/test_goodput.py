"""`report`: the parts of a job's time, the sentence, the table, the data and the picture."""

import json
import xml.etree.ElementTree as ET
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from dijob.api.reported import Progress, count_repeated, repeated_share
from dijob.api.status import Interruption
from dijob.cli.commands import report
from dijob.cli.goodput import show
from dijob.cli.goodput.parts import (
    Kind,
    describe_interruption,
    divide_rank_time,
    divide_time,
    share_percent,
)
from dijob.cli.goodput.svg import draw_report
from dijob.client import Job
from dijob.core.report.time_spent import TimeSpent
from dijob.names import Activity
from hypothesis import given
from hypothesis import strategies as st
from manifests import dijob

SINCE = "2026-11-25T13:00:00Z"
LOST = Interruption(
    time="2026-11-25T14:02:11Z", seconds=72, reason="PodLost", lost="3", ranks="3-4"
)
CRASH = Interruption(time="2026-11-26T09:00:00Z", seconds=0, reason="Crashed", lost="0", ranks="0")


def spent(
    *interruptions: Interruption, earlier: tuple[int, int] = (0, 0), repeated: int = 36, **more: int
) -> TimeSpent:
    seconds = {Activity.RUNNING: 3384, Activity.STARTING: 144, Activity.WAITING: 0}
    seconds |= {Activity(name): number for name, number in more.items()}
    lost = sum(one.seconds for one in interruptions) + earlier[1]
    return TimeSpent(
        since=SINCE,
        activity=Activity.RUNNING,
        seconds={**seconds, Activity.RECOVERING: lost},
        repeated=repeated,
        interruptions=interruptions,
        earlier_count=earlier[0],
    )


SENTENCES: dict[str, tuple[TimeSpent, str]] = {
    "all kinds": (
        spent(LOST),
        "goodput 93 %: 4 % starting, 2 % lost rank 3 at 14:02, 1 % repeated iterations",
    ),
    "only running": (spent(repeated=0, Starting=0), "goodput 100 %"),
    "nothing yet": (
        spent(repeated=0, Starting=0, Running=0),
        "goodput: no time has been counted yet",
    ),
    "waiting, and earlier interruptions": (
        spent(earlier=(7, 3528), repeated=0, Waiting=3528 * 2),
        "goodput 24 %: 50 % waiting or suspended, 25 % 7 earlier interruptions, 1 % starting",
    ),
    "on another day": (
        spent(CRASH.model_copy(update={"seconds": 3528}), repeated=0),
        "goodput 48 %: 50 % crash of rank 0 at 2026-11-26 09:00, 2 % starting",
    ),
}


@pytest.mark.parametrize(("known", "sentence"), SENTENCES.values(), ids=SENTENCES)
def test_the_sentence_names_the_largest_part_first(known: TimeSpent, sentence: str) -> None:
    assert show.format_sentence(known) == sentence


CAUSES: dict[str, tuple[str, str, str]] = {
    "a lost rank": ("PodDeleted", "3", "lost rank 3"),
    "lost ranks": ("PodFailed", "3-4", "lost ranks 3-4"),
    "unknown ranks": ("AddressChanged", "", "lost ranks"),
    "a crash": ("Crashed", "1", "crash of rank 1"),
    "an unready rank": ("NotReady", "1", "rank 1 not Ready"),
    "a new size": ("Scaled", "", "restart with a new size"),
    "Redis": ("BrokerLost", "0-3", "lost Redis server"),
    "the list": ("ListLost", "", "lost peer list"),
    "a rule": ("FailurePolicy", "2", "restart of all ranks after a failure of rank 2"),
}


@pytest.mark.parametrize(("reason", "lost", "words"), CAUSES.values(), ids=CAUSES)
def test_an_interruption_is_described_by_its_cause(reason: str, lost: str, words: str) -> None:
    assert describe_interruption(Interruption(reason=reason, lost=lost)) == words


def test_a_rank_that_kept_running_was_not_interrupted() -> None:
    known = spent(LOST)
    kinds = {part.kind: part.seconds for part in divide_rank_time(known, 0)}
    assert Kind.LOST not in kinds
    assert kinds[Kind.RUNNING] == known.productive + LOST.seconds
    kinds = {part.kind: part.seconds for part in divide_rank_time(known, 4)}
    assert (kinds[Kind.LOST], kinds[Kind.RUNNING]) == (LOST.seconds, known.productive)


NUMBERS = st.integers(0, 10**6)


@given(
    numbers=st.tuples(NUMBERS, NUMBERS, NUMBERS),
    interruptions=st.lists(st.tuples(NUMBERS, st.sampled_from(["", "0", "1-2"])), max_size=5),
    earlier=NUMBERS,
    share=st.floats(0, 1),
)
def test_the_parts_add_up_for_the_job_and_for_each_rank(
    numbers: tuple[int, int, int],
    interruptions: list[tuple[int, str]],
    earlier: int,
    share: float,
) -> None:
    running, starting, waiting = numbers
    past = (Interruption(seconds=number, ranks=ranks) for number, ranks in interruptions)
    known = spent(
        *past,
        earlier=(1, earlier),
        repeated=int(share * running),
        Running=running,
        Starting=starting,
        Waiting=waiting,
    )
    parts = divide_time(known)
    assert sum(part.seconds for part in parts) == known.total
    assert sum(share_percent(parts)) in (0, 100)
    for rank in range(4):
        assert sum(part.seconds for part in divide_rank_time(known, rank)) == known.total


def test_the_table_lists_the_parts_their_sum_and_since_when_they_are_counted() -> None:
    lines = show.format_report(spent(LOST, CRASH), SINCE).splitlines()
    assert [line.split() for line in lines[:7]] == [
        ["TIME", "SPENT", "SECONDS", "SHARE", "BEGAN", "RANKS"],
        ["running", "3348", "93", "%"],
        ["repeated", "iterations", "36", "1", "%"],
        ["lost", "rank", "3", "72", "2", "%", LOST.time, "3-4"],
        ["starting", "144", "4", "%"],
        ["total", "3600", "100", "%", SINCE],
        [],
    ]
    assert len(lines) == 8
    (note,) = show.format_report(spent(), "2026-11-25T10:00:00Z").splitlines()[-1:]
    assert note.startswith(f"counted since {SINCE}")


def test_the_picture_has_one_bar_for_each_rank() -> None:
    drawn = ET.fromstring(draw_report("a<b", spent(LOST), range(5)))
    rects = [one for one in drawn.iter("{http://www.w3.org/2000/svg}rect") if len(one)]
    rows: dict[str, float] = {}
    for one in rects:
        rows[one.attrib["y"]] = rows.get(one.attrib["y"], 0.0) + float(one.attrib["width"])
    assert len(rows) == 5
    assert all(width == pytest.approx(800, abs=0.1) for width in rows.values())
    titles = [one[0].text or "" for one in rects]
    assert f"rank 3: 72 s lost rank 3 at {LOST.time}" in titles


def answering(monkeypatch: pytest.MonkeyPatch, status: Mapping[str, Any]) -> None:
    body = dijob("test", {"image": "x", "command": ["a"]}, replicas=2)
    body["metadata"] |= {"namespace": "ns", "uid": "u", "creationTimestamp": SINCE}
    job = Job({**body, "status": {"desired": 2, **status}})
    monkeypatch.setattr(report, "call_client", lambda where, act: job)


def test_the_command_prints_and_draws(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    figures = {"since": SINCE, "activity": "Ended", "activitySince": "2026-11-25T14:00:00Z"}
    seconds = {"runningSeconds": 90, "startingSeconds": 10}
    progress = {"iteration": 80, "repeatedIterations": 20}
    answering(monkeypatch, {"goodput": {**figures, **seconds}, "progress": progress})
    svg = tmp_path / "test.svg"
    result = CliRunner().invoke(report.report_command, ["test", "--svg", str(svg)])
    assert result.exit_code == 0
    said = "goodput 72 %: 18 % repeated iterations, 10 % starting"
    assert result.output.splitlines()[-1] == said
    assert said in svg.read_text()
    result = CliRunner().invoke(report.report_command, ["test", "-o", "json"])
    data = json.loads(result.output)
    assert (data["totalSeconds"], data["goodput"], len(data["ranks"])) == (100, 0.72, 2)


def test_an_ended_job_of_an_older_version_has_no_report(monkeypatch: pytest.MonkeyPatch) -> None:
    ends = [{"type": "Succeeded", "status": "True"}]
    answering(monkeypatch, {"phase": "Succeeded", "conditions": ends})
    result = CliRunner().invoke(report.report_command, ["test"])
    assert result.exit_code == 1
    assert isinstance(result.exception, Exception)
    assert show.NOT_COUNTED in str(result.exception)


REPEATED: dict[str, tuple[dict[str, Any], dict[str, Any], bool, int | None]] = {
    "back to a checkpoint": ({"iteration": 100}, {"iteration": 80}, True, 20),
    "a second time": (
        {"iteration": 100, "repeated_iterations": 5},
        {"iteration": 80},
        True,
        25,
    ),
    "further": ({"iteration": 100, "repeated_iterations": 5}, {"iteration": 120}, True, 5),
    "no restart": ({"iteration": 100}, {"iteration": 80}, False, None),
    "the first report": ({}, {"iteration": 80}, True, None),
    "no iterations": ({"iteration": 100}, {"env_step": 80}, True, None),
}


@pytest.mark.parametrize(("old", "new", "restarted", "number"), REPEATED.values(), ids=REPEATED)
def test_iterations_are_repeated_if_a_restarted_program_reports_a_smaller_number(
    old: dict[str, Any], new: dict[str, Any], restarted: bool, number: int | None
) -> None:
    assert count_repeated(Progress(**old), Progress(**new), restarted) == number


def test_the_share_of_repeated_iterations() -> None:
    assert repeated_share(None) == repeated_share(Progress(iteration=7)) == 0
    assert repeated_share(Progress(iteration=75, repeated_iterations=25)) == 0.25
