"""`kubectl dijob from-slurm`: converts a script with dijob_extras.slurm, and writes the DIJob."""

from pathlib import Path
from typing import Any

import click


@click.command(name="from-slurm")
@click.argument("script")
@click.option("--image", default="", help="Image for the pods. It must contain the program.")
@click.option(
    "--to",
    default="",
    metavar="FILE",
    # Not -f or -o: in kubectl these name an input file and an output format.
    help="File to write. Default: standard output.",
)
@click.option(
    "--name", default="", help="Name of the DIJob. Default: --job-name, else the file's name."
)
@click.option(
    "--step",
    type=int,
    default=None,
    help="Which srun call to convert, if there are several. 1 is the first call in the script.",
)
@click.option("--array-index", type=int, default=None, help="Array index of the job to convert.")
def command(script: str, to: str, **chosen: Any) -> None:
    """Convert a Slurm batch script to a DIJob.

    Each srun task becomes a pod. The number of tasks (--ntasks, or --nodes x --ntasks-per-node)
    becomes replicas. Each pod gets the CPUs, memory and GPUs of a task. The torchrun launcher gets
    the variables of `runtime: torch`, and ditask without `--platform slurm` gets the variables of
    `runtime: ditask`. All other programs that srun runs get Slurm's variables (`runtime: slurm`).
    Each line that has no counterpart in a DIJob is quoted in a comment that says what to do. Lines
    that do not affect the program, such as echo and date, are left out. Nothing is created in a
    cluster. SCRIPT "-" is standard input.

    \b
    Example:
      kubectl dijob from-slurm train.sbatch --image my/image:1 --to train.yaml
      kubectl dijob explain train.yaml
    """
    from dijob.cli.calling import client_errors
    from dijob.cli.errors import CliError, Exit
    from dijob.cli.files import job_of, parse_file

    from dijob_extras.slurm import convert, write
    from dijob_extras.slurm.command import job_name
    from dijob_extras.slurm.script import parse_script

    with client_errors():
        from dijob.client.documents import format_path, read_text

        found = parse_script(read_text(script))
    # Standard input has no file name to derive the job's name from.
    named = chosen["name"] or "job-name" in found.given or script == "-"
    wishes = convert.Wishes(
        image=chosen["image"],
        name=chosen["name"] if named else job_name(Path(script).stem),
        step=chosen["step"],
        index=chosen["array_index"],
    )
    shown = format_path(script) if script == "-" else Path(script).name
    text = write.render_file(shown, convert.convert_script(found, wishes))
    # The operator's own validation runs now, so that the file is not rejected later.
    job_of(parse_file("the DIJob of this script", text))
    if not to:
        click.echo(text, nl=False)
        return
    try:
        Path(to).write_text(text)
    except OSError as error:
        raise CliError(f"cannot write {to}: {error.strerror}", Exit.USAGE) from None
    click.echo(f"wrote the DIJob to {to}; check it with: kubectl dijob explain {to}", err=True)
