"""`kubectl dijob local`: a DIJob on this machine, without Kubernetes."""

from pathlib import Path

import click


@click.command()
@click.argument("file")
@click.option("--logs", default="", metavar="DIR", help="Write each rank's output to a file there.")
@click.option(
    "--timeout", type=click.FloatRange(min=0), default=None, help="Seconds; then it ends."
)
@click.option(
    "--volume",
    "volumes",
    multiple=True,
    metavar="NAME=DIR",
    help="The folder for a volume that a cluster would bring, such as a claim.",
)
@click.pass_context
def command(
    ctx: click.Context,
    /,
    file: str,
    logs: str,
    timeout: float | None,
    volumes: tuple[str, ...],
) -> None:
    """Run the DIJob in a file on this machine, without Kubernetes.

    Each rank is a process group with the variables that its pod would have, and an address of its
    own (127.N.0.3 for rank 0, 127.N.0.4 for rank 1). The programs come from your own PATH, not from
    the image. The output is merged, a rank that fails starts again until backoffLimit, and the end
    is the job's: 0 for Succeeded, 1 for Failed, 6 after --timeout, 130 after Ctrl-C. No process is
    left.

    Volumes: an emptyDir is a temporary folder, a ConfigMap or Secret of the same file is written
    out, and any other is given with --volume. Paths below a mount are replaced in command, args,
    env and workingDir; a path that a program has in its own text is not.

    What it does not do: images, init containers and sidecars, limits of CPU, memory and GPUs,
    probes, network policies, growth and shrinkage, lost pods and nodes, the HTTP server,
    /run/dijob/topology.json. It waits at most 10 s before a rank starts again, where a kubelet
    waits up to 5 minutes. Processes share this machine's file system.

    \b
    Example:
      kubectl dijob local examples/cartpole-dqn.yaml --logs out
      kubectl dijob local job.yaml --volume data=./data --timeout 60
    """
    from dijob.cli.errors import CliError, Exit
    from dijob.cli.files import read
    from dijob.cli.local.session import Choices, run

    end = run(read(file), Choices(logs, timeout, _folders(volumes)))
    codes = {"Succeeded": Exit.OK, "Failed": Exit.FAILED, "TimedOut": Exit.TIMED_OUT}
    if end.how == "Succeeded":
        click.echo(f"dijob: Succeeded: {end.said}", err=True)
        return
    if end.how not in codes:
        click.echo(f"dijob: {end.said}", err=True)
        ctx.exit(INTERRUPTED)
    raise CliError(
        f"{'the job has Failed: ' if end.how == 'Failed' else ''}{end.said}.", codes[end.how]
    )


# As a shell has it: 128 and SIGINT.
INTERRUPTED = 130


def _folders(volumes: tuple[str, ...]) -> dict[str, Path]:
    from dijob.cli.errors import CliError, Exit

    found = {}
    for text in volumes:
        name, is_one, folder = text.partition("=")
        if not is_one or not Path(folder).is_dir():
            raise CliError(f"--volume {text}: it must be NAME=FOLDER, with a folder.", Exit.USAGE)
        found[name] = Path(folder).resolve()
    return found
