"""What a new user writes on the command line of `run` and the cluster would not take. Pure."""

import re
import shlex
from collections.abc import Sequence
from decimal import Decimal
from typing import Final

from dijob.cli.errors import CliError, Exit
from dijob.cli.explain.quantities import quantity, valid

# No container runs in less, and nobody means it: it is an amount without its suffix.
_LEAST_MEMORY: Final = Decimal(4 * 2**20)
# Up to these numbers Gi is meant, and Mi.
_MOST_GI: Final = 128
_MOST_MI: Final = 2**20
_BYTES: Final = re.compile(r"(\d+(?:\.\d+)?) ?([kmgtpe])(?:i?b|ib?)?", re.IGNORECASE)


def memory(text: str | None) -> None:
    """Refuse what is no amount of memory, or too little to be meant. Raises CliError (USAGE)."""
    if text is None:
        return
    if not valid(text):
        raise CliError(
            f"--memory {text}: a quantity of Kubernetes is a number with Ki, Mi, Gi, k, M, G ...:"
            f" write {_as_memory(text)}",
            Exit.USAGE,
        )
    if (amount := quantity(text)) < _LEAST_MEMORY:
        raise CliError(
            f"--memory {text}: that is {amount.normalize():f} {'byte' if amount == 1 else 'bytes'}:"
            f" write {_meant(text)}",
            Exit.USAGE,
        )


def cpu(text: str | None) -> None:
    """Refuse what is no amount of CPU. Raises CliError (USAGE)."""
    if text is None or (valid(text) and quantity(text) >= 0):
        return
    number = re.match(r"\d+(\.\d+)?", text)
    raise CliError(
        f"--cpu {text}: a quantity of CPU is a number, or one with m for thousandths: write"
        f" {number[0] if number else '2 or 500m'}",
        Exit.USAGE,
    )


def words(command: Sequence[str]) -> None:
    """Refuse a whole command line in one word, which only a shell would take apart. Raises CliError
    (USAGE).
    """
    if len(command) == 1 and len(command[0].split()) > 1:
        raise CliError(
            f"{shlex.quote(command[0])} is one word, and the command runs without a shell: write"
            f" -- bash -c {shlex.quote(command[0])}, or leave the quotes out",
            Exit.USAGE,
        )


def _as_memory(text: str) -> str:
    found = _BYTES.fullmatch(text.strip())
    if not found:
        return "it as 4Gi or 500M"
    number, letter = found[1], found[2].upper()
    return f"{number}{'k' if letter == 'K' else letter} or {number}{letter}i"


def _meant(text: str) -> str:
    found = re.fullmatch(r"(\d+)(\D*)", text)
    if not found or not 0 < int(found[1]) <= _MOST_MI:
        return "it as 4Gi or 500Mi"
    small = int(found[1]) <= _MOST_GI and found[2] != "m"
    return f"{found[1]}{'Gi' if small else 'Mi'}?"
