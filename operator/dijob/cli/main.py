"""The program `kubectl-dijob`, which kubectl finds as its plug-in `kubectl dijob`, and `dijob`."""

import errno
import importlib
import os
import sys
from pathlib import Path
from typing import Any

import click

from dijob import __version__
from dijob.cli.commands import COMMANDS
from dijob.cli.completing import COMPLETE_VARIABLE
from dijob.cli.errors import CliError, Exit
from dijob.cli.printing import echo

# Why stdout cannot be written. click itself ends the program if its reader is gone (EPIPE).
_OF_OUTPUT = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)
CONTEXT = {"help_option_names": ["-h", "--help"]}


class _Commands(click.Group):
    """The table of commands as a group, each imported when it is asked for."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        module = importlib.import_module(f"dijob.cli.commands.{cmd_name.replace('-', '_')}")
        found: click.Command = module.command
        found.short_help = COMMANDS[cmd_name]
        return found

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name = args[0]
        if name not in COMMANDS and not name.startswith("-") and not ctx.resilient_parsing:
            ctx.fail(_no_command(name, ctx.command_path))
        return super().resolve_command(ctx, args)

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except CliError as error:
            echo(f"Error: {error}", err=True)
            ctx.exit(error.code)
        except KeyboardInterrupt:
            ctx.exit(Exit.INTERRUPTED)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))


@click.group(cls=_Commands, context_settings=CONTEXT)
@click.version_option(__version__, prog_name="dijob")
def group() -> None:
    """See a DIJob, understand it, mend it.

    \b
    Example:
      kubectl dijob apply -f dijob.yaml --wait
    """


def main() -> None:
    """Run a command, and end with its exit code. An error is one sentence, never a traceback
    (DIJOB_TRACEBACK=1 shows it)."""
    _open_closed_streams()
    try:
        group.main(prog_name=_called(sys.argv[0]), complete_var=COMPLETE_VARIABLE)
    except Exception as error:
        if os.environ.get("DIJOB_TRACEBACK"):
            raise
        if isinstance(error, OSError) and error.errno in _OF_OUTPUT and not error.filename:
            echo(f"Error: the output cannot be written: {error.strerror}", err=True)
            sys.exit(Exit.FAILED)
        echo(
            f"Error: this is a bug of the program: {type(error).__name__}: {error}."
            " DIJOB_TRACEBACK=1 shows where it is.",
            err=True,
        )
        sys.exit(Exit.BUG)


def _open_closed_streams() -> None:
    """Python has None for a stream that was closed by the caller (`>&-`)."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "w"))  # noqa: SIM115  # until the end


def _no_command(name: str, program: str) -> str:
    """What is said of a command that is not there, with the one that was meant."""
    import difflib

    near = difflib.get_close_matches(name.lower(), COMMANDS, n=1)
    way = f"did you mean {program} {near[0]}?" if near else f"see {program} --help"
    return f"there is no command {name}: {way}"


def _called(path: str) -> str:
    """How the user calls the program: kubectl has its plug-ins' names begin with kubectl-."""
    return Path(path).name.replace("kubectl-", "kubectl ")


if __name__ == "__main__":
    main()
