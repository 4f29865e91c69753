"""The comparison with peers: what counts as a complete group, and how the table shows the runs."""

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from compared.di_orchestrator import DI_ORCHESTRATOR
from compared.dijob import DIJOB
from compared.entrant import objects
from compared.jobset import JOBSET, RELEASE
from compared.program import BEGIN, CONNECTED, RANKS, Program, Work, dqn
from compared.pytorchjob import PYTORCHJOB
from compared.record import (
    LOSS,
    START,
    Connected,
    Results,
    Run,
    Trained,
    complete,
    middle,
    parse,
    parse_dqn,
    table,
)
from jobs import DITASK
from peers import entrants
from report import Machine
from space import Body

LINE = "connected group={} rank={} world={} begun=1000.25 at={}"
MACHINE = Machine("2026-01-01", 2, 24, 0.1)


def line(group: int, rank: int, at: float = 1002.0, world: int = RANKS) -> Connected:
    return Connected(group, rank, world, 1000.25, at)


def results(*runs: Run) -> Results:
    return Results(MACHINE, {}, list(runs))


def run(entrant: str, seconds: float | None, figure: str = START) -> Run:
    return Run(entrant, figure, seconds, 120)


def test_only_the_last_connection_of_a_log_counts() -> None:
    log = f"torch warns\n{LINE.format(7, 2, 4, 1001.5)}\n{LINE.format(8, 2, 4, 1002.0)}\nTraceback"
    assert parse(log) == line(8, 2)
    assert parse("torch warns\nconnected group=7 rank") is None


def test_the_log_of_a_dqn_tells_its_role_its_first_evaluation_and_its_target() -> None:
    log = """2026-11-27T03:00:00.5Z role learner rank 0
2026-11-27T03:00:10.0Z INFO Evaluation: Train Iter(0)	Env Step(0)	Episode Return(9.400)
2026-11-27T03:00:20.0Z INFO Evaluation: Train Iter(9)	Env Step(9)	Episode Return(99.400)
"""
    begin = datetime(2026, 11, 27, 3, tzinfo=UTC).timestamp()
    assert parse_dqn(log) == Trained("learner", 0, begin + 10, None)
    end = (
        "2026-11-27T03:00:30.25Z INFO A return of 195.0 in iteration 900: the training is complete"
    )
    assert parse_dqn(log + end) == Trained("learner", 0, begin + 10, begin + 30.25)
    # Rank 4 of DI-orchestrator has no role.
    assert parse_dqn("2026-11-27T03:00:00.5Z role  rank 4") == Trained("", 4, None, None)
    assert parse_dqn("") is None


def test_a_group_is_complete_with_every_rank_once() -> None:
    whole = [line(7, rank) for rank in range(RANKS)]
    assert complete(reversed(whole), RANKS) == whole
    assert complete(whole[:3], RANKS) == []
    # DI-orchestrator gives a lost pod the next free rank.
    assert complete([*whole[:3], line(7, RANKS)], RANKS) == []
    assert complete([*whole[:3], line(7, 3, world=3)], RANKS) == []


def test_ranks_of_different_groups_are_no_group_and_the_old_group_is_none() -> None:
    mixed = [line(7, 0), line(7, 1), line(8, 2), line(8, 3)]
    assert complete(mixed, RANKS) == []
    old, new = ([line(group, rank, 1000.0 + group) for rank in range(RANKS)] for group in (7, 8))
    assert complete(old, RANKS, not_in=7) == []
    assert complete([*new, *old], RANKS) == new


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [
        ([3.0, 1.0, 2.0], 2.0),
        ([1.0, None, 3.0], 3.0),
        ([1.0, None, None], None),
        ([1.0, None], None),
        ([], None),
    ],
)
def test_a_run_that_did_not_end_is_longer_than_all_others(
    seconds: list[float | None], expected: float | None
) -> None:
    assert middle(run("JobSet", each) for each in seconds) == expected


def test_the_table_has_medians_and_ratios() -> None:
    found = results(
        *(run("DIJob", seconds) for seconds in (9.0, 10.0, 12.0)),
        *(run("JobSet", seconds) for seconds in (20.0, 14.0, 15.0)),
        run("DIJob", 4.0, LOSS),
        run("JobSet", None, LOSS),
    )
    first, second, third, fourth = (row.split(" | ") for row in table(found).splitlines()[2:])
    assert first[1:] == ["DIJob", "**10.0 s**", "9.0 to 12.0 s", "-", "-", "3 |"]
    assert second[1:] == ["JobSet", "**15.0 s**", "14.0 to 20.0 s", "-", "1.50", "3 |"]
    assert third[1:3] == ["DIJob", "**4.0 s**"]
    never = "not within 120 s"
    assert fourth[1:] == ["JobSet", never, "-", "-", "-", f"1 (1 {never}) |"]


def test_runs_are_stored_and_continued(tmp_path: Path) -> None:
    found = results(run("DIJob", 9.0), run("JobSet", None))
    found.save(tmp_path / "peers.json")
    assert Results.read(tmp_path / "peers.json") == found


def test_a_peer_that_is_not_given_is_left_out_with_a_message(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for variable in ("JOBSET_BIN", "TRAINING_OPERATOR_BIN", "DI_ORCHESTRATOR_BIN"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("JOBSET_BIN", "jobset/bin/manager")
    assert [each.name for each in entrants([])] == ["DIJob", "JobSet"]
    said = capsys.readouterr().out
    assert "TRAINING_OPERATOR_BIN is not set. To build it" in said
    assert "JOBSET_BIN" not in said
    assert RELEASE.binary == Path("jobset/bin/manager")


@pytest.mark.parametrize("program", [CONNECTED, dqn()], ids=lambda program: program.name)
def test_every_entrant_runs_the_same_program_in_the_same_image(program: Program) -> None:
    for entrant in (DIJOB, JOBSET, PYTORCHJOB, DI_ORCHESTRATOR):
        code, job = objects(entrant, Work("world", program, "/state"))
        assert list(code["data"].values()) == list(program.files.values())
        pods = list(specs(job))
        assert pods
        for pod in pods:
            (main,) = pod["containers"]
            assert (main["image"], main["command"][2].endswith(program.command)) == (DITASK, True)
            assert main["command"][2].startswith(BEGIN)


def specs(body: Any) -> Iterator[Body]:
    """Yield all pod specs in an object."""
    if isinstance(body, dict):
        if "containers" in body:
            yield body
        else:
            for each in body.values():
                yield from specs(each)
    elif isinstance(body, list):
        for each in body:
            yield from specs(each)
