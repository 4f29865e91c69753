"""Formats a report as a table and as data. No I/O."""

from collections.abc import Iterator
from typing import Any, Final

from dijob.api.printed import one_line
from dijob.cli.printing import format_table
from dijob.cli.topology.compare import Edge, Report
from dijob.cli.topology.expected import SERVER
from dijob.core.members import compact_ranks, format_count

# In a larger job, the table contains only the pairs with missing or unknown connections. A mesh of
# 100 ranks has 4,950 pairs, and the healthy ones are not interesting.
_MAX_ROWS: Final = 60
_MAX_LINES: Final = 100


def format_report(report: Report) -> str:
    """Format the table of rank pairs, a line per missing connection, and the summary."""
    rows: list[tuple[str, ...]] = [("FROM", "TO", "EXPECTED", "UP", "MISSING", "UNKNOWN")]
    pairs = _edges_by_pair(report)
    if len(pairs) > _MAX_ROWS:
        pairs = {pair: edges for pair, edges in pairs.items() if _is_incomplete(edges)}
    rows += [_pair_cells(report, pair, edges) for pair, edges in pairs.items()]
    lines = [format_table(rows), ""] if len(rows) > 1 else []
    bad = [edge for edge in report.edges if edge.missing or edge.unknown]
    lines += [in_words(edge, report) for edge in bad[:_MAX_LINES]]
    lines += [f"and {len(bad) - _MAX_LINES} more"] if len(bad) > _MAX_LINES else []
    if report.world.note:
        lines.append(f"note: {report.world.note}")
    return "\n".join([*lines, format_summary(report)])


def format_summary(report: Report) -> str:
    """Return the summary line."""
    world = report.world
    parts = [
        f"{report.missing} missing" if report.missing else "",
        f"{report.unknown} unknown" if report.unknown else "",
    ]
    more = "".join(f", {part}" for part in parts if part)
    least = "at least " if world.at_least else ""
    each = f"{least}{format_count(world.workers, 'process', 'processes')}"
    ranks = f"{format_count(world.ranks, 'rank')} x {each}"
    return f"{report.up} of {least}{world.total} connections up{more} ({world.shape}, {ranks})"


def in_words(edge: Edge, report: Report) -> str:
    """Describe a connection that is not up: its state, its ends and the reason."""
    state = "unknown" if edge.unknown else "missing"
    some = f" ({edge.missing} of {edge.wanted})" if edge.missing and edge.wanted > 1 else ""
    ends = f"{_format_dialler(edge, report)} -> {_format_listener(edge, report)}"
    return one_line(f"{state}{some}: {ends}" + (f": {edge.why}" if edge.why else ""))


def report_data(report: Report) -> dict[str, Any]:
    """Return the report as data, for -o json and -o yaml."""
    world = report.world
    return {
        "job": report.job,
        "topology": world.shape,
        "ranks": world.ranks,
        "parallelWorkers": world.workers,
        "parallelWorkersAssumed": world.at_least,
        "expected": world.total,
        "up": report.up,
        "missing": report.missing,
        "unknown": report.unknown,
        "whole": report.whole,
        **({"note": world.note} if world.note else {}),
        "edges": [_edge_data(edge, report) for edge in report.edges],
        "unreadable": {str(pod.rank): pod.problem for pod in report.pods if pod.sockets is None},
    }


def _edge_data(edge: Edge, report: Report) -> dict[str, Any]:
    workers = report.world.workers
    server = edge.to.rank == SERVER
    to = {"server": "redis"} if server else {"rank": edge.to.rank, "worker": edge.to.worker}
    ids = [edge.rank * workers + worker for worker in edge.workers]
    return {
        "from": {"rank": edge.rank, "workers": list(edge.workers), "nodeIds": ids},
        "to": {**to, "port": edge.to.port},
        "expected": edge.wanted,
        "up": edge.up,
        "state": "unknown" if edge.unknown else "missing" if edge.missing else "up",
        **({"why": edge.why} if edge.why else {}),
    }


def _edges_by_pair(report: Report) -> dict[tuple[int, int], list[Edge]]:
    found = dict[tuple[int, int], list[Edge]]()
    for edge in sorted(report.edges, key=lambda edge: (edge.rank, edge.to.rank)):
        found.setdefault((edge.rank, edge.to.rank), []).append(edge)
    return found


def _is_incomplete(edges: list[Edge]) -> bool:
    return any(edge.missing or edge.unknown for edge in edges)


def _pair_cells(report: Report, pair: tuple[int, int], edges: list[Edge]) -> tuple[str, ...]:
    numbers = (
        sum(edge.wanted for edge in edges),
        sum(edge.up for edge in edges),
        sum(edge.missing for edge in edges),
        sum(edge.wanted for edge in edges if edge.unknown),
    )
    return (*(rank_in_words(rank, report) for rank in pair), *map(str, numbers))


def rank_in_words(rank: int, report: Report) -> str:
    """Return the text for a rank, including its task, or for the Redis server."""
    if rank == SERVER:
        return "redis"
    tasks: Iterator[str] = (pod.task for pod in report.pods if pod.rank == rank)
    task = next(tasks, "")
    return f"rank {rank} ({task})" if task else f"rank {rank}"


def _format_dialler(edge: Edge, report: Report) -> str:
    rank = rank_in_words(edge.rank, report)
    # The processes of torch have no DI-engine node ids.
    if report.world.workers == 1 or report.world.shape == "torch":
        return rank
    ids = [edge.rank * report.world.workers + worker for worker in edge.workers]
    if len(ids) == 1:
        return f"{rank} process {edge.workers[0]} (node {ids[0]})"
    return f"{rank} processes {compact_ranks(edge.workers)} (nodes {compact_ranks(ids)})"


def _format_listener(edge: Edge, report: Report) -> str:
    rank, workers = rank_in_words(edge.to.rank, report), report.world.workers
    if edge.to.rank != SERVER and workers > 1 and report.world.shape != "torch":
        node = edge.to.rank * workers + edge.to.worker
        rank += f" process {edge.to.worker} (node {node})"
    return f"{rank} port {edge.to.port}" if edge.to.port else rank
