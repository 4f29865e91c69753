"""Draws the report on a job's time as an SVG: one bar per rank. No I/O.

The picture loads nothing from other hosts. Some kinds of time are drawn with patterns, so that the
picture is readable in black and white. It has a title and a description for screen readers.
"""

from html import escape
from typing import Final

from dijob.cli.goodput.parts import Kind, TimePart, divide_rank_time
from dijob.cli.goodput.show import format_sentence
from dijob.core.report.time_spent import TimeSpent

_STYLE: Final = """
  text { font: 13px sans-serif; fill: #111; }
  .running { fill: #1b6e3c; }
  .repeated { fill: url(#dots); }
  .lost { fill: url(#stripes); }
  .starting { fill: #e0a100; }
  .waiting { fill: #b8b8b8; }
"""
_PATTERNS: Final = (
    '<defs><pattern id="stripes" width="6" height="6" patternUnits="userSpaceOnUse"'
    ' patternTransform="rotate(45)"><rect width="6" height="6" fill="#fff"/>'
    '<rect width="3" height="6" fill="#c00000"/></pattern>'
    '<pattern id="dots" width="6" height="6" patternUnits="userSpaceOnUse">'
    '<rect width="6" height="6" fill="#fff"/><circle cx="3" cy="3" r="2" fill="#1b6e3c"/>'
    "</pattern></defs>"
)
_LEFT: Final = 90
_WIDTH: Final = 800
_ROW: Final = 24
_TOP: Final = 34


def draw_report(job: str, spent: TimeSpent, ranks: range) -> str:
    """Return the SVG document."""
    sentence = format_sentence(spent)
    height = _TOP + _ROW * len(ranks) + 40
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_LEFT + _WIDTH + 20} {height}"'
        ' role="img" aria-labelledby="title desc">',
        f'<title id="title">{escape(f"Time of {job} by rank")}</title>',
        f'<desc id="desc">{escape(sentence)}</desc>',
        f"<style>{_STYLE}</style>",
        _PATTERNS,
        f'<text x="8" y="20">{escape(sentence)}</text>',
    ]
    for at, rank in enumerate(ranks):
        lines += _draw_bar(rank, divide_rank_time(spent, rank), _TOP + at * _ROW, spent.total)
    lines += _draw_legend(height - 22)
    return "\n".join([*lines, "</svg>", ""])


def _draw_bar(rank: int, parts: list[TimePart], y: int, total: int) -> list[str]:
    lines, x = [f'<text x="8" y="{y + 15}">rank {rank}</text>'], float(_LEFT)
    for part in parts:
        width = part.seconds / total * _WIDTH if total else 0.0
        if width:
            began = f" at {part.began}" if part.began else ""
            title = escape(f"rank {rank}: {part.seconds} s {part.label}{began}")
            lines.append(
                f'<rect class="{part.kind}" x="{x:.2f}" y="{y}" width="{width:.2f}"'
                f' height="{_ROW - 6}"><title>{title}</title></rect>'
            )
        x += width
    return lines


def _draw_legend(y: int) -> list[str]:
    lines = []
    for at, kind in enumerate(Kind):
        x = _LEFT + at * 110
        lines.append(f'<rect class="{kind}" x="{x}" y="{y}" width="14" height="14"/>')
        lines.append(f'<text x="{x + 20}" y="{y + 12}">{kind}</text>')
    return lines
