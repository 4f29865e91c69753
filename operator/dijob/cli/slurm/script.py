"""Reads a batch script: its #SBATCH lines, and its commands, each with the number of its line."""

import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from dijob.cli.errors import CliError, Exit
from dijob.cli.slurm.options import FLAGS, SHORT

# A call, or what is in quotes. The bound of a call keeps the time linear: each `$(` that is never
# closed would be followed to the end of the text.
_QUOTED: Final = (
    r"""\$\((?:[^()]|\([^()]{0,500}\)){0,500}\)|`[^`]*`|\\.|'[^']*'|"(?:\\.|[^"\\])*\""""
)
# A word of the shell as it is written: with its quotes, and calls and variables as one.
_WORD: Final = re.compile(rf"(?:{_QUOTED}|[^\s'\"\\])+", re.DOTALL)
# The same, ended by an operator of the shell too.
WORD: Final = rf"(?:{_QUOTED}|[^\s'\"\\&<>|;])+"
# A command up to a semicolon that no quote and no call holds.
_PART: Final = re.compile(rf"(?:{_QUOTED}|[^;'\"\\])+", re.DOTALL)
# What is next after each kind of open quote: a character that is hidden, a quote, a comment.
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
    """One option as it was given: its long name, its value ("" for none), the line's number, and
    the line."""

    name: str
    value: str
    number: int
    text: str


@dataclass(frozen=True)
class Line:
    """One command of the shell, which may go over several lines; `number` is that of the first."""

    number: int
    text: str

    @property
    def first(self) -> str:
        """Its first word."""
        words = self.text.split(None, 1)
        return words[0] if words else ""


@dataclass(frozen=True)
class Script:
    """A batch script. `late` are the #SBATCH lines that Slurm does not read, since a command comes
    before them; `raw` is the whole text."""

    options: tuple[Option, ...]
    lines: tuple[Line, ...]
    late: tuple[Line, ...]
    raw: str = ""

    @property
    def given(self) -> Mapping[str, Option]:
        """The last of each option: it wins."""
        return {option.name: option for option in self.options}


def read(content: str) -> Script:
    """The script. CliError (USAGE) for a line that no shell could read."""
    if strange := _CONTROL.search(content):
        number = content.count("\n", 0, strange.start()) + 1
        raise CliError(f"line {number} has a character that no text has.", Exit.USAGE)
    options: list[Option] = []
    lines: list[Line] = []
    late: list[Line] = []
    for line in _logical(content):
        if re.match(r"#SBATCH(?=[\s-])", line.text):
            if lines:
                late.append(line)
            else:
                options += _of_directive(line)
        elif text := _without_comment(line.text):
            lines += [Line(line.number, part) for part in _parts(text)]
    return Script(tuple(options), tuple(lines), tuple(late), content)


def _parts(text: str) -> list[str]:
    """The commands of a line: a semicolon ends one. A loop or a condition stays whole."""
    if text.split(None, 1)[0] in COMPOUND or ";;" in text:
        return [text]
    return [part for found in _PART.findall(text) if (part := found.strip())]


def _without_comment(text: str) -> str:
    found = (word.start() for word in _WORD.finditer(text) if word[0].startswith("#"))
    return text[: next(found, len(text))].rstrip()


def _logical(text: str) -> Iterator[Line]:
    """The lines, with those that go on joined: after a backslash, and within quotes."""
    numbered = enumerate(text.splitlines(), 1)
    for number, line in numbered:
        whole = [line.strip()]
        comment = whole[0].startswith("#")
        quote = "" if comment else _quote_after(whole[0])
        while not comment and (whole[-1].endswith("\\") or quote):
            more = next(numbered, None)
            if more is None:
                raise CliError(f"line {number} of the script does not end.", Exit.USAGE)
            if whole[-1].endswith("\\"):
                whole[-1] = whole[-1][:-1].rstrip() + " "
                whole.append(more[1].strip())
            else:
                whole += ["\n", more[1]]
            quote = _quote_after(whole[-1], quote)
        yield Line(number, "".join(whole))


def _quote_after(text: str, quote: str = "") -> str:
    """The quote that is open at the end of a line; `quote` is open at its beginning."""
    at = 0
    while found := _NEXT[quote].search(text, at):
        at = found.end()
        if found[0] == quote:
            quote = ""
        elif not quote and found[0] in ("'", '"'):
            quote = found[0]
    return quote


def _of_directive(line: Line) -> Iterator[Option]:
    words = _split(line.text, line.number)
    if words and words[0] in ("hetjob", "packjob"):
        raise CliError(
            f"line {line.number} makes a heterogeneous job: write spec.tasks by hand, a task for"
            " each part (docs/tasks.md).",
            Exit.USAGE,
        )
    options, rest = take_options(words, line)
    if rest:
        raise CliError(f"line {line.number}: {rest[0]!r} is no option of sbatch.", Exit.USAGE)
    yield from options


def _split(text: str, number: int) -> list[str]:
    try:
        return shlex.split(text.removeprefix("#SBATCH"), comments=True)
    except ValueError as error:
        raise CliError(f"line {number}: {error}.", Exit.USAGE) from None


def take_options(words: Sequence[str], line: Line) -> tuple[list[Option], list[str]]:
    """The options at the beginning, as sbatch and srun read them, and the words after them."""
    found: list[Option] = []
    at = 0
    while at < len(words) and words[at].startswith("-") and words[at] != "-":
        word, at = words[at], at + 1
        if word == "--":
            break
        name, joined, value = word[2:].partition("=")
        if not word.startswith("--"):
            name, value = SHORT.get(word[1], word[1]), word[2:].removeprefix("=")
            joined = value
        if not joined and name not in FLAGS and at < len(words):
            value, at = words[at], at + 1
        found.append(Option(name, value, line.number, line.text))
    return found, list(words[at:])


def words_of(text: str) -> list[str]:
    """The words of a command as they are written, with their quotes."""
    return _WORD.findall(text)


def plain(word: str) -> str:
    """A word without its quotes."""
    try:
        found = shlex.split(word)
    except ValueError:
        return word
    return found[0] if len(found) == 1 else word
