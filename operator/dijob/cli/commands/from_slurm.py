"""`kubectl dijob from-slurm`: a DIJob of a batch script."""

from pathlib import Path
from typing import Any

import click


@click.command(name="from-slurm")
@click.argument("script")
@click.option("--image", default="", help="The pods' image, which has the program.")
@click.option(
    "--to",
    default="",
    metavar="FILE",
    help="The file to write. Absent: standard output. (-f names what is read, -o a form, as with"
    " kubectl.)",
)
@click.option("--name", default="", help="The DIJob's name. Absent: --job-name, else the file's.")
@click.option("--step", type=int, default=None, help="Which srun, from 1 on, where it has several.")
@click.option("--array-index", type=int, default=None, help="Which index of a job array.")
def command(script: str, to: str, **chosen: Any) -> None:
    """Make a DIJob of a batch script for Slurm.

    Each task of srun is a pod: --ntasks (or --nodes x --ntasks-per-node) is replicas, and CPUs,
    memory and GPUs are a pod's. `ditask --platform slurm` and other programs get Slurm's variables
    (runtime: slurm), torchrun those of torch. A comment quotes each line that has no counterpart,
    and says what to do. Nothing is created. SCRIPT "-" is standard input.

    \b
    Example:
      kubectl dijob from-slurm train.sbatch --image my/image:1 --to train.yaml
      kubectl dijob explain train.yaml
    """
    from dijob.cli.calling import client_errors
    from dijob.cli.errors import CliError, Exit
    from dijob.cli.files import parsed
    from dijob.cli.jobs import job_of
    from dijob.cli.slurm import convert, write
    from dijob.cli.slurm.command import job_name
    from dijob.cli.slurm.script import read

    with client_errors():
        from dijob.client.documents import called, read_text

        found = read(read_text(script))
    named = chosen["name"] or "job-name" in found.given or script == "-"
    wishes = convert.Wishes(
        image=chosen["image"],
        name=chosen["name"] if named else job_name(Path(script).stem),
        step=chosen["step"],
        index=chosen["array_index"],
    )
    shown = called(script) if script == "-" else Path(script).name
    text = write.written(shown, convert.convert(found, wishes))
    job_of(parsed("the DIJob of this script", text))
    if not to:
        click.echo(text, nl=False)
        return
    try:
        Path(to).write_text(text)
    except OSError as error:
        raise CliError(f"{to} cannot be written: {error.strerror}.", Exit.USAGE) from None
    click.echo(f"{to} has the DIJob; kubectl dijob explain {to} says what it becomes", err=True)
