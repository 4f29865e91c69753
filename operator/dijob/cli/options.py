"""Options that several commands have."""

import functools
import re
from collections.abc import Callable
from typing import Any, Final

import click

from dijob.cli.calling import Where
from dijob.cli.completing import jobs

Function = Callable[..., Any]

_UNITS: Final = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
# As Kubernetes' own durations, of 64 bits of nanoseconds.
LONGEST_SECONDS: Final = 100_000 * 86400.0
_NUMBER: Final = re.compile(r"\d+(\.\d+)?", re.ASCII)
_PARTS: Final = re.compile(r"(\d+(\.\d+)?(ms|[smhd]))+", re.ASCII)
_PART: Final = re.compile(r"(\d+(?:\.\d+)?)(ms|[smhd])", re.ASCII)


class Duration(click.ParamType[float]):
    """Seconds, or a duration such as 90s, 10m, 1h30m."""

    name = "duration"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        """Its seconds."""
        seconds = float(value) if isinstance(value, (int, float)) else _seconds(value)
        if seconds is None:
            self.fail(f"{value[:40]!r} is no duration; write seconds, or as in 90s, 10m, 1h30m")
        if seconds > LONGEST_SECONDS:
            self.fail(f"{value[:40]!r} is longer than {LONGEST_SECONDS / _UNITS['d']:g}d")
        return seconds


def _seconds(text: str) -> float | None:
    """A number of seconds, or of several units; None for anything else."""
    if _NUMBER.fullmatch(text):
        return float(text)
    if not _PARTS.fullmatch(text):
        return None
    return sum(float(number) * _UNITS[unit] for number, unit in _PART.findall(text))


DURATION: Final = Duration()


def cluster(function: Function) -> Function:
    """Adds -n, --context and --kubeconfig; the function gets them as a `Where`, as its first
    argument.
    """

    @click.option("-n", "--namespace", metavar="NAME", help="Absent: the kubeconfig's.")
    @click.option("--context", metavar="NAME", help="Of the kubeconfig. Absent: its current one.")
    @click.option("--kubeconfig", metavar="FILE", help="Absent: $KUBECONFIG, ~/.kube/config.")
    @functools.wraps(function)
    def wrapped(
        *args: Any, namespace: str | None, context: str | None, kubeconfig: str | None, **more: Any
    ) -> Any:
        return function(Where(namespace, context, kubeconfig), *args, **more)

    return wrapped


job = click.argument("name", shell_complete=jobs)
some_jobs = click.argument("names", nargs=-1, required=True, metavar="NAME...", shell_complete=jobs)


def timeout(
    default: float | None = None, shown: str = "for ever"
) -> Callable[[Function], Function]:
    """Adds --timeout."""
    return click.option(
        "--timeout",
        type=DURATION,
        default=default,
        metavar="DURATION",
        help=f"How long to wait, as 90s, 10m, 1h. Absent: {shown}.",
    )


def output(*kinds: str) -> Callable[[Function], Function]:
    """Adds -o with these kinds, the first of which is the default."""
    return click.option(
        "-o", "--output", type=click.Choice(kinds), default=kinds[0], show_default=True
    )
