"""`kubectl dijob local`: runs a job with local processes, which dijob_extras.local manages."""

from pathlib import Path

import click


@click.command()
@click.argument("file")
@click.option("--logs", default="", metavar="DIR", help="Folder for one log file per rank.")
@click.option(
    "--timeout",
    type=click.FloatRange(min=0),
    default=None,
    help="Stop all ranks after this many seconds.",
)
@click.option(
    "--volume",
    "volumes",
    multiple=True,
    metavar="NAME=DIR",
    help="Local folder for a volume that a cluster would provide, such as a claim. Repeatable.",
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
    """Read a DIJob from a file and run it on this machine, without Kubernetes.

    Each rank is a process group with the environment variables of its pod and its own address
    (127.N.0.3 for rank 0, 127.N.0.4 for rank 1). Programs are taken from your PATH, not from the
    image. The output of all ranks is merged. A failed rank is restarted until backoffLimit is
    exceeded. The exit code is 0 for Succeeded, 1 for Failed, 6 after --timeout and 130 after
    Ctrl-C. No process is left running.

    Volumes: an emptyDir becomes a temporary folder. If the job's file contains the ConfigMap or
    Secret of a volume, the keys of this object become files. Any other volume needs --volume. Mount
    paths are replaced in command, args, env and workingDir, but not inside the program's own files.

    Not supported: images, init containers and sidecars, resource limits (CPU, memory, GPUs),
    probes, network policies, scaling, lost pods and nodes, the HTTP server, and the file
    topology.json in /run/dijob. A rank is restarted after at most 10 s, whereas a kubelet waits up
    to 5 minutes. All processes share the file system of this machine.

    \b
    Example:
      kubectl dijob local examples/cartpole-dqn.yaml --logs out
      kubectl dijob local job.yaml --volume data=./data --timeout 60
    """
    from dijob.cli.errors import CliError, Exit
    from dijob.cli.files import read_file

    from dijob_extras.local.session import Choices, run_job_locally

    end = run_job_locally(read_file(file), Choices(logs, timeout, _parse_volumes(volumes)))
    codes = {"Succeeded": Exit.OK, "Failed": Exit.FAILED, "TimedOut": Exit.TIMED_OUT}
    if end.how == "Succeeded":
        click.echo(f"dijob: Succeeded: {end.said}", err=True)
        return
    # Ctrl-C is what the user wanted, not an error.
    if end.how not in codes:
        click.echo(f"dijob: {end.said}", err=True)
        ctx.exit(INTERRUPTED)
    raise CliError(f"{'the job failed: ' if end.how == 'Failed' else ''}{end.said}", codes[end.how])


# The shell convention: 128 + SIGINT.
INTERRUPTED = 130


def _parse_volumes(volumes: tuple[str, ...]) -> dict[str, Path]:
    from dijob.cli.errors import CliError, Exit

    found = {}
    for text in volumes:
        name, is_one, folder = text.partition("=")
        if not is_one or not Path(folder).is_dir():
            raise CliError(
                f"--volume {text} is invalid: write NAME=DIR with an existing folder", Exit.USAGE
            )
        # Make the path absolute, because a rank may have a different working directory.
        found[name] = Path(folder).resolve()
    return found
