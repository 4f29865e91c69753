"""Extracts the prose of source files, so that Vale can check it as Markdown.

Vale's own parser for source files needs a C compiler to build, and it merges the comments at the
ends of consecutive lines into one sentence.
"""

import re
import textwrap
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

# How a comment begins, by the file's suffix, or by its name if it has none.
MARKS = {
    **dict.fromkeys((".go", ".js"), "//"),
    **dict.fromkeys((".sh", ".yaml", ".yml", ".toml", ".in", "Dockerfile", "Makefile"), "#"),
}
# Strings and comments. A scan for them takes a tenth of the time that Python's parser needs.
PYTHON = re.compile(
    r"""
    (?P<triple> \"{3} (?: [^"\\] | \\. | "(?!"") )* \"{3} )
    | '{3} (?: [^'\\] | \\. | '(?!'') )* '{3}
    | " (?: [^"\\\n] | \\. )* "
    | ' (?: [^'\\\n] | \\. )* '
    | (?P<comment> \# [^\n]* )
    """,
    re.VERBOSE | re.DOTALL,
)

# Here strings are messages to users. Those of tests are often the names of cases.
PROGRAMS = ("operator/", "images/")
WORDS = 2  # a string with fewer spaces is no message
VARIABLE = re.compile(r"\{[^{}]*\}|\\.")
# Examples, commands and tables: an indented line, or a word and its explanation behind two spaces.
NO_PROSE = re.compile(r"\s{2,}|\t")
ENTRY = re.compile(r"\S+\s{2,}(?=\S)")


@dataclass(frozen=True)
class Line:
    """A line of prose and its place in the source file."""

    number: int
    text: str


Passage = list[Line]  # a docstring, or the comments on consecutive lines


@dataclass(frozen=True)
class Comment:
    """The text of a comment, and whether it follows code on its line."""

    line: Line
    after_code: bool


def passages(name: str, source: str) -> list[Passage]:
    """Return the docstrings and comments of a source file, and the messages of the programs."""
    path = Path(name)
    if path.suffix == ".py":
        return list(_python(source, name.startswith(PROGRAMS)))
    mark = MARKS.get(path.suffix or path.name)
    return list(_join(_comments(source, mark))) if mark else []


def document(found: Iterable[Passage]) -> tuple[str, list[int]]:
    """Return the passages as Markdown, and the source line of each of its lines."""
    lines: list[str] = []
    numbers: list[int] = []

    def add(number: int, text: str) -> None:
        lines.append(text)
        numbers.append(number)

    for passage in found:
        for line in passage:
            if NO_PROSE.match(line.text):
                add(line.number, "")
                continue
            if ENTRY.match(line.text):
                add(line.number, "")
            add(line.number, line.text)
        add(passage[-1].number if passage else 0, "")
    return "\n".join(lines), numbers


def _python(source: str, messages: bool) -> Iterator[Passage]:
    """Yield the docstrings, the messages (strings of several words) if asked, and the comments."""
    comments: list[Comment] = []
    message: Passage = []
    number, counted = 1, 0
    code = ""  # the last code before the match
    for match in PYTHON.finditer(source):
        between = source[counted : match.start()]
        counted = match.end()
        number += between.count("\n")
        code = between.strip() or code
        begins_line = not source[source.rfind("\n", 0, match.start()) + 1 : match.start()].strip()
        if match["comment"]:
            comments.append(
                Comment(Line(number, match[0].lstrip("#!:").removeprefix(" ")), not begins_line)
            )
            continue
        if between.strip(" \nf") and message:
            yield message
            message = []
        if match["triple"]:
            if begins_line and _is_statement(code, source[match.end() :][:1]):
                yield _docstring(number, match[0][3:-3])
        elif messages and (message or match[0].count(" ") >= WORDS):
            message.append(Line(number, VARIABLE.sub("X", match[0][1:-1]).strip()))
        code = match[0]
        number += match[0].count("\n")
    yield message
    yield from _join(comments)


def _docstring(number: int, text: str) -> Passage:
    """Return the lines of a docstring with the indentation that they have in it."""
    first, _, rest = text.partition("\n")
    lines = [first.strip(), *textwrap.dedent(rest).splitlines()] if rest else [first]
    return [Line(number + n, line.rstrip()) for n, line in enumerate(lines)]


def _is_statement(code_before: str, after: str) -> bool:
    """Return whether a string at the beginning of a line is a docstring, and no argument."""
    return not code_before.endswith(("(", "[", "{", ",", "=", "+", "%")) and after[:1] in ("", "\n")


def _comments(source: str, mark: str) -> Iterator[Comment]:
    pattern = re.compile(rf"(?:^|\s){mark}[#!:]?(?: |(?=\s)|$)(.*)")
    for number, text in enumerate(source.splitlines(), 1):
        if found := pattern.search(text):
            line = Line(number, found[1].rstrip())
            yield Comment(line, not text.lstrip().startswith(mark))


def _join(comments: Iterable[Comment]) -> Iterator[Passage]:
    """Join comments on consecutive lines. A comment after code is a passage of its own."""

    def key(numbered: tuple[int, Comment]) -> tuple[bool, int]:
        index, comment = numbered
        number = comment.line.number
        return comment.after_code, number if comment.after_code else number - index

    for _, group in groupby(enumerate(comments), key):
        yield [comment.line for _, comment in group]
