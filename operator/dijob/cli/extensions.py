"""Finds the commands and options that other packages add through entry points.

The command line does not know the names of these packages, and imports a package only when its
command or option is used. So other packages do not slow down `kubectl dijob get`, and a package
that cannot be imported affects only its own commands and options.
"""

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from dijob.cli.errors import CliError, Exit

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

# Each entry point of this group is a click command of the same name.
COMMANDS: Final = "dijob.commands"
# Each entry point of this group is a DoctorExtension (doctor/extension.py).
DOCTOR: Final = "dijob.doctor"


@cache
def find_extensions(group: str) -> "Mapping[str, EntryPoint]":
    """Return the entry points of a group, keyed by name, in alphabetical order of the names.
    Nothing is imported.
    """
    # This import takes 35 ms, which is a third of the run time of `kubectl dijob get --help`.
    from importlib.metadata import entry_points

    found = (*entry_points(group=group), *_of_checkout(group))
    return {point.name: point for point in sorted(found, key=lambda point: point.name)}


def _of_checkout(group: str) -> "list[EntryPoint]":
    """Return the entry points that pyproject.toml lists, if this program runs from a checkout.

    A checkout that is not installed has no package metadata. An installed package has no
    pyproject.toml, but its metadata contains the entry points.
    """
    file = Path(__file__).parents[3] / "pyproject.toml"
    if not file.is_file():
        return []
    import tomllib
    from importlib.metadata import EntryPoint

    project = tomllib.loads(file.read_text()).get("project", {})
    # For an installed package, this path can be the pyproject.toml of another project.
    if project.get("name") != "dijob":
        return []
    table = project.get("entry-points", {}).get(group, {})
    return [EntryPoint(name, value, group) for name, value in table.items()]


def load_extension(point: "EntryPoint") -> Any:
    """Import the object that an entry point names. Raises CliError if the import fails."""
    try:
        return point.load()
    # The code belongs to another package, and may raise anything when it is imported.
    except Exception as error:
        package = point.dist.name if point.dist else "dijob"
        raise CliError(
            f"{point.name} cannot be loaded from {point.module} ({type(error).__name__}: {error}):"
            f" reinstall the package {package}",
            Exit.BUG,
        ) from error
