"""The output of from-slurm for ten batch scripts, on a real apiserver."""

from pathlib import Path

import pytest
from apiserver.plane import Plane

pytestmark = pytest.mark.apiserver

MADE = sorted((Path(__file__).parents[1] / "unit/extras/slurm").glob("*.yaml"))


def test_there_are_ten_scripts() -> None:
    assert len(MADE) >= 10


@pytest.mark.parametrize("path", MADE, ids=lambda path: path.stem)
def test_the_apiserver_accepts_it(plane: Plane, path: Path) -> None:
    said = plane.ask("create", "--dry-run=server", "--validate=strict", "-f", str(path))
    assert said.ok, said.text
    assert "dijob.diengine.opendilab.org/" in said.text
