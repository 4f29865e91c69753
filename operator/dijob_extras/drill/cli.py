"""`kubectl dijob drill`."""

import sys
from functools import partial
from typing import TYPE_CHECKING, TypedDict, Unpack

import click
from dijob.cli import options
from dijob.cli.calling import Where, call_client
from dijob.cli.errors import CliError, Exit
from dijob.cli.printing import echo, format_object

if TYPE_CHECKING:
    from dijob.client import AsyncClient, Job

    from dijob_extras.drill.recovery import Recovery
    from dijob_extras.drill.victims import Victims

# The values of dijob_extras.drill.victims.DrillKind. `--help` must not import the client.
_KINDS = ("rank", "node", "learner")


class DrillOptions(TypedDict):
    """The options, as click passes them."""

    kill: str
    rank: int | None
    yes: bool
    timeout: float
    output: str


@click.command(name="drill")
@options.job
@click.option(
    "--kill",
    type=click.Choice(_KINDS),
    default=_KINDS[0],
    show_default=True,
    help="rank: one rank; node: all ranks of one node; learner: a rank of the learner task.",
)
@click.option(
    "--rank",
    type=click.IntRange(0),
    default=None,
    metavar="RANK",
    help="The rank to delete (default: the running rank with the highest number). With --kill node,"
    " all ranks on the node of this rank are deleted (default: the node with the most ranks).",
)
@click.option("--yes", is_flag=True, help="Do not ask for confirmation.")
@options.timeout_option(600, "10m")
@options.output_option("text", "json")
@options.cluster_options
def command(where: Where, name: str, **given: Unpack[DrillOptions]) -> None:
    """Delete a rank of a running job on purpose, and measure how the job recovers.

    Each line shows a stage of the recovery, and the seconds since the deletion. The stages are:
    loss detected, deleted ranks running again, all ranks connected, progress reported. The last
    line shows how many iterations were lost. For a program that reports no progress, the drill ends
    when all ranks are connected.

    With --kill node, all ranks on a node are deleted, and the node itself is not changed. The pods
    get their termination grace period. A disruption budget does not prevent a drill. You need
    permission to get, list and watch DIJobs, and to list, watch and delete pods. The exit code is
    0 if the job has recovered.

    \b
    Example:
      kubectl dijob drill test
      kubectl dijob drill test --kill node --yes
    """
    if not given["yes"] and not sys.stdin.isatty():
        raise CliError("drill deletes pods: add --yes to confirm", Exit.USAGE)

    async def choose(client: "AsyncClient") -> "tuple[Job, Victims]":
        from dijob_extras.drill.victims import DrillKind, choose_victims

        job = await client.get(name)
        return job, choose_victims(
            job, await client.pods(job), DrillKind(given["kill"]), given["rank"]
        )

    job, victims = call_client(where, choose)
    echo(victims.describe(job), err=True)
    if not given["yes"] and not click.confirm("Continue?", err=True):
        raise CliError("nothing was deleted")

    async def act(client: "AsyncClient") -> "Recovery":
        from dijob_extras.drill.carry_out import carry_out

        say = partial(echo, err=given["output"] == "json")
        return await carry_out(client, name, victims, given["timeout"], say)

    recovery = call_client(where, act)
    if given["output"] == "json":
        echo(format_object(recovery.as_data(), "json"), nl=False)
    else:
        echo(recovery.summary())
