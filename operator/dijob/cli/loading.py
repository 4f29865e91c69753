"""Lists and loads the commands of dijob.cli.commands and of other packages."""

import importlib
from collections.abc import Iterator

import click

from dijob.cli import extensions
from dijob.cli.commands import COMMANDS
from dijob.cli.errors import CliError


def command_names() -> list[str]:
    """Return the names of all commands in the order in which the help lists them. Nothing is
    imported.
    """
    added = extensions.find_extensions(extensions.COMMANDS)
    # Another package cannot replace a built-in command.
    return [*COMMANDS, *(name for name in added if name not in COMMANDS)]


def load_command(name: str) -> click.Command | None:
    """Import a command; None if no command has this name. Raises CliError if the import fails."""
    # COMMANDS is searched first, so that loading a built-in command does not read entry points.
    if name in COMMANDS:
        module, line = COMMANDS[name]
        family = importlib.import_module(f"dijob.cli.commands.{module}")
        found: click.Command = getattr(family, f"{name}_command")
        found.short_help = line
        return found
    point = extensions.find_extensions(extensions.COMMANDS).get(name)
    if point is None:
        return None
    loaded = extensions.load_extension(point)
    if not isinstance(loaded, click.Command):
        raise CliError(f"{name} cannot be used: {point.value} is not a click command")
    return loaded


def describe_commands() -> Iterator[tuple[str, str]]:
    """Yield the name of each command with the first line of its help.

    For built-in commands, the lines come from the table COMMANDS. Commands of other packages are
    imported.
    """
    for name in command_names():
        if name in COMMANDS:
            yield name, COMMANDS[name][1]
            continue
        try:
            command = load_command(name)
        except CliError as error:
            yield name, f"Not available: {error}."
        else:
            assert command is not None
            yield name, (command.short_help or command.help or "").strip().partition("\n")[0]
