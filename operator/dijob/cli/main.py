"""The entry point of the programs `kubectl-dijob` and `dijob`.

kubectl runs `kubectl-dijob` from PATH as its plug-in `kubectl dijob`. The two programs are
identical. Messages and help use the name that the user typed.
"""

import errno
import os
import sys
from pathlib import Path
from typing import Any, Final

import click

from dijob import __version__
from dijob.cli.commands.completion import COMPLETE_VARIABLE
from dijob.cli.errors import CliError, Exit
from dijob.cli.loading import command_names, describe_commands, load_command
from dijob.cli.printing import echo

# A write to stdout that fails with one of these errors does not indicate a bug. EPIPE is not
# listed, because click itself exits quietly when the reader of a pipe is gone.
_OUTPUT_ERRORS = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)
# Commands of kubectl and other tools, with the equivalents in this program.
_LOOK: Final = (
    "`{program} get NAME` prints the job, `watch NAME` shows it live, and `doctor NAME` checks it"
    " for problems"
)
_OTHER_VERBS: Final = {
    "ls": "did you mean `{program} list`?",
    "ps": "did you mean `{program} list`?",
    "status": _LOOK,
    "describe": _LOOK,
    "events": _LOOK,
    "top": "`kubectl top pod -l diengine.opendilab.org/job=NAME` shows the pods' CPU and memory"
    " usage, and `{program} ui` shows it in the browser",
    "exec": "`kubectl exec -it NAME-0 -c di-container -- sh` opens a shell in rank 0",
    "rm": "`{program} delete NAME` deletes a job and its pods",
    "stop": "`{program} suspend NAME` stops the pods and keeps the job; `delete NAME` deletes both",
    "kill": "`{program} suspend NAME` stops the pods and keeps the job; `delete NAME` deletes both",
    "create": "did you mean `{program} run` or `{program} apply`?",
    "submit": "did you mean `{program} run` or `{program} apply`?",
    "start": "`{program} resume NAME` resumes a suspended job, and `run` creates a new job",
}
_DELETING: Final = ("delete", "restart", "suspend", "drill")
_ALMOST_THE_SAME: Final = 0.85
# By default, click accepts only --help. kubectl accepts -h as well.
CONTEXT = {"help_option_names": ["-h", "--help"]}


class _Commands(click.Group):
    """A group that imports a command's module only when the command is used."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return command_names()

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        try:
            return load_command(cmd_name)
        except CliError:
            # While a shell completes a word, an error would disturb the user's command line.
            if ctx.resilient_parsing:
                return None
            raise

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name = args[0]
        # click's own message does not suggest the command that was meant. While a shell completes
        # a word (resilient_parsing), an unfinished name is not an error.
        if not (name.startswith("-") or ctx.resilient_parsing or self.get_command(ctx, name)):
            ctx.fail(_unknown_command(name, ctx.command_path))
        return super().resolve_command(ctx, args)

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except CliError as error:
            echo(f"Error: {error}", err=True)
            ctx.exit(error.code)
        # click would print "Aborted!" and exit with 1, the code of a failed job.
        except KeyboardInterrupt:
            ctx.exit(Exit.INTERRUPTED)

    # click's own method imports every command for its short help, and cuts long lines.
    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(describe_commands()))


@click.group(cls=_Commands, context_settings=CONTEXT)
@click.version_option(__version__, prog_name="dijob")
def group() -> None:
    """Run, inspect and troubleshoot DIJobs.

    \b
    Example:
      kubectl dijob apply -f dijob.yaml --wait
    """


def main() -> None:
    """Run a command and exit with its code.

    An error is printed as one sentence. DIJOB_TRACEBACK=1 prints the traceback of an internal
    error instead.
    """
    _open_closed_streams()
    try:
        group.main(prog_name=_program_name(sys.argv[0]), complete_var=COMPLETE_VARIABLE)
    except Exception as error:
        if os.environ.get("DIJOB_TRACEBACK"):
            raise
        # An OSError with a file name concerns a file other than stdout.
        if isinstance(error, OSError) and error.errno in _OUTPUT_ERRORS and not error.filename:
            echo(f"Error: cannot write the output: {error.strerror}", err=True)
            sys.exit(Exit.FAILED)
        echo(
            f"Error: internal error, this is a bug: {type(error).__name__}: {error}."
            " Run again with DIJOB_TRACEBACK=1 to see the traceback.",
            err=True,
        )
        sys.exit(Exit.BUG)


def _open_closed_streams() -> None:
    """Replace closed streams with /dev/null.

    If the caller closed a stream (`>&-`), Python sets it to None, and every print would fail.
    """
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "w"))  # noqa: SIM115  # until the end


def _unknown_command(name: str, program: str) -> str:
    """Return the error for an unknown command, with a suggestion of what the user meant."""
    import difflib

    # A command that deletes something is suggested only if the typed name is almost the same.
    near = [
        known
        for known in difflib.get_close_matches(name.lower(), command_names())
        if known not in _DELETING
        or difflib.SequenceMatcher(None, name.lower(), known).ratio() > _ALMOST_THE_SAME
    ]
    if meant := _OTHER_VERBS.get(name.lower()):
        way = meant.format(program=program)
    else:
        way = f"did you mean {program} {near[0]}?" if near else f"see {program} --help"
    return f"unknown command {name}: {way}"


def _program_name(path: str) -> str:
    """Return the program's name as the user typed it: `kubectl dijob` for kubectl-dijob."""
    return Path(path).name.replace("kubectl-", "kubectl ")


if __name__ == "__main__":
    main()
