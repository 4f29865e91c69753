"""`kubectl dijob completion`: prints completion scripts for shells and for kubectl."""

import click

from dijob.cli.completing import PLUGIN, SHELLS, completion_script


@click.command()
@click.argument("shell", type=click.Choice([*SHELLS, "kubectl"]))
@click.pass_context
def command(ctx: click.Context, shell: str) -> None:
    """Print the completion script for bash, zsh, fish or kubectl.

    Commands, options and the names of jobs are completed. With `kubectl`, the output is the
    program kubectl_complete-dijob, which kubectl's own completion calls for `kubectl dijob`.

    \b
    Example:
      source <(dijob completion bash)
      dijob completion kubectl > ~/.local/bin/kubectl_complete-dijob
    """
    if shell == "kubectl":
        click.echo(PLUGIN, nl=False)
    else:
        click.echo(completion_script(ctx.find_root().command, shell))
