"""Finds the Python files that the launcher's image brings into a pod.

With them in PYTHONPATH, DI-engine joins the job (docs/decisions/027).
"""

from pathlib import Path

from dijob.cli.errors import CliError, Exit

# The wheel contains a copy (pyproject.toml, force-include). A checkout has only the originals.
_IN_WHEEL = Path(__file__).parent / "python"
_IN_CHECKOUT = Path(__file__).parents[3] / "images" / "dijob-runtime"


def hook_folders() -> tuple[Path, ...]:
    """Return the folders for PYTHONPATH. The first one contains sitecustomize.py."""
    if (_IN_WHEEL / "sitecustomize.py").is_file():
        return (_IN_WHEEL,)
    if (_IN_CHECKOUT / "hook" / "sitecustomize.py").is_file():
        return (_IN_CHECKOUT / "hook", _IN_CHECKOUT)
    raise CliError(f"{_IN_WHEEL} is missing: reinstall the package dijob[cli]", Exit.BUG)
