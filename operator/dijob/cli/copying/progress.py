"""How far a copy is, on stderr: in a terminal a line that is written over, else one at times."""

import sys
import time
from typing import Final

import click

_TERMINAL_SECONDS: Final = 0.2
_PLAIN_SECONDS: Final = 10.0


def size(count: int) -> str:
    """Bytes in the unit that fits."""
    for unit, factor in (("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10)):
        if count >= factor:
            return f"{count / factor:.1f} {unit}"
    return f"{count} bytes"


class Progress:
    """Counts bytes, and says them. `whole` is how many there will be, 0 where that is not known."""

    def __init__(self, whole: int = 0) -> None:
        self._whole, self._count = whole, 0
        self._live = sys.stderr.isatty()
        self._pause = _TERMINAL_SECONDS if self._live else _PLAIN_SECONDS
        self._next = time.monotonic() + self._pause
        self._shown = False

    def add(self, count: int) -> None:
        """So many more have gone."""
        self._count += count
        if (now := time.monotonic()) >= self._next:
            self._next = now + self._pause
            self._shown = True
            click.echo(
                f"\r{self.text}\033[K" if self._live else self.text, err=True, nl=not self._live
            )

    @property
    def text(self) -> str:
        """How far it is."""
        if not self._whole:
            return size(self._count)
        # The stream is some more than the files.
        share = min(99, 100 * self._count // self._whole)
        return f"{size(min(self._count, self._whole))} of {size(self._whole)}, {share} %"

    def end(self) -> None:
        """Nothing of it stays in a terminal."""
        if self._live and self._shown:
            click.echo("\r\033[K", err=True, nl=False)
