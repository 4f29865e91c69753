"""`kubectl dijob history`: prints the records of jobs. dijob.client.history reads them."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import click

from dijob.cli import options
from dijob.cli.calling import Where, call_client, client_errors
from dijob.cli.errors import CliError, Exit
from dijob.cli.printing import echo, format_object

if TYPE_CHECKING:
    from dijob.client import AsyncClient
    from dijob.client.history import HistoryQuery, HistoryReader

_OUTCOMES = ("Succeeded", "Failed", "Deleted", "Running", "Pending", "Starting", "Suspended")


@dataclass(frozen=True)
class _Wish:
    """The options of the command."""

    name: str | None
    service: str
    uid: str
    rank: int | None
    output: str


def _filter_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options that select records."""
    for option in (
        click.option("--limit", type=click.IntRange(1, 500), default=100, show_default=True,
                     help="List at most this many jobs."),
        click.option("--owner", default="", metavar="OWNER",
                     help="Only jobs of this owner, as shown by -o wide."),
        click.option("--since", type=options.DURATION, metavar="DURATION",
                     help="Only jobs that ended at most this long ago, for example 7d."),
        click.option("--phase", "phases", multiple=True, metavar="OUTCOME",
                     type=click.Choice(_OUTCOMES, case_sensitive=False),
                     help="Only jobs with this outcome, for example Failed (repeatable)."),
    ):  # fmt: skip
        function = option(function)
    return function


@click.command()
@click.argument("name", required=False)
@click.option("--logs", is_flag=True, help="Print the end of each log of the job.")
@click.option("--rank", type=click.IntRange(0), help="With --logs: only the log of this rank.")
@click.option(
    "--uid", default="", help="UID of the job, if several had this name. Default: the newest."
)
@_filter_options
@options.list_options
@click.option(
    "--service",
    default="",
    metavar="NAMESPACE/NAME",
    help="The history's Service. Default: $DIJOB_HISTORY, or dijob-system/dijob-history.",
)
@options.output_option("table", "wide", "json", "yaml", "manifest")
@options.cluster_options
def history_command(
    where: Where,
    name: str | None,
    all_namespaces: bool,
    logs: bool,
    **given: Any,
) -> None:
    """List the jobs that the history has recorded, or show one of them.

    For jobs that have been deleted, the history keeps the spec, the outcome, the progress and the
    end of each log. It must be enabled in the operator's chart (history.enabled). You see only jobs
    in namespaces in which you have permission to list DIJobs. Logs also require permission to read
    the logs of pods.

    \b
    Example:
      kubectl dijob history --phase Failed --since 7d
      kubectl dijob history test --logs --rank 0
      kubectl dijob history test -o manifest | kubectl create -f -
    """
    wish = _Wish(
        name=name,
        service=given["service"],
        uid=given["uid"],
        rank=given["rank"],
        output=given["output"],
    )
    if name is None and (logs or wish.uid or wish.rank is not None or wish.output == "manifest"):
        raise CliError("--logs, --rank, --uid and -o manifest need the name of a job", Exit.USAGE)
    if name is not None and all_namespaces:
        raise CliError("-A cannot be combined with a name: use -n", Exit.USAGE)
    if wish.rank is not None and not logs:
        raise CliError("--rank needs --logs", Exit.USAGE)
    if name is None:
        _print_list(where, wish, all_namespaces, given)
    elif logs:
        _print_logs(where, wish)
    else:
        _print_record(where, wish)


def _print_list(where: Where, wish: _Wish, everywhere: bool, given: dict[str, Any]) -> None:
    with client_errors():
        from dijob.cli.history import show
        from dijob.client.history import HistoryQuery

    now = datetime.now(UTC)
    since = given["since"]

    def query(namespace: str) -> "HistoryQuery":
        return HistoryQuery(
            namespace="" if everywhere else namespace,
            phases=given["phases"],
            since=f"{now - timedelta(seconds=since):%Y-%m-%dT%H:%M:%SZ}" if since else "",
            owner=given["owner"],
            labels=given["selector"],
            limit=given["limit"],
        )

    found = call_client(
        where, lambda client: _reader(client, wish).list_records(query(client.namespace))
    )
    if wish.output in ("json", "yaml"):
        echo(
            format_object({"items": [one.dump(brief=True) for one in found]}, wish.output), nl=False
        )
    elif not found:
        echo("The history has no such jobs.", err=True)
    else:
        wide = wish.output == "wide"
        echo(show.format_records(found, now, wide=wide, namespaces=everywhere))


def _print_record(where: Where, wish: _Wish) -> None:
    with client_errors():
        from dijob.cli.history import show

    record, logs = call_client(
        where,
        lambda client: _reader(client, wish).get_record(client.namespace, str(wish.name), wish.uid),
    )
    if wish.output == "manifest":
        echo(format_object(show.record_manifest(record), "yaml"), nl=False)
    elif wish.output in ("json", "yaml"):
        echo(format_object(show.record_data(record, logs), wish.output), nl=False)
    else:
        echo(show.describe_record(record, logs, datetime.now(UTC)))


def _print_logs(where: Where, wish: _Wish) -> None:
    with client_errors():
        from dijob.cli.history import show

    found = call_client(
        where,
        lambda client: _reader(client, wish).read_logs(
            client.namespace, str(wish.name), wish.uid, wish.rank
        ),
    )
    if not found:
        what = f"rank {wish.rank} of {wish.name}" if wish.rank is not None else str(wish.name)
        raise CliError(f"the history has no log of {what}", Exit.NOT_FOUND)
    echo(show.format_logs(found))


def _reader(client: "AsyncClient", wish: _Wish) -> "HistoryReader":
    from dijob.client.history import HistoryPlace, HistoryReader

    return HistoryReader(client.connection, HistoryPlace.parse(wish.service))
