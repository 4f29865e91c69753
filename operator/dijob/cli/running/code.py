"""A folder or file of code as a ConfigMap, within what a ConfigMap can hold."""

import base64
import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from dijob.cli.errors import CliError, Exit

Body = dict[str, Any]

# The apiserver takes 1 MiB of keys and values; the object around them needs room in etcd too.
MOST_BYTES: Final = 2**20 - 2**14
# What nobody means to send.
IGNORED: Final = ("__pycache__", ".git", ".venv", "venv", "node_modules", ".ipynb_checkpoints")
_IGNORED_SUFFIXES: Final = (".pyc", ".pyo", ".so.dbg")
_MOST_FILES: Final = 1000


@dataclass(frozen=True)
class File:
    """A file of the code: `path` below the folder, with slashes."""

    path: str
    content: bytes
    executable: bool = False

    @property
    def key(self) -> str:
        """Its key in the ConfigMap: a ConfigMap has no folders."""
        plain = re.sub(r"[^-._a-zA-Z0-9]", "_", self.path.replace("/", "__"))
        return plain if plain == self.path else f"{plain[-200:]}.{_digest(self.path)}"


@dataclass(frozen=True)
class Code:
    """The files, in the order of their paths."""

    files: Sequence[File]

    @property
    def entries(self) -> list[str]:
        """Files and folders right below the code's folder."""
        return list(dict.fromkeys(file.path.split("/")[0] for file in self.files))

    def config_map(self, name: str) -> Body:
        """The ConfigMap of this name; texts are readable in it."""
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
        """Which key of the ConfigMap is at which path of its volume."""
        return [
            {"key": file.key, "path": file.path} | ({"mode": 0o755} if file.executable else {})
            for file in self.files
        ]


def read(place: str) -> Code:
    """The code at a path of this machine. Raises CliError where there is none, or too much."""
    root = Path(place)
    try:
        found = [(root.name, root)] if root.is_file() else sorted(_walk(root))
        if not found:
            raise CliError(f"--code {place}: there is no file in it", Exit.USAGE)
        sizes = {path: file.stat().st_size for path, file in found}
        _fits(place, sizes)
        files = [File(path, f.read_bytes(), os.access(f, os.X_OK)) for path, f in found]
    except OSError as error:
        said = (error.strerror or str(error)).lower()
        raise CliError(f"--code {place}: {said}", Exit.USAGE) from error
    return Code(files)


def _walk(root: Path) -> Iterator[tuple[str, Path]]:
    """The files of a folder by their paths in it. Links to folders are not followed."""
    if not root.is_dir():
        raise FileNotFoundError(2, "No such file or directory")
    for folder, folders, files in os.walk(root):
        folders[:] = [name for name in folders if name not in IGNORED]
        for name in files:
            path = Path(folder, name)
            if not name.endswith(_IGNORED_SUFFIXES) and path.is_file():
                yield path.relative_to(root).as_posix(), path


def _fits(place: str, sizes: dict[str, int]) -> None:
    total = sum(size + 2 * len(path) for path, size in sizes.items())
    if total <= MOST_BYTES and len(sizes) <= _MOST_FILES:
        return
    largest = sorted(sizes, key=lambda path: -sizes[path])[:3]
    shown = ", ".join(f"{path} ({_size(sizes[path])})" for path in largest)
    raise CliError(
        f"--code {place}: {len(sizes)} files of {_size(total)} do not fit into a ConfigMap (1 MiB,"
        f" {_MOST_FILES} files); the largest are {shown}. Leave them out, build an image with the"
        " code in it (examples/own-image.yaml), or put it on a volume (examples/volume.yaml)",
        Exit.USAGE,
    )


def _size(count: int) -> str:
    return f"{count / 2**20:.1f} MiB" if count >= 2**20 else f"{count / 2**10:.0f} KiB"


def _digest(text: str) -> str:
    import hashlib

    return hashlib.sha256(text.encode()).hexdigest()[:8]
