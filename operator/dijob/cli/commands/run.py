"""`kubectl dijob run`: creates a job without a manifest, or replaces a job's code.

The local code is stored in ConfigMaps that the job owns. No image has to be built, and nothing has
to be deleted afterwards (docs/decisions/032, 067).
"""

import asyncio
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypedDict, Unpack

import click

from dijob.cli import options
from dijob.cli.asked import check_command, check_cpu, check_memory
from dijob.cli.calling import Narrator, Where, call_client, client_errors, print_outcome
from dijob.cli.commands.lifecycle import keep_manifests
from dijob.cli.commands.logs import print_logs
from dijob.cli.commands.wait import check_timeout, wait_for_outcome
from dijob.cli.errors import CliError, Exit
from dijob.cli.printing import echo, format_object

if TYPE_CHECKING:
    from dijob.client import AsyncClient, Job, Outcome
    from dijob.client.code import Code

Body = dict[str, Any]
Pairs = Sequence[tuple[str, str]]

_GIVEN = click.core.ParameterSource.COMMANDLINE


class RunControl(TypedDict):
    """The options that control the command and do not become part of the job."""

    code: str | None
    replace: bool
    follow: bool | None
    wait: bool
    watch: bool
    timeout: float | None
    dry_run: bool
    output: str


def _pairs(
    separator: str, form: str, *, path: bool = False, optional: bool = False
) -> Callable[[click.Context, click.Parameter, Sequence[str]], Pairs]:
    """Return a callback that splits the values of an option, such as NAME=VALUE.

    If `path` is true, the second part must be an absolute path. If `optional` is true, the second
    part may be missing.
    """

    def split(context: click.Context, option: click.Parameter, given: Sequence[str]) -> Pairs:
        found = []
        for one in given:
            name, found_separator, value = one.partition(separator)
            complete = value.startswith("/") if path else bool(found_separator)
            if not name or not (complete or (optional and not found_separator)):
                raise CliError(f"{option.opts[0]} {one} is invalid: write {form}", Exit.USAGE)
            found.append((name, value))
        return found

    return split


# The options that become the manifest. These options have the same names as RunRequest's fields.
# All other options control this command.
_JOB_OPTIONS = (
    click.option("--image", help="Image of all pods."),
    click.option(
        "--replicas",
        type=click.IntRange(min=1),
        help="Number of pods. Default: --max-replicas, else --min-replicas, else 1.",
    ),
    click.option(
        "--min-replicas",
        type=click.IntRange(min=1),
        help="Start when this many pods have addresses.",
    ),
    click.option(
        "--max-replicas", type=click.IntRange(min=1), help="The job can be scaled up to this size."
    ),
    click.option("--workers", type=click.IntRange(min=1), help="Number of processes in each pod."),
    click.option(
        "--cpu", metavar="QUANTITY", help="CPU request of each pod, for example 500m or 2."
    ),
    click.option(
        "--memory",
        metavar="QUANTITY",
        help="Memory request and limit of each pod, for example 4Gi.",
    ),
    click.option(
        "--gpus", type=click.IntRange(min=0), default=0, help="GPUs (nvidia.com/gpu) of each pod."
    ),
    click.option(
        "--topology",
        type=click.Choice(["mesh", "star", "alone"]),
        help="How DI-engine's processes are connected.",
    ),
    click.option(
        "--mq", metavar="TYPE", help="Message queue: nng, redis, torchrpc:cpu or torchrpc:cuda."
    ),
    click.option(
        "--env",
        multiple=True,
        metavar="NAME=VALUE",
        callback=_pairs("=", "NAME=VALUE"),
        help="Environment variable to set in all pods. Repeatable.",
    ),
    click.option(
        "--volume",
        "volumes",
        multiple=True,
        metavar="CLAIM:/PATH",
        callback=_pairs(":", "CLAIM:/PATH", path=True),
        help="PersistentVolumeClaim to mount in all pods. Repeatable.",
    ),
    click.option(
        "--secret",
        "secrets",
        multiple=True,
        metavar="NAME[:/PATH]",
        callback=_pairs(":", "NAME or NAME:/PATH", path=True, optional=True),
        help="Secret whose keys become environment variables, or files in the folder"
        " PATH. Repeatable.",
    ),
    click.option(
        "--label",
        "labels",
        multiple=True,
        metavar="KEY=VALUE",
        callback=_pairs("=", "KEY=VALUE"),
        help="Label of the DIJob, for example the name of its queue. Repeatable.",
    ),
    click.option(
        "--node-selector",
        multiple=True,
        metavar="KEY=VALUE",
        callback=_pairs("=", "KEY=VALUE"),
        help="Only use nodes with this label. Repeatable.",
    ),
    click.option(
        "--service-account",
        metavar="NAME",
        help="ServiceAccount of all pods. Default: the account `default` of the namespace.",
    ),
    click.option(
        "--backoff-limit",
        type=click.IntRange(min=0),
        help="How many restarts after failures are allowed before the job fails. Default: 3.",
    ),
    click.option(
        "--deadline",
        type=options.DURATION,
        metavar="DURATION",
        help="The job fails if it has not ended within this time, for example 12h.",
    ),
    click.option(
        "--startup-deadline",
        type=options.DURATION,
        metavar="DURATION",
        help="The job fails if it is not running within this time.",
    ),
    click.option(
        "--ttl",
        type=options.DURATION,
        metavar="DURATION",
        help="Delete the job this long after its end, for example 1d. Default: keep it.",
    ),
)


