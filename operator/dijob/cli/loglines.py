"""How a line of a rank's log is shown."""

from collections.abc import Collection
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import click

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
    """What stands before each line: nothing where there is one rank only."""

    width: int
    timestamps: bool = False

    @staticmethod
    def of(ranks: Collection[int] | None, size: int, timestamps: bool) -> "Prefix":
        """The prefix for these ranks (None: all) of a job of this size."""
        shown = len(ranks) if ranks is not None else max(size, 2)
        highest = max(ranks) if ranks else max(size - 1, 0)
        return Prefix(len(str(highest)) if shown > 1 else 0, timestamps)

    def put(self, line: "Line") -> str:
        """The line with its prefix, in its rank's colour; click takes colours out of pipes."""
        stamp = f"{line.stamp} " if self.timestamps else ""
        if not self.width:
            return stamp + line.text
        mark = click.style(f"[{line.rank:>{self.width}}]", fg=COLOURS[line.rank % len(COLOURS)])
        return f"{mark} {stamp}{line.text}"
