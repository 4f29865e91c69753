"""The inputs of each image (images/catalogue.py). Other changes do not cause a new build."""

import subprocess
import sys
from pathlib import Path, PurePosixPath

from catalogue import CROSS, IMAGES, NOT_OPERATOR, OPERATOR_INPUTS, ROOT, input_files


def seen(name: str) -> list[PurePosixPath]:
    return [PurePosixPath(path.relative_to(ROOT)) for path in input_files(IMAGES[name])]


def test_the_operators_image_has_the_page_but_no_commands() -> None:
    folders = {PurePosixPath(*path.parts[1:4]).as_posix() for path in seen("operator")}
    assert folders >= {
        *("dijob/controller/main.py", "dijob/server/app.py", "dijob/client/errors.py"),
        *("dijob_extras/ui/cluster", "dijob_extras/ui/page"),
    }
    assert not folders & {f"dijob/cli/{name}" for name in ("commands", "doctor", "explain")}
    assert {path.parts[2] for path in seen("operator") if path.parts[1:2] == ("dijob_extras",)} == {
        "__init__.py",
        "ui",
    }


def test_the_page_needs_nothing_that_the_image_lacks() -> None:
    """The image has only the locked packages of the operator, without those of the command line."""
    code = "import sys, dijob_extras.ui.cluster.__main__; print(*sys.modules)"
    argv = [sys.executable, "-c", code]
    env = {"PYTHONPATH": str(ROOT / "operator")}
    said = subprocess.run(argv, env=env, text=True, capture_output=True, check=True, timeout=60)
    loaded = set(said.stdout.split())
    assert "rich" not in loaded
    without = [folder.removeprefix("operator/").replace("/", ".") for folder in NOT_OPERATOR]
    assert not [name for name in loaded if name.startswith(tuple(without))]


def test_the_build_context_matches_the_catalogue() -> None:
    """Docker reads .dockerignore, in which the last matching line decides. The build for another
    machine has its own list."""
    lines = (ROOT / ".dockerignore").read_text().splitlines()
    rules = [line for line in lines if line and not line.startswith("#")]
    seen_first = [f"!{name}" for name in OPERATOR_INPUTS if name.startswith("operator/")]
    assert rules[2 : 2 + len(seen_first)] == seen_first
    assert set(rules[2 + len(seen_first) :]) == {*NOT_OPERATOR, "**/__pycache__"}
    script = Path(ROOT / CROSS / "rootfs.sh").read_text()
    for folder in NOT_OPERATOR:
        assert f"! -path '{folder.removeprefix('operator/')}/*'" in script
