"""`kubectl dijob doctor`."""

import click

from dijob.cli import options
from dijob.cli.calling import Where, call, client_errors
from dijob.cli.errors import Exit
from dijob.cli.printing import echo, text


@click.command()
@options.job
@click.option("--stacks", is_flag=True, help="Also where the Python processes of all ranks stand.")
@click.option(
    "--stacks-image", default="", metavar="IMAGE", help="Absent: dijob/stacks of this version."
)
@options.output("text", "json", "yaml")
@options.cluster
def command(where: Where, name: str, stacks: bool, stacks_image: str, output: str) -> None:
    """A checklist of what makes jobs hang or fail, with a remedy for each problem.

    It asks the apiserver, and looks into each pod by exec with your rights (a small Python program,
    which changes nothing). What it may not or cannot see is told as UNKNOWN, with the reason. Exit
    code 0 where no problem was found, 1 where one was.

    --stacks says who waits for whom: the stack of each Python process, grouped by where they stand
    in the program's own code. An ephemeral container with py-spy is added to each pod, which takes
    the right to patch pods/ephemeralcontainers, and a namespace that allows SYS_PTRACE. It stops
    each process for milliseconds, and ends; Kubernetes keeps it in the pod's list until the pod is
    gone. Of pods that share processes, with one another or with their node, only those of
    the rank are looked at. -o json has the whole stacks.

    \b
    Example:
      kubectl dijob doctor test
      kubectl dijob doctor test --stacks
    """
    with client_errors():
        from dijob.cli.doctor import checks
        from dijob.cli.doctor.collect import collect
        from dijob.cli.doctor.of_stacks import data
        from dijob.cli.stacks.take import wanted
    asked = wanted(stacks_image) if stacks or stacks_image else None
    evidence = call(where, lambda client: collect(client, name, asked))
    found = checks.findings(evidence)
    if output == "text":
        echo(checks.text(name, found))
    else:
        echo(text(checks.data(name, found) | data(evidence), output), nl=False)
    if asked and any(not look.problem for look in (evidence.stacks or {}).values()):
        echo(
            f"each pod lists the container {asked.name}, which has ended, until it is gone",
            err=True,
        )
    if checks.problems(found):
        raise click.exceptions.Exit(Exit.FAILED)
