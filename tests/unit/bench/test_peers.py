"""The comparison with peers: what counts as a complete group, and how the table shows the runs."""

from pathlib import Path

import pytest
import yaml
from compared.di_orchestrator import DI_ORCHESTRATOR
from compared.dijob import DIJOB
from compared.entrant import RANKS
from compared.jobset import JOBSET, RELEASE
from compared.pytorchjob import PYTORCHJOB
from compared.record import LOSS, START, Connected, Results, Run, complete, middle, parse, table
from peers import entrants
from report import Machine

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
    dijob, jobset = table(found).splitlines()[2:]
    assert dijob == "| DIJob | **10.0 s**, 9.0 to 12.0 s | **4.0 s**, 4.0 to 4.0 s |"
    assert "**15.0 s**, 14.0 to 20.0 s; 1.50 of DIJob" in jobset
    assert jobset.endswith("not within 120 s (1 of 1 runs) |")


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


def test_every_entrant_runs_the_same_program_in_the_same_image() -> None:
    seen = set()
    for entrant in (DIJOB, JOBSET, PYTORCHJOB, DI_ORCHESTRATOR):
        text = yaml.safe_dump_all(entrant.job("world"))
        code, _ = yaml.safe_load_all(text)
        assert text.count("exec python3 /code/connected.py") == text.count("image: ")
        seen.add((code["data"]["connected.py"], text.count("image: dijob/ditask:") > 0))
    assert len(seen) == 1
