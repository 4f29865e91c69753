"""Just enough of the POSIX shell's grammar to find the simple commands of a `bash -c` script."""

import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Final

SHELLS: Final = frozenset({"sh", "bash", "dash", "ash", "zsh", "ksh"})
# Programs and words that run the rest of their line: what follows them is the command that counts.
_WRAPPERS: Final = frozenset(
    {"env", "exec", "command", "nohup", "time", "nice", "ionice", "stdbuf", "timeout", "tini", "dumb-init"}
    | {"catatonit", "xvfb-run", "setsid", "sudo", "chrt", "numactl", "taskset", "setpriv", "gosu", "su-exec"}
)
_KEYWORDS: Final = frozenset({"if", "then", "else", "elif", "do", "while", "until", "!", "{"})
_ASSIGNMENT: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\+?=")
# A substitution becomes one opaque word. Only the innermost is matched; the caller repeats.
_SUBSTITUTION: Final = re.compile(r"\$\(\(?[^()]*\)?\)|`[^`]*`")
_HEREDOC: Final = re.compile(r"<<-?[ \t]*(['\"]?)(\w+)\1([^\n]*)\n.*?^[ \t]*\2[ \t]*$", re.DOTALL | re.MULTILINE)
_HIDDEN: Final = "$_"
# Stands for a `#` inside a word, where shlex would see a comment.
_HASH: Final = "\ue000"


@dataclass(frozen=True)
class ShellCall:
    """A shell's arguments: the text after -c (None: a file or stdin), and whether it is a login shell."""

    script: str | None
    login: bool


class _Text:
    """Text for shlex; readline, by which shlex skips comments, leaves the newline, which ends a command."""

    def __init__(self, text: str) -> None:
        self._text, self._at = text, 0

    def read(self, size: int, /) -> str:
        start, self._at = self._at, self._at + size
        return self._text[start : self._at]

    def readline(self) -> str:
        end = self._text.find("\n", self._at)
        start, self._at = self._at, len(self._text) if end < 0 else end
        return self._text[start : self._at]

    def close(self) -> None:
        """Nothing to close; shlex's protocol asks for it."""


def is_hidden(word: str) -> bool:
    """Whether a word holds a variable or substitution, so that its value cannot be read here."""
    return "$" in word or "`" in word


def is_known_program(word: str) -> bool:
    """Whether a word is a program that `unwrap` would stop at: ditask, a shell or a python."""
    name = PurePosixPath(word).name
    return name == "ditask" or name in SHELLS or name.startswith("python")


def parse_call(words: Sequence[str]) -> ShellCall:
    """Read a shell's own options, e.g. `-euo pipefail -c SCRIPT` or `-lc SCRIPT`."""
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


def unwrap(words: Sequence[str]) -> list[str]:
    """Drop keywords, assignments and wrappers (`FOO=1 exec nohup ditask ...` is `ditask ...`)."""
    left = list(words)
    while left:
        if left[0] in _KEYWORDS or _ASSIGNMENT.match(left[0]):
            del left[0]
        elif PurePosixPath(left[0]).name in _WRAPPERS:
            if left[:2] in (["command", "-v"], ["command", "-V"]):
                return []  # asks where a program is, runs nothing
            del left[0]
            # A wrapper's own options and operands stand before the program: skip to one that we know.
            at = next((i for i, word in enumerate(left) if is_known_program(word)), None)
            if at is not None:
                del left[:at]
        else:
            break
    return left


def simple_commands(script: str) -> list[list[str]] | None:
    """The simple commands of a script, in order, as lists of words; None where it cannot be read.

    Redirections are dropped, substitutions become one word with a `$`, here-documents lose their text.
    """
    lexer = shlex.shlex(_Text(_flatten(script)), posix=True, punctuation_chars=";&|()<>\n")
    lexer.whitespace = " \t\r"
    lexer.whitespace_split = True
    try:
        tokens = list(lexer)
    except ValueError:  # an open quote
        return None
    commands: list[list[str]] = [[]]
    skip = False
    for token in tokens:
        if set(token) <= set("<>&|") and set(token) & set("<>"):
            skip = True  # the next word is a file
        elif set(token) <= set(";&|()<>\n"):
            commands.append([])
            skip = False
        elif skip:
            skip = False
        else:
            commands[-1].append(token.replace(_HASH, "#"))
    return [words for words in commands if words]


def _flatten(script: str) -> str:
    text = _HEREDOC.sub(r"\3\n", script.replace("\\\n", ""))
    previous = ""
    while previous != text:
        previous, text = text, _SUBSTITUTION.sub(_HIDDEN, text)
    return re.sub(r"(?<=[^\s;&|()])#", _HASH, text)
