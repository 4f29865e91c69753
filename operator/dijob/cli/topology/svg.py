"""Draws a report as an SVG: the ranks in a circle, and a line for each pair of ranks. No I/O.

The picture loads nothing from other hosts. Missing connections are dashed, so that the picture is
readable in black and white. It has a title and a description for screen readers.
"""

import math
from html import escape
from typing import Final

from dijob.cli.topology import show
from dijob.cli.topology.compare import Edge, Report
from dijob.cli.topology.expected import SERVER

_STYLE: Final = """
  text { font: 13px sans-serif; fill: #111; text-anchor: middle; }
  .up { stroke: #1b6e3c; stroke-width: 2; }
  .missing { stroke: #c00000; stroke-width: 3; stroke-dasharray: 8 5; }
  .unknown { stroke: #666; stroke-width: 2; stroke-dasharray: 2 4; }
  circle { fill: #fff; stroke: #111; stroke-width: 1.5; }
  .within { fill: none; }
"""
_RADIUS: Final = 22
Point = tuple[float, float]


def draw_report(report: Report) -> str:
    """Return the SVG document."""
    ranks = sorted({pod.rank for pod in report.pods} | set(range(report.world.ranks)))
    # The circle grows with the number of ranks, so that neighbors do not overlap.
    far = max(120.0, len(ranks) * 2.6 * _RADIUS / math.tau)
    size = 2 * far + 200
    at = _place_ranks(ranks, size, far)
    title = f"Connections of {report.job}"
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {size:.0f} {size + 40:.0f}"'
        ' role="img" aria-labelledby="title desc">',
        f'<title id="title">{escape(title)}</title>',
        f'<desc id="desc">{escape(_describe_report(report))}</desc>',
        f"<style>{_STYLE}</style>",
        *_draw_lines(report, at),
        *(_draw_rank(report, rank, at[rank]) for rank in ranks),
    ]
    if report.world.shape == "redis":
        lines.append(_draw_node("redis", at[SERVER]))
    lines.append(
        f'<text x="{size / 2:.0f}" y="{size + 20:.0f}">{escape(_format_legend(report))}</text>'
    )
    return "\n".join([*lines, "</svg>", ""])


def _place_ranks(ranks: list[int], size: float, far: float) -> dict[int, Point]:
    middle = size / 2
    angles = {rank: math.tau * i / max(len(ranks), 1) - math.pi / 2 for i, rank in enumerate(ranks)}
    places = {
        rank: (middle + far * math.cos(angle), middle + far * math.sin(angle))
        for rank, angle in angles.items()
    }
    return {**places, SERVER: (middle, middle)}


def _draw_lines(report: Report, at: dict[int, Point]) -> list[str]:
    pairs = dict[tuple[int, int], list[Edge]]()
    for edge in report.edges:
        pairs.setdefault((edge.rank, edge.to.rank), []).append(edge)
    return [_draw_line(pair, edges, at) for pair, edges in pairs.items()]


def _draw_line(pair: tuple[int, int], edges: list[Edge], at: dict[int, Point]) -> str:
    (x, y), (to_x, to_y) = at[pair[0]], at[pair[1]]
    wanted, up = sum(edge.wanted for edge in edges), sum(edge.up for edge in edges)
    missing = any(edge.missing for edge in edges)
    kind = "missing" if missing else "unknown" if up < wanted else "up"
    ends = " and ".join("redis" if rank == SERVER else f"rank {rank}" for rank in sorted(set(pair)))
    title = f"<title>{up} of {wanted} connections: {ends}</title>"
    if pair[0] == pair[1]:
        # Connections between the processes of one pod are drawn as a ring around the pod.
        ring = _RADIUS + 5
        return (
            f'<circle class="within {kind}" cx="{x:.1f}" cy="{y:.1f}" r="{ring}">{title}</circle>'
        )
    line = f'<line class="{kind}" x1="{x:.1f}" y1="{y:.1f}" x2="{to_x:.1f}" y2="{to_y:.1f}">'
    # For readers who cannot see the color, the number shows that the pair is incomplete.
    count = (
        f'<text x="{(x + to_x) / 2:.1f}" y="{(y + to_y) / 2 - 5:.1f}">{up} of {wanted}</text>'
        if up < wanted
        else ""
    )
    return f"{line}{title}</line>{count}"


def _draw_rank(report: Report, rank: int, place: Point) -> str:
    task = next((pod.task for pod in report.pods if pod.rank == rank), "")
    below = f'<text x="{place[0]:.1f}" y="{place[1] + _RADIUS + 20:.1f}">{escape(task)}</text>'
    return _draw_node(str(rank), place) + (below if task else "")


def _draw_node(label: str, place: Point) -> str:
    x, y = place
    return (
        f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{_RADIUS}"/>'
        f'<text x="{x:.1f}" y="{y + 4.5:.1f}">{escape(label)}</text>'
    )


def _describe_report(report: Report) -> str:
    # A screen reader reads the whole description, so its length is limited.
    bad = [show.in_words(edge, report) for edge in report.edges if edge.missing or edge.unknown]
    return ". ".join([show.format_summary(report), *bad[:20]])


def _format_legend(report: Report) -> str:
    return f"{show.format_summary(report)}; solid: up, dashed: missing, dotted: unknown"
