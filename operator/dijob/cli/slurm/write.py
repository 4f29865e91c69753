"""The DIJob as a file, with a comment for each line of the script that is not in it."""

import re
import textwrap
from itertools import groupby
from typing import Any, Final

import yaml

from dijob.cli.slurm.convert import Converted

WIDTH: Final = 110
# What kubectl reads as a number or a truth, and PyYAML does not: 1e-3, y.
_OTHERWISE: Final = re.compile(r"[-+]?\.?\d|[yYnN]$")


class _Dumper(yaml.SafeDumper):
    """PyYAML's, with lists below their key's indentation, and texts of several lines as such."""


def _text(dumper: yaml.SafeDumper, value: str) -> yaml.ScalarNode:
    style = "|" if "\n" in value else "'" if _OTHERWISE.match(value) else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", value, style=style)


_Dumper.add_representer(str, _text)


def written(name: str, made: Converted) -> str:
    """The file's text; `name` is the script's."""
    head = [f"# From {name}, by kubectl dijob from-slurm."]
    if made.notes:
        head.append("# Lines that are not in it as they were, and what to do about each:")
    for (number, text), found in groupby(made.notes, lambda note: (note.number, note.text)):
        head += ["#", f"# line {number}: {_shown(text)}"]
        for note in found:
            head += textwrap.wrap(
                note.advice,
                WIDTH,
                initial_indent="#   ",
                subsequent_indent="#   ",
                break_on_hyphens=False,
                break_long_words=False,
            )
    return "\n".join([*head, _dumped(made.job)])


def _shown(text: str) -> str:
    """A line as it is quoted: of several, the first."""
    first, newline, _ = text.partition("\n")
    return f"{first} ..." if newline else first


def _dumped(job: dict[str, Any]) -> str:
    return yaml.dump(job, Dumper=_Dumper, sort_keys=False, width=WIDTH, allow_unicode=True)
