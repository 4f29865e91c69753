"""`kubectl dijob restart`."""

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict, Unpack

import click

from dijob.cli import options
from dijob.cli.calling import Where, call
from dijob.cli.commands.apply import checked
from dijob.cli.errors import CliError, Exit
from dijob.cli.printing import echo
from dijob.cli.waiting import check_timeout, outcome

if TYPE_CHECKING:
    from dijob.client import AsyncClient

Body = dict[str, Any]


class Given(TypedDict):
    """The options."""

    files: Sequence[str]
    wait: bool
    timeout: float | None
    delete_timeout: float


@click.command()
@options.job
@click.option(
    "-f",
    "--filename",
    "files",
    multiple=True,
    metavar="FILE",
    type=click.Path(allow_dash=True),
    help="The corrected job. Absent: the same as it is in the cluster.",
)
@click.option("--wait", is_flag=True, help="Wait for the job's end; the exit code is as wait's.")
@options.timeout()
@click.option(
    "--delete-timeout",
    type=options.DURATION,
    default=300,
    metavar="DURATION",
    help="How long to wait for the old pods' end; then the new job waits for it. Absent: 5m.",
)
@options.cluster
def command(where: Where, name: str, **given: Unpack[Given]) -> None:
    """Delete a job and make it anew, as it was or as a file says.

    The new one is tried on the apiserver first, so that a mistake in it costs nothing. Then the job
    and its pods are deleted; nothing of its status is kept, and what its program has stored on
    volumes stays. The code of `run --code` is kept, or is as the file says, and is still deleted
    with the job. What goes wrong after the deletion leaves a file with what was to be made.

    \b
    Example:
      kubectl dijob restart test -f dijob.yaml --wait
    """
    check_timeout(given["timeout"], waits=given["wait"], by="--wait")
    others, new = parted(checked(given["files"]), name) if given["files"] else ((), None)
    if new and where.namespace is None:
        where = replace(where, namespace=new["metadata"].get("namespace"))

    async def act(client: "AsyncClient") -> None:
        plan = await client.restart_plan(name, new, beside=others)
        echo(f"deleting dijob/{name} and its pods, to make it anew", err=True)
        with kept(name, client.namespace, plan.bodies):
            await client.carry_out(plan, timeout=given["delete_timeout"])
        echo(f"dijob/{name} restarted")

    call(where, act)
    if given["wait"]:
        outcome(where, name, timeout=given["timeout"])


@contextmanager
def kept(name: str, namespace: str, bodies: Sequence[Body]) -> Iterator[None]:
    """Keep what is to be made in a file as long as it may be lost: the old job is deleted first."""
    from dijob.client import dump

    file = Path(tempfile.mkdtemp(prefix="dijob-restart-")) / f"{name}.yaml"
    file.write_text(dump(*bodies))
    try:
        yield
    except BaseException:
        echo(
            f"dijob/{name} may be deleted, and is not made anew; what it was to be is in {file}:"
            f" kubectl dijob apply -n {namespace} -f {file}",
            err=True,
        )
        raise
    file.unlink()
    file.parent.rmdir()


def parted(bodies: Sequence[Body], name: str) -> tuple[Sequence[Body], Body]:
    """What else is in the files, and the job of this name. Raises CliError where it is not there,
    or another job is.
    """
    jobs = [body for body in bodies if body["kind"] == "DIJob"]
    if [job["metadata"]["name"] for job in jobs] != [name]:
        found = ", ".join(job["metadata"]["name"] for job in jobs) or "none"
        raise CliError(
            f"the files must have the DIJob {name} and no other; they have: {found}", Exit.USAGE
        )
    return [body for body in bodies if body is not jobs[0]], jobs[0]
