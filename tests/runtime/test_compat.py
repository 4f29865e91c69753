"""Names that DI-engine needs and that current versions of packages no longer have, on each Python
of this machine.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

RUNTIME = Path(__file__).parents[2] / "images/dijob-runtime"
SUPPORTED = range(8, 30)


def find_interpreters() -> dict[str, str]:
    """Return the path of each Python 3.8 or newer, by its version."""
    pyenv = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv") / "versions"
    found = {}
    for minor in SUPPORTED:
        paths = [shutil.which(f"python3.{minor}", path="/usr/local/bin:/usr/bin:/bin")]
        paths += map(str, sorted(pyenv.glob(f"3.{minor}.*/bin/python3")))
        found.update({f"3.{minor}": path for path in paths if path})
    own = f"3.{sys.version_info.minor}"
    return {**found, own: sys.executable}


INTERPRETERS = find_interpreters()
# NumPy 2 has the new names only. np.in1d is an example of a name that this NumPy still has.
NUMPY_2 = """
__version__ = "2.5.5"
bool_, float64, inf, nan, prod, vstack, in1d = "bool", "float", "inf", "nan", "prod", "stack", "own"
"""
NUMPY_1 = '__version__ = "1.26.4"\nbool_ = bool8 = "bool"\n'
# What DI-engine's save_config_py does.
DING = "from yapf.yapflib.yapf_api import FormatCode\n"
YAPF = "def FormatCode(text):\n    return 'yapf', True\n"
SHOWS = """
import numpy, ding
print([getattr(numpy, n, None) for n in ("bool8", "NaN", "in1d", "round_")])
print(ding.FormatCode("{'a': 1}")[0].strip(), ding.FormatCode("{'a': inf}")[0])
"""


def run(python: str, folder: Path, files: dict[str, str], **env: str) -> tuple[list[str], str]:
    """Import a package `ding` between these modules. Return the lines of stdout, and stderr."""
    for name, text in {"ding/__init__.py": DING, **files}.items():
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    done = subprocess.run(
        [python, "-c", SHOWS],
        env={"PYTHONPATH": f"{RUNTIME / 'hook'}:{RUNTIME}:{folder}", **env},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    return done.stdout.splitlines(), done.stderr


def has_lib2to3(python: str) -> bool:
    """Whether this Python can run yapf 0.29: the module was removed in 3.13, and some distributions
    package it separately.
    """
    done = subprocess.run([python, "-Wignore", "-c", "import lib2to3"], capture_output=True)
    return done.returncode == 0


@pytest.mark.parametrize("version", INTERPRETERS)
def test_missing_names_are_added_and_logged_in_one_line(version: str, tmp_path: Path) -> None:
    python = INTERPRETERS[version]
    files = {"numpy.py": NUMPY_2}
    if old := has_lib2to3(python):
        files |= {"yapf/__init__.py": "", "yapf/yapflib/yapf_api.py": YAPF}
    out, err = run(python, tmp_path, files)
    assert out == ["['bool', 'nan', 'own', None]", "yapf yapf" if old else "{'a': 1} {'a': inf}"]
    assert err.count("\n") == 1
    assert "numpy.bool8, numpy.float_, numpy.Inf" in err
    assert ("yapf" in err, "in1d" in err) == (not old, False)


def test_packages_of_that_time_stay_as_they_are(tmp_path: Path) -> None:
    yapf = {"yapf/__init__.py": "", "yapf/yapflib/yapf_api.py": YAPF, "yapf_third_party.py": ""}
    out, err = run(sys.executable, tmp_path, {"numpy.py": NUMPY_1, **yapf})
    assert (out, err) == (["['bool', None, None, None]", "yapf yapf"], "")


def test_it_can_be_disabled(tmp_path: Path) -> None:
    yapf = {"yapf/__init__.py": "", "yapf/yapflib/yapf_api.py": YAPF}
    out, err = run(sys.executable, tmp_path, {"numpy.py": NUMPY_2, **yapf}, DIJOB_COMPAT="off")
    assert (out[0], err) == ("[None, None, 'own', None]", "")
