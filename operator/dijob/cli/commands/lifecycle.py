"""`kubectl dijob scale`, `suspend`, `resume`, `restart` and `delete`.

Most of a running job's spec cannot be changed, and an ended job does not start again. So correcting
a job requires a new job with the same name, which `restart` creates. The new job cannot start while
pods of the old job exist, so `delete` and `restart` wait until these pods are gone.
"""

import tempfile
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict, Unpack

import click

from dijob.cli import options
from dijob.cli.calling import Where, call_client
from dijob.cli.commands.apply import read_valid_objects
from dijob.cli.commands.wait import check_timeout, wait_for_outcome
from dijob.cli.errors import CliError, Exit
from dijob.cli.printing import echo
from dijob.names import MAX_REPLICAS

if TYPE_CHECKING:
    from dijob.client import AsyncClient

Body = dict[str, Any]
_Act = Callable[["AsyncClient", str], Awaitable[object]]


class RestartOptions(TypedDict):
    """The options, as click passes them."""

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
    help="File with the corrected job. Default: the job as it is in the cluster. Repeatable.",
)
@click.option(
    "--wait", is_flag=True, help="Wait until the job ends; the exit code is that of `wait`."
)
@options.timeout_option()
@click.option(
    "--delete-timeout",
    type=options.DURATION,
    default=300,
    metavar="DURATION",
    help="How long to wait for the old pods to terminate before the job is recreated. Default: 5m.",
)
@options.cluster_options
def restart_command(where: Where, name: str, **given: Unpack[RestartOptions]) -> None:
    """Delete a job and recreate it, unchanged or from a file.

    A server-side dry run validates the new job first, so nothing is deleted if the new job is
    invalid. Then the job and its pods are deleted. The status is lost; data on volumes stays. The
    ConfigMap of `run --code` is recreated with the job. If the file contains this ConfigMap, the
    version in the file is used. The new job owns the ConfigMap. If the recreation fails after the
    deletion, the manifest is kept in a local file.

    \b
    Example:
      kubectl dijob restart test -f dijob.yaml --wait
    """
    check_timeout(given["timeout"], waits=given["wait"], by="--wait")
    others, new = (
        split_objects(read_valid_objects(given["files"]), name) if given["files"] else ((), None)
    )
    # As with kubectl, a namespace in the file is used if the command line names none.
    if new and where.namespace is None:
        where = replace(where, namespace=new["metadata"].get("namespace"))

    async def act(client: "AsyncClient") -> None:
        plan = await client.restart_plan(name, new, beside=others)
        echo(f"deleting dijob/{name} and its pods", err=True)
        with keep_manifests(name, client.namespace, plan.bodies):
            await client.carry_out(plan, timeout=given["delete_timeout"])
        echo(f"dijob/{name} restarted")

    call_client(where, act)
    if given["wait"]:
        wait_for_outcome(where, name, timeout=given["timeout"])


@contextmanager
def keep_manifests(name: str, namespace: str, bodies: Sequence[Body]) -> Iterator[None]:
    """Keep the manifests in a file while the context is active.

    The old job is deleted before the new one is created. Without the file, an error or Ctrl-C in
    between would lose the job. The file is deleted on success.
    """
    from dijob.client import dump

    # The file is written before anything is deleted, so nothing is lost even if the process is
    # killed.
    file = Path(tempfile.mkdtemp(prefix="dijob-restart-")) / f"{name}.yaml"
    file.write_text(dump(*bodies))
    try:
        yield
    # Ctrl-C is a BaseException, and can come between the deletion and the creation.
    except BaseException:
        echo(
            f"dijob/{name} was not recreated, and may have been deleted; recreate it from the saved"
            f" manifest: kubectl dijob apply -n {namespace} -f {file}",
            err=True,
        )
        raise
    file.unlink()
    file.parent.rmdir()


