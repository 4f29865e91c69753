"""The DIJob as a file, with a comment for each line of the script that is not in it."""

import textwrap
from itertools import groupby
from typing import Any, Final

import yaml

from dijob.cli.slurm.convert import Converted
from dijob.cli.slurm.paths import foreign_paths
from dijob.client.yaml_text import Dumper

WIDTH: Final = 110
PATHS: Final = (
    "# Paths that a pod has only where its image has them, or a volume is mounted there"
    " (docs/own-code.md):"
)


def written(name: str, made: Converted) -> str:
    """The file's text; `name` is the script's."""
    head = [f"# From {name}, by kubectl dijob from-slurm."]
    if made.notes:
        head.append("# Lines that are not in it as they were, and what to do about each:")
    for (number, text), found in groupby(made.notes, lambda note: (note.number, note.text)):
        head += ["#", f"# line {number}: {_shown(text)}"]
        for note in found:
            head += _indented(note.advice)
    (container,) = made.job["spec"]["template"]["spec"]["containers"]
    if paths := foreign_paths(container):
        head += [*(["#"] if made.notes else []), PATHS, *_indented(", ".join(paths))]
    return "\n".join([*head, _dumped(made.job)])


def _indented(text: str) -> list[str]:
    return textwrap.wrap(
        text,
        WIDTH,
        initial_indent="#   ",
        subsequent_indent="#   ",
        break_on_hyphens=False,
        break_long_words=False,
    )


def _shown(text: str) -> str:
    """A line as it is quoted: of several, the first."""
    first, newline, _ = text.partition("\n")
    return f"{first} ..." if newline else first


def _dumped(job: dict[str, Any]) -> str:
    return yaml.dump(job, Dumper=Dumper, sort_keys=False, width=WIDTH, allow_unicode=True)
