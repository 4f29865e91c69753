"""Where the Python files are that a pod has from its launcher's image: with them in PYTHONPATH,
DI-engine is told its place in the job (docs/decisions/027)."""

from pathlib import Path

from dijob.cli.errors import CliError, Exit

# In the wheel (pyproject.toml, force-include), and in a checkout.
_IN_WHEEL = Path(__file__).parent / "python"
_IN_CHECKOUT = Path(__file__).parents[4] / "images" / "dijob-runtime"


def folders() -> tuple[Path, ...]:
    """The folders for PYTHONPATH, the first one with sitecustomize.py."""
    if (_IN_WHEEL / "sitecustomize.py").is_file():
        return (_IN_WHEEL,)
    if (_IN_CHECKOUT / "hook" / "sitecustomize.py").is_file():
        return (_IN_CHECKOUT / "hook", _IN_CHECKOUT)
    raise CliError(
        f"{_IN_WHEEL} is not there: install the distribution dijob[cli] again.", Exit.BUG
    )
