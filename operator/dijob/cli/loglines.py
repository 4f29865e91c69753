"""How a line of a rank's log is shown."""

from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

import click

from dijob.api.printed import coloured

if TYPE_CHECKING:
    from dijob.client import Line

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
    """How lines are shown. `width` is that of the ranks' numbers; 0 if one rank is shown, without
    prefix. In a terminal the prefix has its rank's colour. `raw` keeps each line as the program
    has printed it, with all that a terminal obeys.
    """

    width: int = 0
    timestamps: bool = False
    terminal: bool = False
    raw: bool = False

    def of(self, ranks: Collection[int] | None, size: int) -> "Prefix":
        """The same for these ranks (None: all) of a job of this size."""
        shown = len(ranks) if ranks is not None else max(size, 2)
        highest = max(ranks) if ranks else max(size - 1, 0)
        return replace(self, width=len(str(highest)) if shown > 1 else 0)

    def put(self, line: "Line") -> str:
        """The line with its prefix."""
        text = coloured(line.text) if self.terminal and not self.raw else line.text
        stamp = f"{line.stamp} " if self.timestamps else ""
        if not self.width:
            return stamp + text
        mark = f"[{line.rank:>{self.width}}]"
        if self.terminal:
            mark = click.style(mark, fg=COLOURS[line.rank % len(COLOURS)])
        return f"{mark} {stamp}{text}"