def _job_options(function: Callable[..., Any]) -> Callable[..., Any]:
    for option in reversed(_JOB_OPTIONS):
        function = option(function)
    return function


@click.command()
@click.argument("name")
@_job_options
@click.option(
    "--code",
    type=click.Path(),
    metavar="DIR|FILE",
    help="Code to put into /work, the working directory. If it is larger than 1 MiB, it is "
    "compressed, and must then fit into 16 MiB.",
)
@click.option(
    "--replace",
    is_flag=True,
    help="If a job with this name exists, delete it first. If neither --image nor COMMAND is given,"
    " replace only its code.",
)
@click.option(
    "-f/-F",
    "--follow/--no-follow",
    default=None,
    help="Print the logs until the job ends. Default: only with --replace.",
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
@click.argument("command", nargs=-1, type=click.UNPROCESSED, metavar="-- COMMAND...")
@click.pass_context
def run_command(
    context: click.Context, /, where: Where, name: str, command: Sequence[str], **given: Any
) -> None:
    """Create a job from an image and a command, optionally with your code.

    The command runs in each pod as written, without a shell. The ConfigMaps with the code are
    deleted with the job. The output of --dry-run is a starting point for your own manifest.

    After you have changed the code, use `run NAME --code DIR --replace`. This deletes the job and
    its pods, and creates the job again with the new code. Then it prints the job's logs until the
    job ends. Ctrl-C ends only the command; the job keeps running.

    \b
    Example:
      kubectl dijob run test --image my/image --replicas 4 --code src -- \\
        ditask --package . --main main.main
      kubectl dijob run test --code src --replace
    """
    fields = [str(option) for option in RunControl.__annotations__]
    control = {key: given.pop(key) for key in fields}
    shaped = [
        param.opts[0]
        for param in context.command.params
        if param.name in given and context.get_parameter_source(param.name) is _GIVEN
    ]
    if control["replace"] and control["code"] and not command and not shaped:
        _run(where, name, None, **control)
        return
    if not given["image"] or not command:
        raise CliError(
            f"--image and a COMMAND are required{f' with {shaped[0]}' if shaped else ''}: only"
            " `run NAME --code DIR --replace` reuses those of the existing job",
            Exit.USAGE,
        )
    check_cpu(given["cpu"])
    check_memory(given["memory"])
    check_command(command)
    _run(where, name, build_bodies(name, command, control["code"], given), **control)


def build_bodies(
    name: str, command: Sequence[str], code: str | None, given: dict[str, Any]
) -> list[Body]:
    """Return the validated manifests of the job and its ConfigMaps. Warnings go to stderr. Raises
    CliError.
    """
    with client_errors():
        from dijob.client.code import read_code
        from dijob.client.documents import check
        from dijob.client.running import RunRequest, build_manifests

        named = {key: dict(given[key]) for key in ("env", "labels", "node_selector")}
        wanted = RunRequest(name, command=command, **(given | named))
        bodies = build_manifests(wanted, read_code(code) if code else None)
        for warning in check(bodies[0]):
            echo(f"Warning: {warning}", err=True)
        return bodies


def _run(
    where: Where, name: str, bodies: Sequence[Body] | None, **given: Unpack[RunControl]
) -> None:
    """Create or replace the job, and wait as requested. Without `bodies`, only replace its code."""
    follow = given["replace"] if given["follow"] is None else given["follow"]
    follow = follow and not (given["wait"] or given["watch"])
    waits = given["wait"] or given["watch"] or follow
    check_timeout(given["timeout"], waits=bool(waits), by="--wait or --watch")
    if given["dry_run"]:
        _print_manifests(bodies, given["output"])
        return
    code = _read_code(str(given["code"])) if bodies is None else None
    call_client(where, lambda client: _start(client, name, bodies or code, given["replace"]))
    if given["watch"]:
        print_outcome(call_client(where, lambda client: _watch_job(client, name, given["timeout"])))
    elif follow:
        _follow(where, name, given["timeout"])
    elif given["wait"]:
        wait_for_outcome(where, name, timeout=given["timeout"])


async def _start(
    client: "AsyncClient", name: str, wanted: "Sequence[Body] | Code | None", replace: bool
) -> None:
    from dijob.client.code import Code
    from dijob.client.running import replace_code

    if isinstance(wanted, Code):
        wanted = replace_code((await client.get(name)).body, wanted)
    plan = await client.run_plan(wanted or (), replace=replace)
    if not plan.replaces:
        await client.carry_out(plan)
        echo(f"dijob/{name} created")
        return
    echo(f"deleting dijob/{name} and its pods", err=True)
    with keep_manifests(name, client.namespace, plan.bodies):
        await client.carry_out(plan)
    echo(f"dijob/{name} replaced")


def _read_code(place: str) -> "Code":
    with client_errors():
        from dijob.client.code import read_code

        return read_code(place)


def _follow(where: Where, name: str, timeout: float | None) -> None:
    """Print the logs until the job ends. Until the job is running, print its state on stderr."""
    narrate = Narrator()

    def seen(job: "Job") -> None:
        if job.phase != "Running":
            narrate(job)

    async def act(client: "AsyncClient") -> "Outcome":
        waiting = asyncio.create_task(client.wait(name, timeout=timeout, seen=seen))
        printing = asyncio.create_task(print_logs(client, name))
        try:
            # An error in either task, such as a missing permission to read logs, ends both.
            outcome, _ = await asyncio.gather(waiting, printing)
            return outcome
        finally:
            waiting.cancel()
            printing.cancel()
            await asyncio.gather(waiting, printing, return_exceptions=True)

    try:
        print_outcome(call_client(where, act))
    except KeyboardInterrupt:
        echo(f"dijob/{name} keeps running: see kubectl dijob logs {name} -f", err=True)
        raise


async def _watch_job(client: "AsyncClient", name: str, timeout: float | None) -> "Outcome":
    from dijob.cli.watching.live import watch_job

    return await watch_job(client, name, timeout)


def _print_manifests(bodies: Sequence[Body] | None, kind: str) -> None:
    if bodies is None:
        raise CliError("--dry-run requires --image and a COMMAND", Exit.USAGE)
    if kind == "json":
        listed = {"apiVersion": "v1", "kind": "List", "items": list(bodies)}
        echo(format_object(bodies[0] if len(bodies) == 1 else listed, kind), nl=False)
        return
    # The output is several YAML documents rather than a List, because it is meant to be edited.
    from dijob.client import dump

    echo(dump(*bodies), nl=False)
