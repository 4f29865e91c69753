"""Shows the progress of a copy on stderr.

In a terminal, the progress is a single line that is overwritten. Otherwise a line is printed only
every 10 s, so that a log does not fill up.
"""

import sys
import time
from typing import Final

import click

_TERMINAL_SECONDS: Final = 0.2
_LOG_SECONDS: Final = 10.0


def format_size(count: int) -> str:
    """Format a number of bytes."""
    for unit, factor in (("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10)):
        if count >= factor:
            return f"{count / factor:.1f} {unit}"
    return f"{count} bytes"


class CopyProgress:
    """Counts bytes and prints the count. `whole` is the expected total, or 0 if the total is
    unknown.
    """

    def __init__(self, whole: int = 0) -> None:
        self._whole, self._count = whole, 0
        self._live = sys.stderr.isatty()
        self._pause = _TERMINAL_SECONDS if self._live else _LOG_SECONDS
        self._next = time.monotonic() + self._pause
        self._shown = False

    def add(self, count: int) -> None:
        """Count more bytes, and print the progress if it is due."""
        self._count += count
        if (now := time.monotonic()) >= self._next:
            self._next = now + self._pause
            self._shown = True
            click.echo(
                f"\r{self.text}\033[K" if self._live else self.text, err=True, nl=not self._live
            )

    @property
    def text(self) -> str:
        """The progress so far, such as "1.0 MiB of 4.0 MiB, 25 %"."""
        if not self._whole:
            return format_size(self._count)
        # tar's headers make the stream larger than the files, so without this limit, 100 % would be
        # shown before the copy is complete.
        share = min(99, 100 * self._count // self._whole)
        return (
            f"{format_size(min(self._count, self._whole))} of {format_size(self._whole)}, {share} %"
        )

    def end(self) -> None:
        """Erase the progress line of a terminal."""
        if self._live and self._shown:
            click.echo("\r\033[K", err=True, nl=False)
