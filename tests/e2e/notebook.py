"""`python tests/e2e/notebook.py NOTEBOOK OUT` executes a notebook with this Python in the
notebook's folder, and writes it with its outputs.
"""

import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import nbformat
from jupyter_client import AsyncKernelManager
from nbclient import NotebookClient

SECONDS_PER_CELL = 400


def cleaned(notebook: Any) -> Any:
    """Return the notebook without execution times and display ids, which differ between runs."""
    for cell in notebook.cells:
        cell.metadata.pop("execution", None)
        for output in cell.get("outputs", ()):
            output.pop("transient", None)
    notebook.metadata.language_info = {"name": "python"}
    return notebook


def main() -> None:
    """Execute and write the notebook. nbclient's error names a failed cell."""
    source, target = map(Path, sys.argv[1:])
    notebook = nbformat.read(source, as_version=4)
    place = {"metadata": {"path": str(source.resolve().parent)}}
    # Unix sockets in the user's own folder: all users on this machine could connect to TCP ports.
    with TemporaryDirectory() as sockets:
        way = {"transport": "ipc", "ip": f"{sockets}/kernel"}
        kernel = AsyncKernelManager(kernel_name="python3", **way)
        NotebookClient(notebook, km=kernel, timeout=SECONDS_PER_CELL, resources=place).execute()
    target.write_text(nbformat.writes(cleaned(notebook)) + "\n")


if __name__ == "__main__":
    main()
