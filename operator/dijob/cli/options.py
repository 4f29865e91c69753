"""Options and arguments that several commands share."""

import functools
import re
from collections.abc import Callable
from typing import Any, Final

import click

from dijob.cli.calling import Where
from dijob.cli.commands.completion import complete_jobs

Function = Callable[..., Any]

_UNITS: Final = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
# Durations in Kubernetes are 64-bit nanoseconds, about 106,751 days at most.
LONGEST_SECONDS: Final = 100_000 * 86400.0
# ASCII, because \d and float() also accept the digits of other scripts.
_NUMBER: Final = re.compile(r"\d+(\.\d+)?", re.ASCII)
_PARTS: Final = re.compile(r"(\d+(\.\d+)?(ms|[smhd]))+", re.ASCII)
_PART: Final = re.compile(r"(\d+(?:\.\d+)?)(ms|[smhd])", re.ASCII)


class Duration(click.ParamType[float]):
    """Seconds, or a duration such as 90s, 10m or 1h30m."""

    name = "duration"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        """Return the duration in seconds."""
        # An option's default is passed through this method too, and is already a number.
        seconds = float(value) if isinstance(value, (int, float)) else _parse_seconds(value)
        if seconds is None:
            self.fail(
                f"{value[:40]!r} is not a duration: write seconds, or a value such as 90s or 1h30m"
            )
        if seconds > LONGEST_SECONDS:
            self.fail(f"{value[:40]!r} is longer than {LONGEST_SECONDS / _UNITS['d']:g}d")
        return seconds


def _parse_seconds(text: str) -> float | None:
    """Convert a duration such as "90", "1.5s" or "1h30m" to seconds; None if it is invalid."""
    if _NUMBER.fullmatch(text):
        return float(text)
    if not _PARTS.fullmatch(text):
        return None
    return sum(float(number) * _UNITS[unit] for number, unit in _PART.findall(text))


DURATION: Final = Duration()


def cluster_options(function: Function) -> Function:
    """Add -n, --context and --kubeconfig, and pass them to the function as its first argument, a
    `Where`.
    """

    # kubectl has the same options, so users need not learn others.
    @click.option("-n", "--namespace", metavar="NAME", help="Default: the context's namespace.")
    @click.option("--context", metavar="NAME", help="Default: the kubeconfig's current context.")
    @click.option("--kubeconfig", metavar="FILE", help="Default: $KUBECONFIG or ~/.kube/config.")
    @functools.wraps(function)
    def wrapped(
        *args: Any, namespace: str | None, context: str | None, kubeconfig: str | None, **more: Any
    ) -> Any:
        return function(Where(namespace, context, kubeconfig), *args, **more)

    return wrapped


job = click.argument("name", shell_complete=complete_jobs)
some_jobs = click.argument(
    "names", nargs=-1, required=True, metavar="NAME...", shell_complete=complete_jobs
)


def list_options(function: Function) -> Function:
    """Add -A and -l."""
    selector = click.option(
        "-l", "--selector", default="", metavar="LABELS", help="Label selector, such as team=blue."
    )
    everywhere = click.option(
        "-A", "--all-namespaces", is_flag=True, help="List the jobs of all namespaces."
    )
    return everywhere(selector(function))


def timeout_option(
    default: float | None = None, shown: str = "no limit"
) -> Callable[[Function], Function]:
    """Add --timeout. `shown` is the default as the help shows it."""
    return click.option(
        "--timeout",
        type=DURATION,
        default=default,
        metavar="DURATION",
        help=f"How long to wait, for example 90s, 10m or 1h. Default: {shown}.",
    )


def output_option(*kinds: str) -> Callable[[Function], Function]:
    """Add -o with these formats, the first of which is the default."""
    return click.option(
        "-o",
        "--output",
        type=click.Choice(kinds),
        default=kinds[0],
        show_default=True,
        help="Output format.",
    )
