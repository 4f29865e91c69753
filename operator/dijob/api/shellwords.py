"""Parses just enough of the POSIX shell's grammar to find the simple commands of a `bash -c`
script.

The standard library's shlex splits words, but it supports neither here-documents nor substitutions.
For a script that cannot be parsed, shlex raises an exception, whereas this module returns None.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

SHELLS: Final = frozenset({"sh", "bash", "dash", "ash", "zsh", "ksh"})
# Programs that run their remaining arguments as a command.
_WRAPPERS: Final = frozenset(
    {
        "env",
        "exec",
        "command",
        "nohup",
        "time",
        "nice",
        "ionice",
        "stdbuf",
        "timeout",
        "tini",
        "dumb-init",
    }
    | {
        "catatonit",
        "xvfb-run",
        "setsid",
        "sudo",
        "chrt",
        "numactl",
        "taskset",
        "setpriv",
        "gosu",
        "su-exec",
    }
)
_KEYWORDS: Final = frozenset({"if", "then", "else", "elif", "do", "while", "until", "!", "{"})
_ASSIGNMENT: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\+?=")
# Every pattern below reads a text once, from left to right, without backtracking. A command can be
# any text, and all jobs wait while one command is parsed.
_SUBSTITUTION: Final = re.compile(r"\$\(|[()`]")
_HEREDOC: Final = re.compile(r"<<-?[ \t]*(['\"]?)(\w+)\1")
# This word replaces a substitution. It contains a "$", so that `is_hidden` recognizes it.
_HIDDEN: Final = "$_"
# Blanks and comments, or an operator (including the end of a line), or a word with its quotes.
_TOKEN: Final = re.compile(
    r"""[ \t\r]+ | \#[^\n]* | (?P<operator>[;&|()<>\n]+)
    | (?P<word>(?:[^ \t\r\n;&|()<>'"\\]+ | '[^']*' | "[^"\\]*(?:\\.[^"\\]*)*" | \\.)+)""",
    re.VERBOSE | re.DOTALL,
)
# The maximum number of words, operators and blanks in a script. A typical script of
# the maximum length (command.py: READ_LENGTH) has half this number.
_TOKENS: Final = 8192
_QUOTED: Final = re.compile(
    r"""'([^']*)' | "([^"\\]*(?:\\.[^"\\]*)*)" | \\(.)""", re.VERBOSE | re.DOTALL
)
_ESCAPED: Final = re.compile(r"""\\(["\\])""")


@dataclass(frozen=True)
class ShellCall:
    """The arguments of a shell.

    `script` is the text after -c, or None if the shell reads a file or stdin. `login` is true for a
    login shell. A login shell reads profiles that can change PATH.
    """

    script: str | None
    login: bool


def is_hidden(word: str) -> bool:
    """Whether a word's value is unknown, because the word contains a variable or a substitution."""
    return "$" in word or "`" in word


def is_known_program(word: str) -> bool:
    """Whether a word is a program at which `unwrap_command` would stop: ditask, a shell or a Python
    interpreter.
    """
    name = program_name(word)
    return name == "ditask" or name in SHELLS or name.startswith("python")


def program_name(word: str) -> str:
    """Return a program's name without its folder."""
    return word.rstrip("/").rpartition("/")[2]


def parse_call(words: Sequence[str]) -> ShellCall:
    """Parse a shell's own options, for example `-euo pipefail -c SCRIPT` or `-lc SCRIPT`."""
    login = command = False
    rest = iter(words)
    for word in rest:
        if word == "--":
            word = next(rest, "")
        elif word.startswith("--"):
            login = login or word == "--login"
            if word in ("--rcfile", "--init-file"):
                next(rest, None)
            continue
        elif word[:1] in ("-", "+") and len(word) > 1:
            login = login or "l" in word[1:]
            command = command or "c" in word[1:]
            if word[-1] in "oO":
                next(rest, None)
            continue
        return ShellCall(script=word if command else None, login=login)
    return ShellCall(script=None, login=login)


