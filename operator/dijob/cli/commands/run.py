"""`kubectl dijob run`: creates a job without a manifest.

The local code is stored in a ConfigMap that the job owns, so that no image has to be built and
nothing has to be deleted afterwards (docs/decisions/032).
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypedDict, Unpack

import click

from dijob.cli import options
from dijob.cli.calling import Where, call_client, client_errors, print_outcome
from dijob.cli.commands.wait import check_timeout, wait_for_outcome
from dijob.cli.errors import CliError, Exit
from dijob.cli.printing import echo, format_object

if TYPE_CHECKING:
    from dijob.cli.running.build import BuildRequest
    from dijob.client import AsyncClient, Outcome

Body = dict[str, Any]
# The options that become the manifest. All others control this command.
_JOB_OPTIONS = (
    "image",
    "replicas",
    "workers",
    "cpu",
    "memory",
    "gpus",
    "topology",
    "mq",
    "env",
    "volumes",
)


class RunOptions(TypedDict):
    """The options that are not about the job itself."""

    code: str | None
    wait: bool
    watch: bool
    timeout: float | None
    dry_run: bool
    output: str


@click.command()
@click.argument("name")
@click.option("--image", required=True, help="Image of all pods.")
@click.option(
    "--replicas",
    type=click.IntRange(min=1),
    default=1,
    show_default=True,
    help="Number of pods.",
)
@click.option("--workers", type=click.IntRange(min=1), help="Number of processes in each pod.")
@click.option("--cpu", metavar="QUANTITY", help="CPU request of each pod, for example 500m or 2.")
@click.option(
    "--memory", metavar="QUANTITY", help="Memory request and limit of each pod, for example 4Gi."
)
@click.option(
    "--gpus", type=click.IntRange(min=0), default=0, help="GPUs (nvidia.com/gpu) of each pod."
)
@click.option(
    "--topology",
    type=click.Choice(["mesh", "star", "alone"]),
    help="How DI-engine's processes are connected.",
)
@click.option(
    "--mq", metavar="TYPE", help="Message queue: nng, redis, torchrpc:cpu or torchrpc:cuda."
)
@click.option(
    "--env",
    multiple=True,
    metavar="NAME=VALUE",
    help="Environment variable to set in all pods. Repeatable.",
)
@click.option(
    "--volume",
    "volumes",
    multiple=True,
    metavar="CLAIM:/PATH",
    help="PersistentVolumeClaim to mount in all pods. Repeatable.",
)
@click.option(
    "--code",
    type=click.Path(),
    metavar="DIR|FILE",
    help="Code to put into /work, the working directory. Stored in a ConfigMap, up to 1 MiB.",
)
@click.option(
    "--wait", is_flag=True, help="Wait until the job ends; the exit code is that of `wait`."
)
@click.option("--watch", is_flag=True, help="Show the job until it ends, as `watch` does.")
@options.timeout_option()
@click.option("--dry-run", is_flag=True, help="Print the objects without contacting a cluster.")
@options.output_option("yaml", "json")
@options.cluster_options
# click must not process COMMAND, because the options in it belong to the user's program.
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED, metavar="-- COMMAND...")
def run_command(where: Where, name: str, command: Sequence[str], **given: Any) -> None:
    """Create a job from an image and a command, with your code.

    The command runs in each pod as written, without a shell. The ConfigMap with the code is deleted
    with the job. The output of --dry-run is a starting point for a manifest of your own.

    \b
    Example:
      kubectl dijob run test --image my/image --replicas 4 --code src -- \\
        ditask --package . --main main.main
    """
    with client_errors():
        from dijob.cli.running.build import BuildRequest

    job = BuildRequest(name=name, command=command, **{key: given.pop(key) for key in _JOB_OPTIONS})
    _create_and_wait(where, job, **given)


def _create_and_wait(where: Where, wanted: "BuildRequest", **given: Unpack[RunOptions]) -> None:
    waits = given["wait"] or given["watch"]
    check_timeout(given["timeout"], waits=waits, by="--wait or --watch")
    bodies = valid_manifests(wanted, given["code"])
    if given["dry_run"]:
        _print_manifests(bodies, given["output"])
        return
    call_client(where, lambda client: create_objects(client, bodies))
    if given["watch"]:
        print_outcome(
            call_client(where, lambda client: _watch_job(client, wanted.name, given["timeout"]))
        )
    elif given["wait"]:
        wait_for_outcome(where, wanted.name, timeout=given["timeout"])


def valid_manifests(wanted: "BuildRequest", code: str | None) -> list[Body]:
    """Return the validated manifests of the job and its ConfigMap. Warnings go to stderr. Raises
    CliError.
    """
    with client_errors():
        from dijob.cli.running.build import build_manifests
        from dijob.cli.running.code import read_code
        from dijob.client.documents import check

        bodies = build_manifests(wanted, read_code(code) if code else None)
        for warning in check(bodies[0]):
            echo(f"Warning: {warning}", err=True)
        return bodies


async def create_objects(client: "AsyncClient", bodies: Sequence[Body]) -> None:
    """Create the job and the objects that it owns.

    Raises CliError (REFUSED) if a job of this name exists, or if its ConfigMap belongs to another
    owner.
    """
    from dijob.client import NotFound

    job, *owned = bodies
    name = job["metadata"]["name"]
    # `run` only creates. Updating an existing job by accident could restart its pods.
    try:
        await client.get(name)
    except NotFound:
        pass
    else:
        raise CliError(
            f"the DIJob {name} already exists in namespace {client.namespace}: choose another name,"
            f" or delete it (kubectl dijob delete {name})",
            Exit.REFUSED,
        )
    for body in owned:
        await _check_owner(client, body["metadata"]["name"], name)
    # All objects are validated before the first is created, so that a rejected ConfigMap does not
    # leave a job without its code.
    for body in bodies:
        await client.apply(body, dry_run=True, force=True)
    made = await client.apply(job)
    # The owner reference needs the job's uid, so the job is created first. Its pods wait for the
    # ConfigMap that they mount.
    for body in owned:
        await client.apply_owned(body, made)
    echo(f"dijob/{name} created")


async def _check_owner(client: "AsyncClient", config_map: str, job: str) -> None:
    """Raise CliError if the ConfigMap exists and does not belong to a job of this name.

    Without this check, the ConfigMap would be overwritten now, and later be deleted with the job.
    """
    from dijob.client import NotFound
    from dijob.client.connection import ClientRequest
    from dijob.client.resources import CONFIG_MAPS

    try:
        path = CONFIG_MAPS.path_of(client.namespace, config_map)
        found = await client.connection.json(ClientRequest("GET", path))
    except NotFound:
        return
    # The ConfigMap of a deleted job of this name may still exist, and may be replaced.
    owners = found["metadata"].get("ownerReferences") or ()
    if ("DIJob", job) not in {(owner["kind"], owner["name"]) for owner in owners}:
        raise CliError(
            f"the ConfigMap {config_map} in namespace {client.namespace} does not belong to this"
            " job, and the code would overwrite it: choose another name for the job",
            Exit.REFUSED,
        )


async def _watch_job(client: "AsyncClient", name: str, timeout: float | None) -> "Outcome":
    from dijob.cli.watching.live import watch_job

    return await watch_job(client, name, timeout)


def _print_manifests(bodies: Sequence[Body], kind: str) -> None:
    if kind == "json":
        listed = {"apiVersion": "v1", "kind": "List", "items": list(bodies)}
        echo(format_object(bodies[0] if len(bodies) == 1 else listed, kind), nl=False)
        return
    # The output is several YAML documents rather than a List, because it is meant to be edited.
    from dijob.client import dump

    echo(dump(*bodies), nl=False)
