"""`kubectl dijob apply`."""

from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypedDict, Unpack

import click

from dijob.cli import options
from dijob.cli.calling import Where, call, client_errors
from dijob.cli.printing import echo, text
from dijob.cli.waiting import check_timeout, outcomes

if TYPE_CHECKING:
    from dijob.client import AsyncClient

Body = dict[str, Any]


class Given(TypedDict):
    """The options."""

    files: Sequence[str]
    wait: bool
    timeout: float | None
    dry_run: str
    force_conflicts: bool
    output: str


@click.command()
@click.option(
    "-f",
    "--filename",
    "files",
    multiple=True,
    required=True,
    metavar="FILE",
    type=click.Path(allow_dash=True),
    help="A file with DIJobs and what they need, - for the standard input. Can be repeated.",
)
@click.option("--wait", is_flag=True, help="Wait for the jobs' ends; the exit code is as wait's.")
@options.timeout()
@click.option(
    "--dry-run",
    type=click.Choice(["none", "server"]),
    default="none",
    help="server: the apiserver checks everything and stores nothing.",
)
@click.option("--force-conflicts", is_flag=True, help="Take over fields that others have set.")
@options.output("text", "json", "yaml")
@options.cluster
def command(where: Where, **given: Unpack[Given]) -> None:
    """Create or change the objects in files, by server-side apply.

    Each DIJob is checked before anything is sent; the errors name the field and what to do. A
    warning tells of pods that the cluster will not create as they are written.

    \b
    Example:
      kubectl dijob apply -f dijob.yaml --wait
    """
    check_timeout(given["timeout"], waits=given["wait"], by="--wait")
    bodies = checked(given["files"])
    trial = given["dry_run"] == "server"

    async def act(client: "AsyncClient") -> list[Body]:
        force = given["force_conflicts"]
        found = [await client.apply(body, dry_run=trial, force=force) for body in bodies]
        await warn(client, bodies)
        return found

    applied = call(where, act)
    show(applied, given["output"], trial)
    if given["wait"] and not trial:
        outcomes(where, [body for body in applied if body["kind"] == "DIJob"], given["timeout"])


def checked(files: Sequence[str]) -> list[Body]:
    """All objects of the files, each DIJob checked; warnings go to stderr. Raises CliError."""
    with client_errors():
        from dijob.client.documents import called, check, is_job, load

        found = []
        for file in files:
            for body in load(file):
                if is_job(body):
                    for warning in check(body, called(file)):
                        echo(f"Warning: {called(file)}: {warning}", err=True)
                found.append(body)
        return found


async def warn(client: "AsyncClient", bodies: Sequence[Body]) -> None:
    """Tell of pods that the cluster will not create: it looks at a template only with its pods."""
    from dijob.cli.explain.cluster import misshapen_pods
    from dijob.cli.files import File
    from dijob.client import DijobError
    from dijob.client.documents import is_job

    for body in filter(is_job, bodies):
        # Whoever cannot be asked now says it of the job later.
        with suppress(DijobError):
            for text in await misshapen_pods(client, File("the file", body)):
                echo(f"Warning: {text}", err=True)


def show(applied: Sequence[Body], output: str, trial: bool) -> None:
    """Say what was applied."""
    if output == "text":
        for body in applied:
            said = "applied (dry run: nothing is stored)" if trial else "applied"
            echo(f"{body['kind'].lower()}/{body['metadata']['name']} {said}")
    else:
        listed = {"apiVersion": "v1", "kind": "List", "items": list(applied)}
        echo(text(applied[0] if len(applied) == 1 else listed, output), nl=False)
