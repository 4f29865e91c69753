"""`kubectl dijob apply`: server-side apply of files.

Server-side apply keeps fields that an autoscaler or another user set, and reports conflicts instead
of overwriting them (docs/decisions/032).
"""

from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypedDict, Unpack

import click

from dijob.cli import options
from dijob.cli.calling import Where, call_client, client_errors
from dijob.cli.commands.wait import check_timeout, wait_for_outcomes
from dijob.cli.errors import CliError, Exit
from dijob.cli.printing import echo, format_object

if TYPE_CHECKING:
    from dijob.client import AsyncClient

Body = dict[str, Any]


class ApplyOptions(TypedDict):
    """The options, as click passes them."""

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
    help="File with DIJobs and the objects that they need, or - for standard input. Repeatable.",
)
@click.option(
    "--wait", is_flag=True, help="Wait until the jobs end; the exit code is that of `wait`."
)
@options.timeout_option()
@click.option(
    "--dry-run",
    type=click.Choice(["none", "server"]),
    default="none",
    help="server: the API server validates the objects and stores nothing.",
)
@click.option(
    "--force-conflicts", is_flag=True, help="Take over fields that other field managers own."
)
@options.output_option("text", "json", "yaml")
@options.cluster_options
def apply_command(where: Where, **given: Unpack[ApplyOptions]) -> None:
    """Create or update the objects in files with server-side apply.

    Every DIJob is validated before anything is sent. An error names the field and says what to
    change. A dry run shows whether the pods of the jobs are valid. If a pod is invalid, nothing is
    applied. A job that has ended does not start again, so the command fails if the files contain
    such a job.

    \b
    Example:
      kubectl dijob apply -f dijob.yaml --wait
    """
    check_timeout(given["timeout"], waits=given["wait"], by="--wait")
    bodies = read_valid_objects(given["files"])
    trial = given["dry_run"] == "server"

    async def act(client: "AsyncClient") -> list[Body]:
        await _reject_invalid_pods(client, bodies)
        # Objects are applied in the order of the files, because the objects that a job needs
        # usually come before the job.
        force = given["force_conflicts"]
        return [await client.apply_body(body, dry_run=trial, force=force) for body in bodies]

    applied = call_client(where, act)
    print_applied(applied, given["output"], trial)
    jobs = [body for body in applied if body["kind"] == "DIJob"]
    ended = [body for body in jobs if _has_ended(body)]
    # A dry run creates no job, so there is nothing to wait for.
    if given["wait"] and not trial:
        wait_for_outcomes(where, [body for body in jobs if body not in ended], given["timeout"])
    if ended:
        raise CliError("; ".join(map(_describe_ended, ended)))


def _has_ended(body: Body) -> bool:
    from dijob.client import Job

    return Job(body).finished


def _describe_ended(body: Body) -> str:
    """Return the message for an applied job that has already ended, including the next step."""
    name, phase = body["metadata"]["name"], body["status"]["phase"]
    return (
        f"dijob/{name} has ended ({phase}) and will not start again. To run it again, use"
        f" `kubectl dijob restart {name} -f FILE`, or apply it under a new name"
    )


def read_valid_objects(files: Sequence[str]) -> list[Body]:
    """Read all objects in the files and validate each DIJob. Warnings go to stderr.

    Raises CliError for a file or DIJob that is invalid.
    """
    with client_errors():
        from dijob.client.documents import check, format_path, is_job, load

        found = []
        for file in files:
            for body in load(file):
                if is_job(body):
                    for warning in check(body, format_path(file)):
                        echo(f"Warning: {format_path(file)}: {warning}", err=True)
                found.append(body)
        return found


async def _reject_invalid_pods(client: "AsyncClient", bodies: Sequence[Body]) -> None:
    """Raise CliError if the cluster would reject the pods of a job as invalid.

    The API server stores any pod template without validating it. If a template is invalid, the API
    server rejects the pods only when the operator creates them. Such a job could never run. A dry
    run of one pod detects this early.
    """
    from dijob.cli.explain.cluster import misshapen_pods
    from dijob.cli.files import JobFile
    from dijob.client import DijobError
    from dijob.client.documents import is_job

    for body in filter(is_job, bodies):
        rejected: list[str] = []
        # It is not an error if the dry run is impossible, for example because a permission is
        # missing. If a pod is rejected later, the job's conditions report it.
        with suppress(DijobError):
            rejected = await misshapen_pods(client, JobFile("the file", body))
        if rejected:
            raise CliError(f"nothing was applied: {'; '.join(rejected)}", Exit.REFUSED)


def print_applied(applied: Sequence[Body], output: str, trial: bool) -> None:
    """Print the applied objects as text, JSON or YAML."""
    if output == "text":
        for body in applied:
            result = "applied (server dry run)" if trial else "applied"
            echo(f"{body['kind'].lower()}/{body['metadata']['name']} {result}")
    else:
        # As in kubectl, a single object is printed by itself, and several objects are printed as a
        # List.
        listed = {"apiVersion": "v1", "kind": "List", "items": list(applied)}
        echo(format_object(applied[0] if len(applied) == 1 else listed, output), nl=False)
