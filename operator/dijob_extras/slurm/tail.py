"""Cuts off what follows srun's command on its line: redirections, `| tee`, `&& wait` and `&`.

These parts of the line concern srun's own output, or the script that waits for srun. They are not
part of the command. The tokens are removed from the end one by one. A single pattern would take
exponential time, because `&>` can also be read as `&` and `>`.
"""

import re
from typing import Final

from dijob_extras.slurm.script import WORD

_TOKEN: Final = re.compile(
    rf"(?P<redirection>(?:&>>?|\d?>>?)(?P<descriptor>&\d)?)|(?P<operator>&&|\|\||[&|<;])|{WORD}",
    re.DOTALL,
)


def split_tail(text: str) -> tuple[str, str]:
    """Split a line into the command and its tail."""
    found = list(_TOKEN.finditer(text))
    at = len(found)
    while (before := _without_last(found, at)) < at:
        at = before
    end = found[at].start() if at < len(found) else len(text)
    return text[:end], text[end:].strip()


def _without_last(found: list[re.Match[str]], at: int) -> int:
    """Return how many of the first `at` tokens remain after the tail's last part is cut off."""
    last = found[at - 1] if at else None
    if last is None:
        return at
    # `&`, or a redirection to another descriptor such as 2>&1.
    if last["operator"] == "&" or last["descriptor"]:
        return at - 1
    before = found[at - 2] if at > 1 else None
    if before is None or last["operator"] or last["redirection"]:
        return at
    # A redirection and its file.
    if before["redirection"] and not before["descriptor"]:
        return at - 2
    if before["operator"] == "&&" and last[0] == "wait":
        return at - 2
    # `| tee` with any options and files.
    pipe = next((n for n in range(at - 1, -1, -1) if found[n]["operator"] == "|"), at)
    return pipe if pipe + 1 < at and found[pipe + 1][0] == "tee" else at
