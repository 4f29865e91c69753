"""N1: `topology` with a number of processes per pod that only the program knows."""

import pytest
from dijob.api.parse import parse_job
from dijob.cli.topology import show
from dijob.cli.topology.compare import compare_connections
from dijob.cli.topology.expected import reported_world
from dijob.cli.topology.sockets import parse_sockets
from manifests import dijob


@pytest.mark.parametrize(
    ("reported", "said", "note"),
    [
        ({}, "0 of at least 3 connections up, 3 missing (mesh, 3 ranks x at least 1 process)", ""),
        (
            {0: 2},
            "0 of at least 15 connections up, 15 missing (mesh, 3 ranks x at least 2 processes)",
            "",
        ),
        (
            {0: 2, 1: 2, 2: 2},
            "0 of 15 connections up, 15 missing (mesh, 3 ranks x 2 processes)",
            "",
        ),
        ({0: 1, 1: 1, 2: 1}, "0 of 3 connections up, 3 missing (mesh, 3 ranks x 1 process)", ""),
        (
            {0: 1, 1: 2, 2: 2},
            "0 of 15 connections up, 15 missing (mesh, 3 ranks x 2 processes)",
            "2 processes expected in each rank, but found: rank 0: 1 process; ranks 1-2: 2"
            " processes",
        ),
    ],
    ids=["none", "one rank", "all", "one process", "they differ"],
)
def test_the_processes_that_only_the_program_knows(
    reported: dict[int, int], said: str, note: str
) -> None:
    """N1: the script calls Parallel.runner(n_parallel_workers=2)."""
    body = dijob("test", {"image": "x", "command": ["python3", "main.py"]}, replicas=3)
    shown = compare_connections("test", reported_world(parse_job(body), reported), [])
    assert show.format_report(shown).splitlines()[-1] == said
    assert shown.world.note == note


def test_a_number_that_the_job_states_is_not_asked_for() -> None:
    """N1."""
    for spec in ({"parallelWorkers": 1}, {"command": ["ditask", "--package", "a"]}):
        main = {"image": "x", "command": spec.pop("command", ["a"])}
        made = parse_job(dijob("test", main, replicas=3, **spec))
        world = reported_world(made, {0: 2})
        assert (world.workers, world.at_least) == (1, False)


@pytest.mark.parametrize(
    ("text", "workers"),
    [("parallel-workers 2", 2), ("", None), ("parallel-workers 0", None)]
    + [(f"parallel-workers {text}", None) for text in ("65", "9" * 30, "x", "\N{SUPERSCRIPT TWO}")],
)
def test_the_number_that_a_pod_reports(text: str, workers: int | None) -> None:
    """N1: a tenant can write any number there."""
    assert parse_sockets(f"{text}\n/proc/1/fd:\n").workers == workers
