"""Checks the command line of `run` for mistakes that new users make. No I/O.

The apiserver would reject some of these mistakes with a message about a field that the user never
wrote. It would accept others, such as 4 bytes of memory.
"""

import re
import shlex
from collections.abc import Sequence
from decimal import Decimal
from typing import Final

from dijob.cli.errors import CliError, Exit
from dijob.core.render.quantities import is_quantity, parse_quantity

# No container runs with less memory than this. A smaller amount probably lacks its suffix.
_LEAST_MEMORY: Final = Decimal(4 * 2**20)
# A number without a suffix most likely means Gi if it is at most the first limit. A larger number
# most likely means Mi if it is at most the second limit.
_MOST_GI: Final = 128
_MOST_MI: Final = 2**20
_BYTES: Final = re.compile(r"(\d+(?:\.\d+)?) ?([kmgtpe])(?:i?b|ib?)?", re.IGNORECASE)


def check_memory(text: str | None) -> None:
    """Raise CliError (USAGE) if an amount of memory is invalid or lacks a suffix."""
    if text is None:
        return
    if not is_quantity(text):
        raise CliError(
            f"--memory {text} is not a Kubernetes quantity (a number with Ki, Mi, Gi, k, M or G):"
            f" write {suggest_quantity(text)}",
            Exit.USAGE,
        )
    if (amount := parse_quantity(text)) < _LEAST_MEMORY:
        raise CliError(
            f"--memory {text} means {amount.normalize():f} {'byte' if amount == 1 else 'bytes'}:"
            f" {_suggest_memory(text)}",
            Exit.USAGE,
        )


def check_cpu(text: str | None) -> None:
    """Raise CliError (USAGE) for an invalid amount of CPU."""
    if text is None or (is_quantity(text) and parse_quantity(text) >= 0):
        return
    number = re.match(r"\d+(\.\d+)?", text)
    raise CliError(
        f"--cpu {text} is not a valid CPU quantity (cores, or millicores with the suffix m): write"
        f" {number[0] if number else '2 or 500m'}",
        Exit.USAGE,
    )


def check_command(command: Sequence[str]) -> None:
    """Raise CliError (USAGE) if the command is a single argument that needs a shell to split it."""
    if len(command) == 1 and len(command[0].split()) > 1:
        raise CliError(
            f"{shlex.quote(command[0])} is a single argument, and no shell splits it: write"
            f" -- bash -c {shlex.quote(command[0])}, or omit the quotes",
            Exit.USAGE,
        )


def suggest_quantity(text: str) -> str:
    """Suggest valid quantities for an invalid amount of memory, or give examples."""
    found = _BYTES.fullmatch(text.strip())
    if not found:
        return "it as 4Gi or 500M"
    number, letter = found[1], found[2].upper()
    return f"{number}{'k' if letter == 'K' else letter} or {number}{letter}i"


def _suggest_memory(text: str) -> str:
    found = re.fullmatch(r"(\d+)(\D*)", text)
    if not found or not 0 < int(found[1]) <= _MOST_MI:
        return "write it as 4Gi or 500Mi"
    # The suffix m means thousandths, and is usually a typo for Mi.
    small = int(found[1]) <= _MOST_GI and found[2] != "m"
    return f"did you mean {found[1]}{'Gi' if small else 'Mi'}?"
