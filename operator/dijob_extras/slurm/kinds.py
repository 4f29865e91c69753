"""Classifies those commands of a batch script that are not steps."""

import re
from typing import Final

from dijob_extras.slurm.script import COMPOUND, ScriptLine, unquote_word, words_of

_ASSIGNMENT: Final = re.compile(r"[A-Za-z_]\w*=")
SOFTWARE: Final = frozenset(
    {"module", "ml", "conda", "mamba", "micromamba", "source", ".", "spack"}
)
# Commands that do not affect the program, such as those that print the script's messages. These
# commands need no note.
NOTHING: Final = frozenset({"set", "wait", "exit", "date", "echo", "hostname", "printf", "trap"})
_PREPARE: Final = SOFTWARE | NOTHING | {"cd", "export", "mkdir", "ulimit", "unset", "eval"}


_PREFIXES: Final = frozenset({"export", "readonly", "declare"})
# A here-document, or the definition of a function.
_COMPLEX: Final = re.compile(r"<<|^\w+\s*\(\)")


def is_software(line: ScriptLine) -> bool:
    """Return whether the line loads software, which must be in the image instead."""
    return line.first in SOFTWARE or (line.first == "eval" and "conda" in line.text)


def is_compound(line: ScriptLine) -> bool:
    """Return whether the line belongs to a loop, a conditional, a function or a here-document."""
    return line.first in COMPOUND or _COMPLEX.search(line.text) is not None


def assignment_words(line: ScriptLine) -> list[str]:
    """Return the words of a line that sets variables, without `export` or similar."""
    words = words_of(line.text)
    return words[1:] if line.first in _PREFIXES else words


def is_assignment(line: ScriptLine) -> bool:
    """Return whether the line only sets variables. `A=1 program` also runs a program."""
    given = [bool(_ASSIGNMENT.match(word)) for word in assignment_words(line)]
    array = re.match(r"\w+=\(", line.text) is not None
    return array or (any(given) if line.first in _PREFIXES else bool(given) and all(given))


def calls_srun(line: ScriptLine) -> bool:
    """Return whether the line runs srun."""
    # Words such as `time`, `exec` or `A=1` can precede `srun`.
    return "srun" in map(unquote_word, words_of(line.text)[:3]) and not is_assignment(line)


def is_preparation(line: ScriptLine) -> bool:
    """Return whether the line only prepares the environment of a step."""
    return line.first in _PREPARE or is_assignment(line)
