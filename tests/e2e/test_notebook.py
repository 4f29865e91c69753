"""examples/client.ipynb, executed as a user would, with real pods."""

import json
import os
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from archives import ROOT
from space import Space

pytestmark = pytest.mark.e2e

NOTEBOOK = ROOT / "examples/client.ipynb"
SECONDS = 1200


def kubeconfig(space: Space, path: Path) -> Path:
    """Write a kubeconfig of the cluster for this namespace."""
    config = yaml.safe_load(space.cluster.kubeconfig.read_text())
    for each in config["contexts"]:
        each["context"]["namespace"] = space.name
    path.write_text(yaml.safe_dump(config))
    return path


def code(notebook: Any) -> list[Any]:
    return [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]


def sources(notebook: Any) -> list[str]:
    """Return the sources of the cells, which are strings or lists of lines."""
    return ["".join(cell["source"]) for cell in code(notebook)]


def kinds(cell: Any) -> list[tuple[str, list[str]]]:
    """Return the types of a cell's outputs."""
    return [(each["output_type"], sorted(each.get("data", ()))) for each in cell["outputs"]]


def test_the_clients_notebook_runs_with_the_outputs_that_it_shows(
    space: Space, tmp_path: Path
) -> None:
    out = tmp_path / "executed.ipynb"
    env = {name: value for name, value in os.environ.items() if not name.startswith("MAKE")}
    env["KUBECONFIG"] = str(kubeconfig(space, tmp_path / "kubeconfig"))
    done = subprocess.run(
        ["make", "-s", "notebook", f"OUT={out}"],
        cwd=ROOT,
        env=env,
        text=True,
        capture_output=True,
        timeout=SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    executed, kept = json.loads(out.read_text()), json.loads(NOTEBOOK.read_text())
    assert sources(executed) == sources(kept)
    assert [kinds(cell) for cell in code(executed)] == [kinds(cell) for cell in code(kept)]
    said = json.dumps(executed)
    assert "notebook: Succeeded: all 2 ranks exited 0" in said
    found = re.search(r"(\d+) generations; generation \d+: return (\d+)", said)
    assert found, said
    assert int(found[2]) >= 475
    # The bar is a picture in the notebook, with its last state.
    bar = next(cell for cell in code(executed) if cell["id"] == "running")["outputs"][0]
    assert "text/html" in bar["data"]
    assert "Running" in "".join(bar["data"]["text/plain"])
    greetings = next(cell for cell in code(executed) if cell["id"] == "greetings")
    assert "hello from rank 0\nhello from rank 1" in "".join(greetings["outputs"][0]["text"])
    assert space.job("notebook") == space.job("greet") == {}
