"""Commands, and checks of `doctor`, that other packages add through entry points."""

import os
import subprocess
import sys
from importlib.metadata import EntryPoint

import click
import pytest
from click.shell_completion import ShellComplete
from click.testing import CliRunner, Result
from dijob.cli import extensions
from dijob.cli.errors import Exit
from dijob.cli.main import group

BROKEN = EntryPoint("broken", "no_such_package:command", extensions.COMMANDS)
BROKEN_ERROR = (
    "broken cannot be loaded from no_such_package (ModuleNotFoundError: No module named"
    " 'no_such_package'): reinstall the package dijob"
)


@click.command()
def extra() -> None:
    """Do something else."""
    click.echo("done")  # noqa: TID251  # this is its own text


def run(*words: str) -> Result:
    return CliRunner().invoke(group, words, prog_name="dijob")


def python(script: str, *args: str) -> subprocess.CompletedProcess[str]:
    """Run a script in a new process, which has imported nothing."""
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    argv = [sys.executable, "-c", script, *args]
    return subprocess.run(argv, capture_output=True, text=True, env=env)


@pytest.fixture
def only(monkeypatch: pytest.MonkeyPatch) -> None:
    """Replace the entry points by one that works, one that is broken and one of another type."""
    points = [
        EntryPoint("extra", f"{__name__}:extra", extensions.COMMANDS),
        EntryPoint("get", "no_such_package:command", extensions.COMMANDS),
        EntryPoint("text", f"{__name__}:BROKEN_ERROR", extensions.COMMANDS),
        BROKEN,
    ]
    monkeypatch.setitem(sys.modules, __name__, sys.modules[__name__])
    found = {point.name: point for point in points}
    monkeypatch.setattr(extensions, "find_extensions", lambda name: found)


@pytest.mark.usefixtures("only")
def test_a_broken_extension_is_one_sentence_and_the_others_work() -> None:
    result = run("broken")
    assert (result.exit_code, result.output) == (Exit.BUG, f"Error: {BROKEN_ERROR}\n")
    assert "text cannot be used" in run("text").output
    assert run("extra").output == "done\n"
    assert "unknown command extar: did you mean dijob extra?" in run("extar").output
    text = " ".join(run("--help").output.split())
    assert " extra Do something else." in text
    assert f" broken Not available: {BROKEN_ERROR}." in text


@pytest.mark.usefixtures("only")
def test_an_extension_cannot_replace_a_command() -> None:
    assert "Show the named jobs, or list all jobs" in run("get", "--help").output


@pytest.mark.usefixtures("only")
def test_completion_offers_extensions_that_can_be_loaded() -> None:
    shell = ShellComplete(group, {}, "dijob", "_DIJOB_COMPLETE")
    assert [item.value for item in shell.get_completions([], "e")] == ["explain", "extra"]
    assert shell.get_completions([], "b") == []


def test_a_command_imports_no_extension_and_reads_no_entry_points() -> None:
    script = (
        "import sys; from click.testing import CliRunner; from dijob.cli.main import group;"
        "CliRunner().invoke(group, ['get', '-h']);"
        "print([m for m in sys.modules if m.startswith(('dijob_extras', 'importlib.metadata.'))],"
        " __import__('dijob.cli.extensions').cli.extensions.find_extensions.cache_info().misses)"
    )
    done = python(script)
    assert done.stdout == "[] 0\n", done


def test_doctor_works_without_a_check_that_cannot_be_loaded() -> None:
    """The options of the check are then missing as well."""
    script = (
        "import sys; sys.modules['dijob_extras.stacks.doctor'] = None;"
        "sys.argv = ['dijob', 'doctor', 'test', '--kubeconfig', '/no/such', *sys.argv[1:]];"
        "from dijob.cli.main import main; main()"
    )
    done = python(script)
    warning, error = done.stderr.splitlines()
    assert warning.startswith("Warning: stacks cannot be loaded from dijob_extras.stacks.doctor (")
    assert error.startswith("Error: there is no kubeconfig at /no/such")
    assert "No such option '--stacks'" in python(script, "--stacks").stderr
