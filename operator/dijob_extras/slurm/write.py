"""Writes the DIJob as a file, with a comment for each line of the script that has no counterpart.

The notes are comments at the top of the file, not messages on stderr. So they are still available
when the file is edited or reviewed later.
"""

import re
import textwrap
from collections.abc import Iterator, Mapping
from itertools import groupby
from typing import Any, Final

import yaml
from dijob.client.yaml_text import Dumper

from dijob_extras.slurm.convert import Converted

WIDTH: Final = 110
PATHS: Final = (
    "# These paths exist in a pod only if the image contains them or a volume is mounted there"
    " (docs/own-code.md):"
)


def render_file(name: str, made: Converted) -> str:
    """Return the text of the file. `name` is the name of the script."""
    head = [f"# Converted from {name} by kubectl dijob from-slurm."]
    if made.notes:
        head.append("# These lines were changed or left out. Each is followed by advice:")
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
    """Return the first line of a command, with "..." at the end if more lines follow."""
    first, newline, _ = text.partition("\n")
    return f"{first} ..." if newline else first


def _dump_job(job: dict[str, Any]) -> str:
    return yaml.dump(job, Dumper=Dumper, sort_keys=False, width=WIDTH, allow_unicode=True)


# A path begins with / or ~/, and stands at the beginning of a word or of the value in NAME=VALUE.
# Two slashes belong to a URL, not to a path.
_PATH: Final = re.compile(r"""(?:^|(?<=[\s='":,(]))(?:~/|/(?!/))[\w./@%+~-]*[\w~]""")
# The top-level folders that images usually contain.
_OWN: Final = frozenset(
    ("bin", "dev", "etc", "lib", "lib64", "opt", "proc", "run", "sbin", "sys", "tmp", "usr", "var")
)


def foreign_paths(container: Mapping[str, Any]) -> list[str]:
    """Return the paths outside an image's usual folders, except those below another such path."""
    found = dict.fromkeys(
        path
        for text in _container_texts(container)
        for path in _PATH.findall(text)
        if path.strip("/").split("/")[0] not in _OWN
    )
    return [path for path in found if not any(path.startswith(f"{other}/") for other in found)]


def _container_texts(container: Mapping[str, Any]) -> Iterator[str]:
    yield container.get("workingDir") or ""
    yield from container.get("command") or ()
    yield from container.get("args") or ()
    yield from (one["value"] for one in container.get("env") or ())
