"""Reads a folder or a file of code, and packs it into a ConfigMap.

A ConfigMap needs no program in the image and no storage, but is limited to 1 MiB
(docs/decisions/032).
"""

import base64
import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from dijob.cli.errors import CliError, Exit

Body = dict[str, Any]

# The apiserver accepts 1 MiB of keys and values. The rest of the object needs space in etcd too.
MOST_BYTES: Final = 2**20 - 2**14
# Folders and files that a program does not need.
IGNORED: Final = ("__pycache__", ".git", ".venv", "venv", "node_modules", ".ipynb_checkpoints")
_IGNORED_SUFFIXES: Final = (".pyc", ".pyo", ".so.dbg")
_MOST_FILES: Final = 1000


@dataclass(frozen=True)
class CodeFile:
    """A file of the code. `path` is relative to the folder, with slashes."""

    path: str
    content: bytes
    executable: bool = False

    @property
    def key(self) -> str:
        """The file's key in the ConfigMap. Keys may contain only letters, digits, "-", "_" and
        ".".
        """
        # If characters of the path are replaced, a digest is appended, so that a/b and a__b have
        # different keys.
        plain = re.sub(r"[^-._a-zA-Z0-9]", "_", self.path.replace("/", "__"))
        return plain if plain == self.path else f"{plain[-200:]}.{_hash_text(self.path)}"


@dataclass(frozen=True)
class Code:
    """The files of the code, ordered by path."""

    files: Sequence[CodeFile]

    @property
    def entries(self) -> list[str]:
        """The files and folders at the top level."""
        return list(dict.fromkeys(file.path.split("/")[0] for file in self.files))

    def config_map(self, name: str) -> Body:
        """Return the ConfigMap with this name. Text files are stored as readable text."""
        texts, others = {}, {}
        for file in self.files:
            try:
                texts[file.key] = file.content.decode()
            except UnicodeDecodeError:
                others[file.key] = base64.b64encode(file.content).decode()
        body: Body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}}
        body |= {"data": texts} if texts else {}
        return body | ({"binaryData": others} if others else {})

    def items(self) -> list[Body]:
        """Return the items of the volume, which map keys of the ConfigMap to paths."""
        # Files of a ConfigMap are not executable by default.
        return [
            {"key": file.key, "path": file.path} | ({"mode": 0o755} if file.executable else {})
            for file in self.files
        ]


def read_code(place: str) -> Code:
    """Read the code at a local path. Raises CliError (USAGE) if it is missing or too large."""
    root = Path(place)
    try:
        found = [(root.name, root)] if root.is_file() else sorted(_walk_files(root))
        if not found:
            raise CliError(f"--code {place}: the folder contains no files", Exit.USAGE)
        # The sizes are checked first: a folder may contain gigabytes of data.
        sizes = {path: file.stat().st_size for path, file in found}
        _check_size(place, sizes)
        files = [CodeFile(path, f.read_bytes(), os.access(f, os.X_OK)) for path, f in found]
    except OSError as error:
        why = (error.strerror or str(error)).lower()
        raise CliError(f"--code {place}: {why}", Exit.USAGE) from error
    return Code(files)


def _walk_files(root: Path) -> Iterator[tuple[str, Path]]:
    """Yield the files of a folder with their relative paths. Links to folders are not followed."""
    if not root.is_dir():
        raise FileNotFoundError(2, "No such file or directory")
    for folder, folders, files in os.walk(root):
        # os.walk descends only into the folders that are left in its list.
        folders[:] = [name for name in folders if name not in IGNORED]
        for name in files:
            path = Path(folder, name)
            if not name.endswith(_IGNORED_SUFFIXES) and path.is_file():
                yield path.relative_to(root).as_posix(), path


def _check_size(place: str, sizes: dict[str, int]) -> None:
    # The keys count too, and are about as long as the paths.
    total = sum(size + 2 * len(path) for path, size in sizes.items())
    if total <= MOST_BYTES and len(sizes) <= _MOST_FILES:
        return
    largest = sorted(sizes, key=lambda path: -sizes[path])[:3]
    shown = ", ".join(f"{path} ({_format_size(sizes[path])})" for path in largest)
    raise CliError(
        f"--code {place}: {len(sizes)} files of {_format_size(total)} do not fit into a ConfigMap"
        f" (1 MiB, {_MOST_FILES} files); the largest are {shown}. Remove them, build an image with"
        " the code (examples/own-image.yaml), or put the code on a volume (examples/volume.yaml)",
        Exit.USAGE,
    )


def _format_size(count: int) -> str:
    return f"{count / 2**20:.1f} MiB" if count >= 2**20 else f"{count / 2**10:.0f} KiB"


def _hash_text(text: str) -> str:
    import hashlib

    return hashlib.sha256(text.encode()).hexdigest()[:8]
