"""Writes the DIJob as a file, with a comment for each line of the script that it lacks.

The notes are comments at the top of the file, and not messages on stderr, so that they are still
there when the file is edited or reviewed later.
"""

import textwrap
from itertools import groupby
from typing import Any, Final

import yaml
from dijob.client.yaml_text import Dumper

from dijob_extras.slurm.convert import Converted
from dijob_extras.slurm.paths import foreign_paths

WIDTH: Final = 110
PATHS: Final = (
    "# These paths exist in a pod only if the image contains them or a volume is mounted there"
    " (docs/own-code.md):"
)


def render_file(name: str, made: Converted) -> str:
    """Return the text of the file. `name` is the name of the script."""
    head = [f"# Converted from {name} by kubectl dijob from-slurm."]
    if made.notes:
        head.append("# These lines were changed or left out. Below each is what to do about it:")
    for (number, text), found in groupby(made.notes, lambda note: (note.number, note.text)):
        head += ["#", f"# line {number}: {_first_line(text)}"]
        for note in found:
            head += _indent_comment(note.advice)
    # The converter creates one template with one container.
    (container,) = made.job["spec"]["template"]["spec"]["containers"]
    if paths := foreign_paths(container):
        head += [*(["#"] if made.notes else []), PATHS, *_indent_comment(", ".join(paths))]
    return "\n".join([*head, _dump_job(made.job)])


def _indent_comment(text: str) -> list[str]:
    return textwrap.wrap(
        text,
        WIDTH,
        initial_indent="#   ",
        subsequent_indent="#   ",
        break_on_hyphens=False,
        break_long_words=False,
    )


def _first_line(text: str) -> str:
    """Return a line as it is quoted: the first one, if the command has several."""
    first, newline, _ = text.partition("\n")
    return f"{first} ..." if newline else first


def _dump_job(job: dict[str, Any]) -> str:
    return yaml.dump(job, Dumper=Dumper, sort_keys=False, width=WIDTH, allow_unicode=True)
