"""The step of a batch script: what srun runs, or the command where there is no srun."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from dijob.cli.errors import CliError, Exit
from dijob.cli.slurm.kinds import assigns, is_preparation
from dijob.cli.slurm.script import Line, Option, Script, plain, take_options, words_of

# What belongs to srun's own output, and to the script that waits: it is no part of the command.
_TAIL: Final = re.compile(
    r"(\s*(&>>?\s*[^\s&<>|]+|\d?>>?\s*(&\d|[^\s&<>|]+)|\|\s*tee\s[^|]*|&&\s*wait|&))+\s*$"
)
# The words of a command that need a shell.
_SHELL: Final = re.compile(r"[$`|&;<>*?~]|^\w+=")
_OPENS: Final = frozenset({"for", "while", "until", "if", "case"})
_CLOSES: Final = frozenset({"done", "fi", "esac"})


@dataclass(frozen=True)
class Step:
    """One step. `words` are those of the command as they are written; `once` where it has no srun,
    and so runs on the first node alone. `tail` is what was cut off.
    """

    line: Line
    words: tuple[str, ...]
    options: tuple[Option, ...] = ()
    once: bool = False
    tail: str = ""

    @property
    def given(self) -> Mapping[str, Option]:
        """The last of each option."""
        return {option.name: option for option in self.options}

    @property
    def plain_words(self) -> list[str]:
        """The command's words without quotes."""
        return [plain(word) for word in self.words]

    def has(self, name: str) -> bool:
        """Whether the command has a word that ends in this program's name."""
        return any(word.rpartition("/")[2] == name for word in self.plain_words)


@dataclass
class _Depth:
    """How many loops and conditions a line is in."""

    depth: int = 0
    inside: set[int] = field(default_factory=set)

    def look(self, line: Line) -> None:
        words = re.findall(r"\w+", line.text)
        self.depth += line.first in _OPENS
        if self.depth:
            self.inside.add(line.number)
        self.depth -= sum(word in _CLOSES for word in words) if self.depth else 0


def steps(script: Script) -> tuple[Step, ...]:
    """Every srun of the script, in order. CliError (USAGE) for one in a loop or a condition."""
    seen, found = _Depth(), []
    for line in script.lines:
        seen.look(line)
        words = line.text.split()
        if "srun" not in words[:3] or assigns(line):
            continue
        if line.number in seen.inside:
            raise CliError(
                f"line {line.number} calls srun in a loop or a condition: write the one call that"
                " the job is about.",
                Exit.USAGE,
            )
        found.append(_step(line))
    return tuple(found)


def chosen(script: Script, number: int | None) -> Step:
    """The step of this number (from 1 on), else the only one, else the commands without srun."""
    found = steps(script)
    if number is not None and not 1 <= number <= len(found):
        raise CliError(
            f"the script has {len(found)} calls of srun, so no step {number}.", Exit.USAGE
        )
    if number is not None:
        return found[number - 1]
    if len(found) > 1:
        lines = ", ".join(str(step.line.number) for step in found)
        raise CliError(
            f"the script calls srun {len(found)} times (lines {lines}), and all pods of a DIJob run"
            " one command: choose one of them with --step, and make a DIJob of each.",
            Exit.USAGE,
        )
    return found[0] if found else _without_srun(script)


def _step(line: Line) -> Step:
    text, tail = line.text, ""
    if match := _TAIL.search(text):
        text, tail = text[: match.start()], match[0].strip()
    words = words_of(text)
    at = [plain(word) for word in words].index("srun")
    rest = words[at + 1 :]
    options, left = take_options([plain(word) for word in rest], line)
    command = rest[len(rest) - len(left) :]
    if not command:
        raise CliError(f"line {line.number}: srun has no command.", Exit.USAGE)
    return Step(line, tuple(command), tuple(options), tail=tail)


def _without_srun(script: Script) -> Step:
    """The last command that is no preparation."""
    found = [line for line in script.lines if not is_preparation(line)]
    if not found:
        raise CliError("the script runs nothing: there is no srun and no command.", Exit.USAGE)
    return Step(found[-1], tuple(words_of(found[-1].text)), once=True)


def needs_shell(words: Sequence[str]) -> bool:
    """Whether a shell has to read the command."""
    return any(
        _SHELL.search(word) for word in words if not (word.startswith("'") and word.endswith("'"))
    )
