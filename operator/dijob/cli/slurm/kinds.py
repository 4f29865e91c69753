"""What kinds of commands a batch script has besides its steps."""

import re
from typing import Final

from dijob.cli.slurm.script import COMPOUND, Line, plain, words_of

_ASSIGNMENT: Final = re.compile(r"[A-Za-z_]\w*=")
SOFTWARE: Final = frozenset(
    {"module", "ml", "conda", "mamba", "micromamba", "source", ".", "spack"}
)
# What needs nothing in a pod: the script's own bookkeeping.
NOTHING: Final = frozenset({"set", "wait", "exit", "date", "echo", "hostname", "printf", "trap"})
_PREPARE: Final = SOFTWARE | NOTHING | {"cd", "export", "mkdir", "ulimit", "unset", "eval"}


_PREFIXES: Final = frozenset({"export", "readonly", "declare"})
_COMPLEX: Final = re.compile(r"<<|^\w+\s*\(\)")


def is_software(line: Line) -> bool:
    """Whether the line brings software that an image has."""
    return line.first in SOFTWARE or (line.first == "eval" and "conda" in line.text)


def is_compound(line: Line) -> bool:
    """Whether the line is a part of more than one command: a loop, a function, a here-document."""
    return line.first in COMPOUND or _COMPLEX.search(line.text) is not None


def assigned(line: Line) -> list[str]:
    """The words of a line that sets variables, without `export` and the like."""
    words = words_of(line.text)
    return words[1:] if line.first in _PREFIXES else words


def assigns(line: Line) -> bool:
    """Whether the line sets variables, and runs nothing."""
    given = [bool(_ASSIGNMENT.match(word)) for word in assigned(line)]
    array = re.match(r"\w+=\(", line.text) is not None
    return array or (any(given) if line.first in _PREFIXES else bool(given) and all(given))


def calls_srun(line: Line) -> bool:
    """Whether the line is a step."""
    return "srun" in map(plain, words_of(line.text)[:3]) and not assigns(line)


def is_preparation(line: Line) -> bool:
    """Whether the line prepares a step, and is none itself."""
    return line.first in _PREPARE or assigns(line)
