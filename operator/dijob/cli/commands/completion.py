"""Shell completion: click completes commands and options. The job names come from the cluster.

`kubectl dijob completion` prints the scripts that set up completion.
"""

from typing import Final

import click
from click.shell_completion import CompletionItem, get_completion_class

# The environment variable with which a shell requests completions. click would derive a different
# variable from each name of the program. The variable is fixed here, so that both names share one
# completion script.
COMPLETE_VARIABLE: Final = "_DIJOB_COMPLETE"
SHELLS: Final = ("bash", "zsh", "fish")
PROGRAMS: Final = ("dijob", "kubectl-dijob")

# kubectl runs the program kubectl_complete-dijob with the words after `kubectl dijob`. The last
# line of its output is a directive for cobra: 4 means that no file names are completed.
PLUGIN: Final = f"""#!/bin/sh
# Save this as kubectl_complete-dijob in a folder on your PATH, and make it executable.
COMP_WORDS="kubectl-dijob $*" COMP_CWORD=$# {COMPLETE_VARIABLE}=bash_complete kubectl-dijob |
  sed 's/^[^,]*,//'
echo :4
"""


def completion_script(group: click.Command, shell: str) -> str:
    """Return the completion script of a shell, for both names of the program."""
    found = get_completion_class(shell)
    assert found is not None, shell
    return "\n".join(found(group, {}, program, COMPLETE_VARIABLE).source() for program in PROGRAMS)


def complete_jobs(
    ctx: click.Context, param: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """Return the job names that begin with `incomplete`.

    If the cluster cannot be queried, no names are offered: an error message would disturb the
    command line that the user is typing.
    """
    from dijob.cli.calling import Where, call_client
    from dijob.cli.errors import CliError

    # These options may precede the job's name on the command line, and determine which jobs to
    # offer.
    where = Where(
        *(ctx.params.get(name) for name in ("namespace", "context", "kubeconfig")),
    )
    try:
        found = call_client(where, lambda client: client.list())
    except CliError:
        return []
    return [
        CompletionItem(job.name, help=job.phase) for job in found if job.name.startswith(incomplete)
    ]


@click.command()
@click.argument("shell", type=click.Choice([*SHELLS, "kubectl"]))
@click.pass_context
def completion_command(ctx: click.Context, shell: str) -> None:
    """Print the completion script for bash, zsh, fish or kubectl.

    The script completes commands, options and job names. With `kubectl`, the output is the program
    kubectl_complete-dijob, which kubectl's own completion calls for `kubectl dijob`.

    \b
    Example:
      source <(dijob completion bash)
      dijob completion kubectl > ~/.local/bin/kubectl_complete-dijob
    """
    if shell == "kubectl":
        click.echo(PLUGIN, nl=False)
    else:
        click.echo(completion_script(ctx.find_root().command, shell))
