"""Finds the step of a batch script: the command of srun, or the commands if there is no srun."""

import itertools
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from dijob.cli.errors import CliError, Exit

from dijob_extras.slurm.kinds import calls_srun, is_compound, is_preparation, is_software
from dijob_extras.slurm.script import (
    Option,
    Script,
    ScriptLine,
    take_options,
    unquote_word,
    words_of,
)
from dijob_extras.slurm.tail import split_tail

# Words that only a shell interprets.
_SHELL: Final = re.compile(r"[$`|&;<>*?~]|^\w+=")
_OPENS: Final = frozenset({"for", "while", "until", "if", "case"})
_CLOSES: Final = frozenset({"done", "fi", "esac"})


@dataclass(frozen=True)
class SlurmStep:
    """One step.

    `words` is the command as written, and `tail` is the part that was cut off after it. `once` is
    true if there is no srun: Slurm then runs the command only on the first node. `script` is the
    whole script if it has several commands and no srun.
    """

    line: ScriptLine
    words: tuple[str, ...]
    options: tuple[Option, ...] = ()
    once: bool = False
    tail: str = ""
    script: str = ""

    @property
    def given(self) -> Mapping[str, Option]:
        """The options by name. If an option is given twice, its last value counts."""
        return {option.name: option for option in self.options}

    @property
    def plain_words(self) -> list[str]:
        """The words of the command, each with its quotes removed."""
        return [unquote_word(word) for word in self.words]

    def has(self, name: str) -> bool:
        """Return whether the command contains the name of a program, with or without a path."""
        return any(word.rpartition("/")[2] == name for word in self.plain_words)


@dataclass
class _Depth:
    """Counts the loops and conditionals around a line."""

    depth: int = 0
    inside: set[int] = field(default_factory=set)

    def look(self, line: ScriptLine) -> None:
        # A line that contains a whole loop also counts as inside that loop.
        words = re.findall(r"\w+", line.text)
        self.depth += line.first in _OPENS
        if self.depth:
            self.inside.add(line.number)
        self.depth -= sum(word in _CLOSES for word in words) if self.depth else 0


def find_steps(script: Script) -> tuple[SlurmStep, ...]:
    """Return each srun call in the script. Raises CliError (USAGE) if a call is inside a loop or a
    conditional.

    How often a loop runs, and whether a condition holds, is only known when the script runs.
    """
    seen, found = _Depth(), []
    for line in script.lines:
        seen.look(line)
        if not calls_srun(line):
            continue
        if line.number in seen.inside:
            raise CliError(
                f"line {line.number} calls srun inside a loop or a conditional: replace it with the"
                " single srun call that the job needs",
                Exit.USAGE,
            )
        found.append(_parse_step(line))
    return tuple(found)


def choose_step(script: Script, number: int | None) -> SlurmStep:
    """Return the step with this number (from 1). Without a number, return the only step, or the
    commands if there is no srun.
    """
    found = find_steps(script)
    if number is not None and not 1 <= number <= len(found):
        raise CliError(
            f"the script has no step {number}: it calls srun {len(found)} times", Exit.USAGE
        )
    if number is not None:
        return found[number - 1]
    if len(found) > 1:
        lines = ", ".join(str(step.line.number) for step in found)
        raise CliError(
            f"the script calls srun {len(found)} times (lines {lines}), but a DIJob runs one"
            " command: choose a call with --step, and convert each call separately",
            Exit.USAGE,
        )
    return found[0] if found else _without_srun(script)


def _parse_step(line: ScriptLine) -> SlurmStep:
    text, tail = split_tail(line.text)
    words = words_of(text)
    rest = list(itertools.dropwhile(lambda word: unquote_word(word) != "srun", words))[1:]
    options, left = take_options([unquote_word(word) for word in rest], line)
    command = rest[len(rest) - len(left) :]
    if not command:
        raise CliError(f"line {line.number}: srun has no command: add one", Exit.USAGE)
    return SlurmStep(line, tuple(command), tuple(options), tail=tail)


def _without_srun(script: Script) -> SlurmStep:
    """Return a single command of the script, or the whole script.

    If exactly one command does more than prepare the environment, and this command is not compound,
    it is returned. Otherwise, the whole script is returned.
    """
    found = [line for line in script.lines if not is_preparation(line)]
    if not found:
        raise CliError("the script runs nothing: it has no srun and no command", Exit.USAGE)
    if len(found) > 1 or is_compound(found[0]):
        return SlurmStep(found[0], (), once=True, script=_whole_script(script))
    return SlurmStep(found[0], tuple(words_of(found[0].text)), once=True)


def _whole_script(script: Script) -> str:
    """Return the script as written, without lines that load software."""
    # A line that loads software and also contains other commands is kept. The note about it says
    # that the image must contain the software.
    software = {line.number for line in script.lines if is_software(line)}
    left_out = software - {line.number for line in script.lines if not is_software(line)}
    kept = [
        text.rstrip()
        for number, text in enumerate(script.raw.splitlines(), 1)
        if number not in left_out and not text.startswith(("#!", "#SBATCH"))
    ]
    return "\n".join(kept).strip("\n")


def needs_shell(words: Sequence[str]) -> bool:
    """Return whether the command needs a shell. A word in single quotes does not need a shell."""
    return any(
        _SHELL.search(word) for word in words if not (word.startswith("'") and word.endswith("'"))
    )
