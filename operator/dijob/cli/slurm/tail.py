"""What follows srun's command on its line: redirections, `| tee`, `&& wait` and `&`. It is about
srun's own output and about the script that waits, and is no part of the command.

The words are taken from the end one by one. One pattern for all of them would take exponential
time, as `&>` can also be read as `&` and `>`.
"""

import re
from typing import Final

from dijob.cli.slurm.script import WORD

_TOKEN: Final = re.compile(
    rf"(?P<redirection>(?:&>>?|\d?>>?)(?P<descriptor>&\d)?)|(?P<operator>&&|\|\||[&|<;])|{WORD}",
    re.DOTALL,
)


def cut(text: str) -> tuple[str, str]:
    """A line without its tail, and the tail."""
    found = list(_TOKEN.finditer(text))
    at = len(found)
    while (before := _without_last(found, at)) < at:
        at = before
    end = found[at].start() if at < len(found) else len(text)
    return text[:end], text[end:].strip()


def _without_last(found: list[re.Match[str]], at: int) -> int:
    """How many of the first `at` tokens are left without the last part of the tail."""
    last = found[at - 1] if at else None
    if last is None:
        return at
    if last["operator"] == "&" or last["descriptor"]:
        return at - 1
    before = found[at - 2] if at > 1 else None
    if before is None or last["operator"] or last["redirection"]:
        return at
    if before["redirection"] and not before["descriptor"]:
        return at - 2
    if before["operator"] == "&&" and last[0] == "wait":
        return at - 2
    pipe = next((n for n in range(at - 1, -1, -1) if found[n]["operator"] == "|"), at)
    return pipe if pipe + 1 < at and found[pipe + 1][0] == "tee" else at
