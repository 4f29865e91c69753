"""Reads a batch script: the #SBATCH lines and the commands, each with its line number.

This is not a shell parser. It splits lines into words and commands well enough to find srun and its
options. The patterns are written to run in linear time, because a script can be long and strange.
"""

import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from dijob.cli.errors import CliError, Exit

from dijob_extras.slurm.options import FLAGS, SHORT

# A command substitution, or quoted text. The limit on the length of a substitution keeps the time
# linear. Otherwise, the search would run to the end of the text for each `$(` that is never closed.
_QUOTED: Final = (
    r"""\$\((?:[^()]|\([^()]{0,500}\)){0,500}\)|`[^`]*`|\\.|'[^']*'|"(?:\\.|[^"\\])*\""""
)
# A shell word as written, with its quotes and substitutions.
_WORD: Final = re.compile(rf"(?:{_QUOTED}|[^\s'\"\\])+", re.DOTALL)
# A shell word as above, except that a shell operator also ends the word.
WORD: Final = rf"(?:{_QUOTED}|[^\s'\"\\&<>|;])+"
# A command up to a semicolon that is not quoted.
_PART: Final = re.compile(rf"(?:{_QUOTED}|[^;'\"\\])+", re.DOTALL)
# For each open quote ("" for none), a pattern that finds the next escaped character, quote or
# comment.
_NEXT: Final = {
    "": re.compile(r"""\\.?|['"]|(?:(?<=\s)|^)\#.*"""),
    "'": re.compile("'"),
    '"': re.compile(r'\\.?|"'),
}
COMPOUND: Final = frozenset(
    {"for", "while", "until", "select", "do", "done", "if", "then", "else", "elif", "fi"}
    | {"case", "esac", "function", "{", "}"}
)
_CONTROL: Final = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x84\x86-\x9f]")


@dataclass(frozen=True)
class Option:
    """An option with its long name, its value ("" for none), and its line."""

    name: str
    value: str
    number: int
    text: str


@dataclass(frozen=True)
class ScriptLine:
    """A shell command. `number` is the number of its first line."""

    number: int
    text: str

    @property
    def first(self) -> str:
        """The first word."""
        words = self.text.split(None, 1)
        return words[0] if words else ""


@dataclass(frozen=True)
class Script:
    """A batch script.

    `late` contains the #SBATCH lines that Slurm ignores, because a command precedes them. `raw` is
    the whole text.
    """

    options: tuple[Option, ...]
    lines: tuple[ScriptLine, ...]
    late: tuple[ScriptLine, ...]
    raw: str = ""

    @property
    def given(self) -> Mapping[str, Option]:
        """The options by name. If an option is given twice, its last value counts."""
        return {option.name: option for option in self.options}


def parse_script(content: str) -> Script:
    """Read a script. Raises CliError (USAGE) for a script that cannot be converted, for example
    because a quote is not closed.
    """
    # YAML cannot contain these characters, so the result could not be written.
    if strange := _CONTROL.search(content):
        number = content.count("\n", 0, strange.start()) + 1
        raise CliError(f"line {number} contains a control character: remove it", Exit.USAGE)
    options: list[Option] = []
    lines: list[ScriptLine] = []
    late: list[ScriptLine] = []
    for line in _join_lines(content):
        # Slurm accepts #SBATCH--nodes=2 without a space.
        if re.match(r"#SBATCH(?=[\s-])", line.text):
            if lines:
                late.append(line)
            else:
                options += _of_directive(line)
        elif text := _without_comment(line.text):
            lines += [ScriptLine(line.number, part) for part in _split_commands(text)]
    return Script(tuple(options), tuple(lines), tuple(late), content)


def _split_commands(text: str) -> list[str]:
    """Split a line at its semicolons into commands. Loops and conditionals are not split."""
    if text.split(None, 1)[0] in COMPOUND or ";;" in text:
        return [text]
    return [part for found in _PART.findall(text) if (part := found.strip())]


