"""`kubectl dijob doctor`."""

import click

from dijob.cli import options
from dijob.cli.calling import Where, call, client_errors
from dijob.cli.errors import Exit
from dijob.cli.printing import text


@click.command()
@options.job
@options.output("text", "json", "yaml")
@options.cluster
def command(where: Where, name: str, output: str) -> None:
    """A checklist of what makes jobs hang or fail, with a remedy for each problem.

    It asks the apiserver, and looks into each pod by exec with your rights (a small Python program,
    which changes nothing). What it may not or cannot see is told as UNKNOWN, with the reason. Exit
    code 0 where no problem was found, 1 where one was.

    \b
    Example:
      kubectl dijob doctor test
    """
    with client_errors():
        from dijob.cli.doctor import checks
        from dijob.cli.doctor.collect import collect
    found = checks.findings(call(where, lambda client: collect(client, name)))
    if output == "text":
        click.echo(checks.text(name, found))
    else:
        click.echo(text(checks.data(name, found), output), nl=False)
    if checks.problems(found):
        raise click.exceptions.Exit(Exit.FAILED)
