"""Parses times, amounts of memory and GPUs in Slurm's formats."""

import re
from dataclasses import dataclass
from typing import Final

from dijob.api.numbers import parse_natural
from dijob.cli.errors import CliError, Exit

from dijob_extras.slurm.script import Option

_MIB: Final = {"K": 1 / 1024, "M": 1, "G": 1024, "T": 1024 * 1024}


def parse_seconds(option: Option) -> int | None:
    """Return a time in seconds; None for no limit.

    "90" means minutes, and "1-12" means one day and twelve hours (man sbatch, --time).
    """
    if option.value.upper() in ("0", "-1", "UNLIMITED", "INFINITE"):
        return None
    days, dash, rest = option.value.rpartition("-")
    parts = rest.split(":")
    whole_days = parse_natural(days) if dash else 0
    numbers = [number for part in parts if (number := parse_natural(part)) is not None]
    if whole_days is None or len(numbers) < len(parts) or len(numbers) > 3:
        raise _invalid_option(option, "a time such as 30, 1:30:00 or 2-12:00:00")
    # If days are given, the first number after them is hours. Without days, three numbers mean
    # hours, minutes and seconds. Two numbers mean minutes and seconds, and a single number means
    # minutes.
    if dash:
        hours, minutes, rest_seconds = (*numbers, 0, 0)[:3]
        return (whole_days * 24 + hours) * 3600 + minutes * 60 + rest_seconds
    if len(numbers) == 3:
        return numbers[0] * 3600 + numbers[1] * 60 + numbers[2]
    minutes, rest_seconds = (*numbers, 0)[:2]
    return minutes * 60 + rest_seconds


def parse_mebibytes(option: Option) -> float:
    """Return an amount of memory in MiB, which is also Slurm's default unit."""
    # The number of digits is limited, so that every amount fits into a float.
    match = re.fullmatch(r"(\d{1,15})([KMGT]?)B?", option.value.upper(), re.ASCII)
    if not match:
        raise _invalid_option(option, "an amount of memory such as 4000 or 16G")
    return int(match[1]) * _MIB[match[2] or "M"]


def format_memory(amount: float) -> str:
    """Return an amount in MiB as a Kubernetes quantity."""
    if amount >= 1024 and amount % 1024 == 0:
        return f"{int(amount // 1024)}Gi"
    return f"{max(1, round(amount))}Mi"


def parse_count(option: Option, lowest: int = 1) -> int:
    """Return a number, or the first number of a range such as "2-4" (--nodes)."""
    match = re.fullmatch(r"(\d{1,15})(?:-\d+)?", option.value, re.ASCII)
    if not match or int(match[1]) < lowest:
        raise _invalid_option(option, f"a number, {lowest} or more")
    return int(match[1])


@dataclass(frozen=True)
class Gpus:
    """A number of GPUs and their type ("" for any)."""

    number: int
    type: str = ""


def parse_gpus(option: Option) -> Gpus | None:
    """Return the GPUs of --gpus=2, --gpus=a100:2 or --gres=gpu:a100:2; None for any other
    --gres.
    """
    # A --gres can end with a restriction to sockets: gpu:2(S:0-1).
    words = option.value.split("(")[0].split(":")
    if option.name == "gres":
        if words[0] != "gpu" or "," in option.value:
            return None
        words = words[1:] or ["1"]
    number = parse_natural(words[-1])
    kinds = [word for word in words if parse_natural(word) is None]
    return Gpus(1 if number is None else number, kinds[0] if kinds else "")


def _invalid_option(option: Option, form: str) -> CliError:
    return CliError(
        f"line {option.number}: --{option.name} is {option.value[:40]!r}; it must be {form}",
        Exit.USAGE,
    )