def _without_comment(text: str) -> str:
    found = (word.start() for word in _WORD.finditer(text) if word[0].startswith("#"))
    return text[: next(found, len(text))].rstrip()


def _join_lines(text: str) -> Iterator[ScriptLine]:
    """Yield logical lines: lines that end in a backslash or inside quotes are joined."""
    numbered = enumerate(text.splitlines(), 1)
    for number, line in numbered:
        whole = [line.strip()]
        # In a comment, backslashes and quotes have no meaning.
        comment = whole[0].startswith("#")
        quote = "" if comment else _quote_after(whole[0])
        while not comment and (whole[-1].endswith("\\") or quote):
            more = next(numbered, None)
            if more is None:
                raise CliError(
                    f"line {number} of the script has an open quote or a trailing backslash: close"
                    " the quote, or remove the backslash",
                    Exit.USAGE,
                )
            if whole[-1].endswith("\\"):
                whole[-1] = whole[-1][:-1].rstrip() + " "
                whole.append(more[1].strip())
            else:
                whole += ["\n", more[1]]
            quote = _quote_after(whole[-1], quote)
        yield ScriptLine(number, "".join(whole))


def _quote_after(text: str, quote: str = "") -> str:
    """Return the quote that is open at the end of a line, given the quote that is open at the
    beginning. "" means no quote.
    """
    at = 0
    while found := _NEXT[quote].search(text, at):
        at = found.end()
        if found[0] == quote:
            quote = ""
        elif not quote and found[0] in ("'", '"'):
            quote = found[0]
    return quote


def _of_directive(line: ScriptLine) -> Iterator[Option]:
    words = _split_options(line.text, line.number)
    if words and words[0] in ("hetjob", "packjob"):
        raise CliError(
            f"line {line.number} defines a heterogeneous job, which cannot be converted: write a"
            " DIJob with a task for each part (spec.tasks, docs/tasks.md)",
            Exit.USAGE,
        )
    options, rest = take_options(words, line)
    if rest:
        raise CliError(f"line {line.number}: {rest[0]!r} is not an option of sbatch", Exit.USAGE)
    yield from options


def _split_options(text: str, number: int) -> list[str]:
    try:
        return shlex.split(text.removeprefix("#SBATCH"), comments=True)
    except ValueError as error:
        raise CliError(f"line {number}: {error}", Exit.USAGE) from None


def take_options(words: Sequence[str], line: ScriptLine) -> tuple[list[Option], list[str]]:
    """Return the leading options, parsed as sbatch and srun parse them, and the remaining words."""
    found: list[Option] = []
    at = 0
    while at < len(words) and words[at].startswith("-") and words[at] != "-":
        word, at = words[at], at + 1
        if word == "--":
            break
        name, joined, value = word[2:].partition("=")
        # A short option can have its value in the same word: -N2.
        if not word.startswith("--"):
            name, value = SHORT.get(word[1], word[1]), word[2:].removeprefix("=")
            joined = value
        if not joined and name not in FLAGS and at < len(words):
            value, at = words[at], at + 1
        found.append(Option(name, value, line.number, line.text))
    return found, list(words[at:])


def words_of(text: str) -> list[str]:
    """Return the words of a command as written, with their quotes."""
    return _WORD.findall(text)


def unquote_word(word: str) -> str:
    """Return a word without its quotes."""
    try:
        found = shlex.split(word)
    except ValueError:
        return word
    return found[0] if len(found) == 1 else word


@dataclass(frozen=True)
class Note:
    """A line of the script, and advice about it."""

    number: int
    text: str
    advice: str


@dataclass
class Notes:
    """The notes about a script."""

    found: list[Note] = field(default_factory=list)

    def add(self, number: int, text: str, advice: str) -> None:
        """Add a note, unless it exists already."""
        note = Note(number, text, advice)
        if note not in self.found:
            self.found.append(note)

    def sorted(self) -> list[Note]:
        """Return the notes in the order of the lines."""
        return sorted(self.found, key=lambda note: note.number)