def unwrap_command(words: Sequence[str]) -> list[str]:
    """Remove keywords, assignments and wrappers: `FOO=1 exec nohup ditask ...` is `ditask ...`."""
    at, known = 0, True
    while at < len(words):
        word = words[at]
        if word in _KEYWORDS or _ASSIGNMENT.match(word):
            at += 1
        elif program_name(word) in _WRAPPERS:
            if word == "command" and words[at + 1 : at + 2] in (["-v"], ["-V"]):
                # `command -v` prints where a program is, and runs nothing.
                return []
            at += 1
            # The program comes after the wrapper's own options and operands. These differ from
            # wrapper to wrapper, so everything up to a known program is skipped.
            found = (
                next((i for i in range(at, len(words)) if is_known_program(words[i])), None)
                if known
                else None
            )
            # If no known program follows this wrapper, none follows the next wrapper either. So the
            # search is not repeated.
            known = found is not None
            at = at if found is None else found
        else:
            break
    return list(words[at:])


def simple_commands(script: str) -> list[list[str]] | None:
    """Return the simple commands of a script in order, as lists of words.

    Redirections and here-documents are dropped, and a substitution becomes a word with a `$`.
    Returns None if the script cannot be read.
    """
    text = _without_substitutions(_without_documents(script.replace("\\\n", "")))
    commands: list[list[str]] = [[]]
    skip, at, count = False, 0, 0
    while at < len(text):
        token, count = _TOKEN.match(text, at), count + 1
        if token is None or count > _TOKENS:
            # The script has a quote that is not closed, or too many tokens.
            return None
        at = token.end()
        if operator := token["operator"]:
            # After a redirection the next word is a file, not part of the command.
            skip = not operator.strip("<>&|") and operator.strip("&|") != ""
            if not skip:
                commands.append([])
        elif (word := token["word"]) is not None:
            if not skip:
                commands[-1].append(_QUOTED.sub(_unquote_word, word))
            skip = False
    return [words for words in commands if words]


def _unquote_word(quoted: re.Match[str]) -> str:
    plain, text, escaped = quoted.groups()
    return (
        _ESCAPED.sub(r"\1", text) if text is not None else plain if plain is not None else escaped
    )


def _without_documents(script: str) -> str:
    """Return the script without the text of its here-documents."""
    if "<<" not in script:
        return script
    lines = script.split("\n")
    # The line numbers at which each text occurs, in descending order. They show where a
    # here-document ends. A search through all lines for each here-document would take quadratic
    # time.
    ends: dict[str, list[int]] = {}
    for number in range(len(lines) - 1, -1, -1):
        ends.setdefault(lines[number].strip(" \t"), []).append(number)
    kept, number = list[str](), 0
    while number < len(lines):
        line, after = lines[number], number + 1
        for found in _HEREDOC.finditer(line):
            if end := _next_above(ends.get(found[2], []), number):
                line, after = line[: found.start()] + line[found.end() :], end + 1
                break
        kept.append(line)
        number = after
    return "\n".join(kept)


def _next_above(falling: list[int], least: int) -> int:
    """Remove all numbers that are at most `least` from a descending list. Return the smallest
    remaining number, or 0 if none remains.
    """
    while falling and falling[-1] <= least:
        falling.pop()
    return falling[-1] if falling else 0


def _without_substitutions(script: str) -> str:
    """Return the script with one word in place of each substitution. A substitution is a `$(...)`
    with all that is nested in it, or a pair of backticks with the text between them.
    """
    # For each open parenthesis, `open_` contains its position in `kept`, and whether it is a "$(".
    kept, open_, at = list[str](), list[tuple[int, bool]](), 0
    for found in _SUBSTITUTION.finditer(script):
        if found.start() < at:
            continue
        mark = found[0]
        kept.append(script[at : found.start()])
        at = found.end()
        if mark == "`":
            end = script.find("`", at)
            if end < 0:
                return "".join((*kept, script[found.start() :]))
            kept.append(_HIDDEN)
            at = end + 1
        elif mark != ")":
            open_.append((len(kept), mark == "$("))
            kept.append(mark)
        else:
            place, hidden = open_.pop() if open_ else (len(kept), False)
            if hidden:
                del kept[place:]
            kept.append(_HIDDEN if hidden else mark)
    return "".join((*kept, script[at:]))
