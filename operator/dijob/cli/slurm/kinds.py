"""What kinds of commands a batch script has besides its steps."""

import re
from typing import Final

from dijob.cli.slurm.script import Line, words_of

_ASSIGNMENT: Final = re.compile(r"[A-Za-z_]\w*=")
SOFTWARE: Final = frozenset(
    {"module", "ml", "conda", "mamba", "micromamba", "source", ".", "spack"}
)
# What needs nothing in a pod: the script's own bookkeeping.
NOTHING: Final = frozenset({"set", "wait", "exit", "date", "echo", "hostname", "printf", "trap"})
_PREPARE: Final = SOFTWARE | NOTHING | {"cd", "export", "mkdir", "ulimit", "unset", "eval"}


def assigns(line: Line) -> bool:
    """Whether the line sets variables, and runs nothing."""
    words = words_of(line.text)
    exported = line.first == "export"
    given = [bool(_ASSIGNMENT.match(word)) for word in words[exported:]]
    array = re.match(r"\w+=\(", line.text) is not None
    return array or (any(given) if exported else bool(given) and all(given))


def is_preparation(line: Line) -> bool:
    """Whether the line prepares a step, and is none itself."""
    return line.first in _PREPARE or assigns(line)
