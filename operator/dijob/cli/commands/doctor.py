"""`kubectl dijob doctor`: prints the findings of the checks in dijob.cli.doctor."""

import click

from dijob.cli import options
from dijob.cli.calling import Where, call_client, client_errors
from dijob.cli.errors import Exit
from dijob.cli.printing import echo, format_object


@click.command()
@options.job
@click.option("--stacks", is_flag=True, help="Also show the Python stacks of all ranks.")
@click.option(
    "--stacks-image",
    default="",
    metavar="IMAGE",
    help="Image for --stacks. Default: dijob/stacks of this version.",
)
@options.output_option("text", "json", "yaml")
@options.cluster_options
def command(where: Where, name: str, stacks: bool, stacks_image: str, output: str) -> None:
    """Check a job for problems that make it hang or fail, with a remedy for each.

    The checks query the API server, and run a small read-only Python program in each pod by exec,
    with your permissions. A check that cannot be made is UNKNOWN, with the reason. The exit code
    is 0 if no problem was found, else 1.

    --stacks shows which rank blocks which. It reads the stack of each Python process, and groups
    the processes by their position in the program's own code. For this, an ephemeral container
    with py-spy is added to each pod. You need permission to patch pods/ephemeralcontainers, and
    the namespace must allow SYS_PTRACE. Each process is paused for some milliseconds. The
    container ends after that, but Kubernetes lists it in the pod until the pod is deleted. In pods
    that share processes with other pods or with the node, only the rank's own processes are read.
    -o json prints complete stacks.

    \b
    Example:
      kubectl dijob doctor test
      kubectl dijob doctor test --stacks
    """
    with client_errors():
        from dijob_extras.stacks.take import new_container

        from dijob.cli.doctor import checks
        from dijob.cli.doctor.collect import collect_evidence
        from dijob.cli.doctor.of_stacks import stacks_data
    # Naming the image only makes sense for stacks, so it implies --stacks.
    asked = new_container(stacks_image) if stacks or stacks_image else None
    evidence = call_client(where, lambda client: collect_evidence(client, name, asked))
    found = checks.run_checks(evidence)
    if output == "text":
        echo(checks.format_checklist(name, found))
    else:
        echo(
            format_object(checks.checklist_data(name, found) | stacks_data(evidence), output),
            nl=False,
        )
    if asked and any(not look.problem for look in (evidence.stacks or {}).values()):
        # On stderr, so that the output of -o json remains valid JSON.
        echo(
            f"the ended container {asked.name} stays listed in each pod until the pod is deleted",
            err=True,
        )
    # Not a CliError: the findings are printed already, and an error line would repeat them.
    if checks.count_problems(found):
        raise click.exceptions.Exit(Exit.FAILED)
