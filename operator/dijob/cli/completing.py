"""Completion in the user's shell: of commands by click, of jobs' names from the cluster."""

from typing import Final

import click
from click.shell_completion import CompletionItem, get_completion_class

# How a shell asks for completions, whatever the program is called.
COMPLETE_VARIABLE: Final = "_DIJOB_COMPLETE"
SHELLS: Final = ("bash", "zsh", "fish")
PROGRAMS: Final = ("dijob", "kubectl-dijob")

# kubectl runs the program kubectl_complete-dijob with the words after `kubectl dijob`.
PLUGIN: Final = f"""#!/bin/sh
# Save as kubectl_complete-dijob in a folder of PATH, and make it executable.
COMP_WORDS="kubectl-dijob $*" COMP_CWORD=$# {COMPLETE_VARIABLE}=bash_complete kubectl-dijob |
  sed 's/^[^,]*,//'
echo :4
"""


def script(group: click.Command, shell: str) -> str:
    """What a shell has to read for completion under both names of the program."""
    found = get_completion_class(shell)
    assert found is not None, shell
    return "\n".join(found(group, {}, program, COMPLETE_VARIABLE).source() for program in PROGRAMS)


def jobs(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """The names of the jobs that begin so; none where the cluster cannot be asked."""
    from dijob.cli.calling import Where, call
    from dijob.cli.errors import CliError

    where = Where(
        *(ctx.params.get(name) for name in ("namespace", "context", "kubeconfig")),
    )
    try:
        found = call(where, lambda client: client.list())
    except CliError:
        return []
    return [
        CompletionItem(job.name, help=job.phase) for job in found if job.name.startswith(incomplete)
    ]
