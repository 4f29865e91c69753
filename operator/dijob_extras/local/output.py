"""Prints the merged output of the ranks, with colored prefixes, and writes one file per rank."""

from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TextIO

import click
from dijob.cli.errors import CliError, Exit

from dijob_extras.local.plan import Start
from dijob_extras.local.run import Print

COLOURS = (
    "cyan",
    "yellow",
    "green",
    "magenta",
    "blue",
    "bright_red",
    "bright_cyan",
    "bright_green",
)


@contextmanager
def open_printer(starts: Iterable[Start], folder: str) -> Iterator[Print]:
    """Return a function that prints a line of a rank. With None in place of a rank, it prints a
    message about the run itself.

    Each rank also gets a file in `folder`, unless `folder` is "". Raises CliError (USAGE) if a file
    cannot be written.
    """
    known = list(starts)
    width = max((len(start.title) for start in known), default=0)
    with ExitStack() as stack:
        files = {start.rank: _open_log_file(start, folder, stack) for start in known if folder}

        def show(start: Start | None, text: str) -> None:
            if start is None:
                click.echo(f"dijob: {text}", err=True)
                return
            mark = click.style(start.title.ljust(width), fg=COLOURS[start.rank % len(COLOURS)])
            click.echo(f"{mark} | {text}")
            if start.rank in files:
                # Flushed after each line, because users follow the files with `tail -f`.
                files[start.rank].write(f"{text}\n")
                files[start.rank].flush()

        yield show


def _open_log_file(start: Start, folder: str, stack: ExitStack) -> TextIO:
    path = Path(folder) / f"{start.name}.log"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        return stack.enter_context(path.open("w"))
    except OSError as error:
        raise CliError(f"cannot write {path}: {error.strerror}", Exit.USAGE) from None
