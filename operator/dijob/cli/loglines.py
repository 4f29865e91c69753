"""Formats log lines with the prefix of their rank."""

from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

import click

from dijob.api.printed import coloured_line

if TYPE_CHECKING:
    from dijob.client import Line

# Red is not used, because many programs print errors in red. Black and white are not used, because
# they are invisible on some backgrounds.
COLOURS: Final = (
    "cyan",
    "yellow",
    "green",
    "magenta",
    "blue",
    "bright_cyan",
    "bright_yellow",
    "bright_green",
    "bright_magenta",
    "bright_blue",
)


@dataclass(frozen=True)
class Prefix:
    """The format of log lines.

    `width` is the number of digits of the highest rank, or 0 for no prefix if only one rank is
    shown. In a terminal, the prefix has the colour of its rank. `raw` keeps control characters,
    which a terminal would otherwise not receive.
    """

    width: int = 0
    timestamps: bool = False
    terminal: bool = False
    raw: bool = False

    def of(self, ranks: Collection[int] | None, size: int) -> "Prefix":
        """Return the format for some ranks (None for all) of a job with `size` ranks."""
        # The size is 0 until the operator has observed the job. Then assume several ranks.
        shown = len(ranks) if ranks is not None else max(size, 2)
        highest = max(ranks) if ranks else max(size - 1, 0)
        return replace(self, width=len(str(highest)) if shown > 1 else 0)

    def put(self, line: "Line") -> str:
        """Return the line with its prefix and, if wanted, its time."""
        text = coloured_line(line.text) if self.terminal and not self.raw else line.text
        stamp = f"{line.stamp} " if self.timestamps else ""
        if not self.width:
            return stamp + text
        mark = f"[{line.rank:>{self.width}}]"
        # Only the prefix gets the rank's colour, because the line may have colours of its own.
        if self.terminal:
            mark = click.style(mark, fg=COLOURS[line.rank % len(COLOURS)])
        return f"{mark} {stamp}{text}"
