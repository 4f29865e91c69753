"""Expected failures, recovery times and verdicts of `make chaos`."""

from collections.abc import Sequence
from dataclasses import replace

import pytest
from faults.real_pods.charges import Done, charges
from faults.real_pods.healing import Healed, Look, healed
from faults.real_pods.kinds import KINDS
from faults.real_pods.plan import OPERATORS, Fault
from faults.real_pods.shapes import ALL
from faults.real_pods.table import ALONE, BESIDE, Result, joined, markdown, rows


def done(
    kind: str, target: str, began: float = 0.0, seconds: float = 0.0, missed: str = ""
) -> Done:
    return Done(1, Fault(0.0, kind, target, seconds), began, began + seconds, missed=missed)


KILLED, LAUNCHER = done("program killed", "mesh-1"), done("launcher killed", "mesh-2")
DELETED = done("pod deleted", "mesh-0")


@pytest.mark.parametrize(
    ("wave", "bounds"),
    [
        ([], (0, 0)),
        ([DELETED], (0, 0)),
        ([KILLED], (1, 1)),
        ([KILLED, done("program killed", "star-1")], (1, 1)),
        ([KILLED, done("operator killed", OPERATORS)], (1, 1)),
        ([KILLED, DELETED], (0, 1)),
        ([KILLED, LAUNCHER], (0, 2)),
        ([KILLED, done("containerd killed", "node-1")], (0, 1)),
        ([KILLED, done("pod deleted", "mesh-0", missed="404")], (1, 1)),
        ([done("program killed", "mesh-1", missed="no program")], (0, 0)),
        ([done("sandbox killed", "mesh-1"), done("node lost", "node-1")], (0, 0)),
    ],
)
def test_failures_of_a_jobs_programs_count(wave: Sequence[Done], bounds: tuple[int, int]) -> None:
    assert charges(ALL, wave, "mesh") == bounds


def test_the_loss_of_a_redis_server_does_not_count() -> None:
    assert charges(ALL, [done("program killed", "redis-mq")], "redis") == (0, 0)
    assert charges(ALL, [done("program killed", "redis-1")], "redis") == (1, 1)


def test_a_failure_due_to_an_undetected_loss_may_count_with_fixed_membership() -> None:
    lost = [done("node lost", "node-1")]
    assert charges(ALL, lost, "torch") == (0, 1)
    assert charges(ALL, lost, "mesh") == (0, 0)
    assert charges(ALL, [done("pod deleted", "torch-1")], "torch") == (0, 0)


EVERY = frozenset(shape.name for shape in ALL)
LOOKS = [
    Look(0.0, EVERY, "a"),
    Look(1.2, EVERY - {"mesh"}, "a"),
    Look(2.4, EVERY, "b"),
    Look(3.6, EVERY - {"star"}, "b"),
    Look(4.8, EVERY, "c"),
]


@pytest.mark.parametrize(
    ("fault", "seconds"),
    [
        (done("pod deleted", "mesh-0", 1.0), 1.4),
        (done("pod deleted", "star-0", 1.0), 0.2),
        (done("kubelet killed", "node-1", 0.5, 3.0), 1.3),
        (done("node lost", "node-1", 1.0, 2.0), 1.4),
        (done("pod deleted", "mesh-0", 4.9), None),
        (done("leader killed", OPERATORS, 1.0), 1.4),
        (done("leader killed", OPERATORS, 2.0), 2.8),
        (done("leader killed", OPERATORS, 4.0), None),
    ],
)
def test_the_recovery_time_ends_with_the_first_healthy_check(
    fault: Done, seconds: float | None
) -> None:
    assert healed(ALL, fault, LOOKS).seconds == seconds


def a_result(seconds: Sequence[float | None]) -> Result:
    result = Result(1, 1.0, waves=1)
    result.heard(Healed(DELETED, one) for one in seconds)
    return result


@pytest.mark.parametrize(
    ("seconds", "good"),
    [([3.0, 5.0], True), ([3.0, 999.0], False), ([70.0, 71.0], False), ([3.0, None], False)],
)
def test_a_row_of_faults_has_a_bound_for_the_median_and_the_longest(
    seconds: Sequence[float | None], good: bool
) -> None:
    (row,) = rows(a_result(seconds))
    assert row.good is good
    assert row.words == "pod deleted"


def test_recoveries_during_a_node_loss_are_counted_separately() -> None:
    result = a_result([2.0])
    result.heard([Healed(DELETED, 130.0), Healed(done("node lost", "node-1"), 140.0)])
    assert [(row.words, row.count, row.measured, row.good) for row in rows(result)] == [
        ("pod deleted", "2", "median 2.0 s, max 2.0 s", True),
        ("node lost", "1", "median 140.0 s, max 140.0 s", True),
        (BESIDE, "1", "median 130.0 s, max 130.0 s", True),
    ]


def test_faults_of_a_leader_without_a_standby_are_counted_separately() -> None:
    result = a_result([])
    kill = done("leader killed", OPERATORS, 1.0)
    result.heard([Healed(kill, 2.0), Healed(replace(kill, alone=True), 17.0)])
    assert [(row.words, row.count, row.measured, row.good) for row in rows(result)] == [
        ("leader killed", "2", "median 2.0 s, max 2.0 s", True),
        (ALONE, "1", "median 17.0 s, max 17.0 s", True),
    ]


def test_faults_without_a_target_are_counted_separately() -> None:
    result = a_result([2.0])
    result.heard([Healed(done("pod deleted", "mesh-1", missed="404"), 0.0)])
    (row,) = rows(result)
    assert (row.count, row.measured) == ("1 (1 missed)", "median 2.0 s, max 2.0 s")


def test_any_violation_exceeds_its_bound() -> None:
    result = Result(1, 1.0)
    result.checked("edges", [], 5)
    result.checked("charges", ["mesh: 1 charged, not 0 to 0"], 5)
    assert [(row.words, row.good) for row in rows(result)] == [("edges", True), ("charges", False)]
    assert "| charges | 5 | 1 wrong | 0 | MISSED |" in markdown(rows(result))


def test_a_full_run_must_include_every_kind() -> None:
    result = Result(1, 10.0)
    result.heard([Healed(DELETED, 2.0)])
    row = next(row for row in rows(result) if row.words == "faults that never hit a target")
    assert not row.good
    assert row.measured.startswith(f"{len(KINDS) - 1}: ")


def test_runs_are_joined_and_kept_as_json() -> None:
    first, second = a_result([2.0, None]), a_result([4.0])
    first.checked("edges", ["x"], 3)
    second.checked("edges", [], 2)
    assert Result.of(first.as_json()) == first
    both = joined([first, second])
    kind = both.kinds["pod deleted"]
    assert (kind.done, kind.seconds, kind.never, both.waves) == (3, [2.0, 4.0], 1, 2)
    assert (both.checks["edges"].looked, both.checks["edges"].wrong) == (5, ["x"])