def split_objects(bodies: Sequence[Body], name: str) -> tuple[Sequence[Body], Body]:
    """Separate the job of this name from the other objects.

    Raises CliError (USAGE) if the job is missing, or if the objects contain another DIJob.
    """
    # A file with a different job is probably a mistake: one job would be deleted, and another one
    # created.
    jobs = [body for body in bodies if body["kind"] == "DIJob"]
    if [job["metadata"]["name"] for job in jobs] != [name]:
        found = ", ".join(job["metadata"]["name"] for job in jobs) or "none"
        raise CliError(
            f"the files must contain the DIJob {name} and no other; found: {found}", Exit.USAGE
        )
    return [body for body in bodies if body is not jobs[0]], jobs[0]


@click.command()
@options.some_jobs
@click.option("--wait/--no-wait", default=True, help="Wait until the pods are gone (the default).")
@options.timeout_option(300, "5m")
@options.cluster_options
def delete_command(where: Where, names: Sequence[str], wait: bool, timeout: float) -> None:
    """Delete jobs and their pods, and wait until the pods are gone.

    \b
    Example:
      kubectl dijob delete test
    """

    async def act(client: "AsyncClient") -> None:
        # Jobs are deleted one after the other. If an error occurs, the printed lines show which
        # jobs have been deleted.
        for name in names:
            await client.delete(name, timeout=timeout if wait else None)
            echo(f"dijob/{name} deleted")

    call_client(where, act)


@click.command()
@options.job
@click.option(
    "--replicas", type=click.IntRange(1, MAX_REPLICAS), required=True, help="Number of pods."
)
@options.cluster_options
def scale_command(where: Where, name: str, replicas: int) -> None:
    """Change the number of pods of a job.

    New ranks join the running ones. When the job shrinks, the highest ranks leave. In a job with
    tasks, --replicas is the number of pods of the last task.

    \b
    Example:
      kubectl dijob scale test --replicas 5
    """

    async def act(client: "AsyncClient") -> None:
        await _refuse_ended(client, name)
        await client.patch_scale(name, replicas)

    # As in `kubectl scale`, the scale subresource is used, so that permission to scale is enough.
    call_client(where, act)
    echo(f"dijob/{name} scaled to {replicas}")


async def _refuse_ended(client: "AsyncClient", name: str) -> None:
    """Raise CliError if the job has ended, because a new size would have no effect."""
    from dijob.client import Refused

    try:
        job = await client.get(name)
    # A user with permission to scale a job may lack the permission to read it.
    except Refused:
        return
    if job.finished:
        raise CliError(
            f"dijob/{name} has ended ({job.phase}), so its size has no effect: run it again with"
            f" `kubectl dijob restart {name} -f FILE`"
        )


def _build_command(act: _Act, done: str, help: str) -> click.Command:
    """Return a command that takes job names. `done` is the word printed for each job."""

    @click.command(help=help)
    @options.some_jobs
    @options.cluster_options
    def command(where: Where, names: Sequence[str]) -> None:
        async def each(client: "AsyncClient") -> None:
            # Jobs are handled one after the other. If an error occurs, the printed lines show which
            # jobs are done.
            for name in names:
                await act(client, name)
                echo(f"dijob/{name} {done}")

        call_client(where, each)

    return command


suspend_command = _build_command(
    lambda client, name: client.suspend(name),
    "suspended",
    """Suspend jobs: delete their pods, and keep the jobs until they are resumed.

    The pods stop within their termination grace period. Other jobs can then use the capacity
    that these pods occupied. The suspended jobs keep their ranks.

    \b
    Example:
      kubectl dijob suspend test
    """,
)


resume_command = _build_command(
    lambda client, name: client.resume(name),
    "resumed",
    """Resume suspended jobs: create their pods again, with the same ranks.

    Programs that have written checkpoints can continue from these checkpoints.

    \b
    Example:
      kubectl dijob resume test
    """,
)
