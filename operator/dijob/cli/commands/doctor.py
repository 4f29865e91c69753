"""`kubectl dijob doctor`: prints the findings of the checks in dijob.cli.doctor."""

import inspect
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import click

from dijob.cli import extensions, options
from dijob.cli.calling import Where, call_client, client_errors
from dijob.cli.doctor.extension import DoctorExtension
from dijob.cli.errors import CliError, Exit
from dijob.cli.printing import echo, format_object


@click.command()
@options.job
@options.output_option("text", "json", "yaml")
@options.cluster_options
def doctor_command(where: Where, name: str, output: str, **given: Any) -> None:
    """Check a job for problems that make it hang or fail, and suggest a remedy for each.

    The checks use your permissions to query the API server, and to run a small read-only Python
    program in each pod through exec. If a check cannot be performed, its result is UNKNOWN, with
    the reason. The exit code is 0 if no problem was found, else 1.

    \b
    Example:
      kubectl dijob doctor test
    """
    with client_errors():
        from dijob.cli.doctor import checks
        from dijob.cli.doctor.collect import collect_evidence
    for error in _ERRORS:
        echo(f"Warning: {error}", err=True)
    asked = [collect for one in _EXTENSIONS if (collect := one.prepare(given))]
    evidence = call_client(where, lambda client: collect_evidence(client, name, asked))
    evidence = replace(evidence, hints=[one.hint for one in _EXTENSIONS])
    found = checks.run_checks(evidence)
    if output == "text":
        echo(checks.format_checklist(name, found, checks.if_it_hangs(evidence)))
    else:
        data = checks.checklist_data(name, found)
        for one in evidence.added:
            data |= one.data
        echo(format_object(data, output), nl=False)
    for one in evidence.added:
        if one.note:
            echo(one.note, err=True)
    # This is not a CliError, because the findings have already been printed, and an error line
    # would repeat them.
    if checks.count_problems(found):
        raise click.exceptions.Exit(Exit.FAILED)


def _load_extensions() -> tuple[Sequence[DoctorExtension], Sequence[CliError]]:
    """Return the extensions, and an error for each extension that cannot be loaded."""
    found, errors = list[DoctorExtension](), list[CliError]()
    for point in extensions.find_extensions(extensions.DOCTOR).values():
        try:
            found.append(extensions.load_extension(point))
        except CliError as error:
            # The other checks do not need the extension.
            errors.append(error)
    return found, errors


def _add_help(extension: DoctorExtension) -> None:
    # The extension's options are listed after NAME, before the options that all commands have.
    at = next(i for i, param in enumerate(doctor_command.params) if param.name == "output")
    doctor_command.params[at:at] = extension.options
    text, mark, examples = inspect.cleandoc(doctor_command.help or "").partition("\b\nExample:")
    doctor_command.help = f"{text}{extension.help}\n\n{mark}{examples}\n  {extension.example}"


_EXTENSIONS, _ERRORS = _load_extensions()
for _extension in _EXTENSIONS:
    _add_help(_extension)
