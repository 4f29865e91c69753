"""The image archives that the tests load: the project's images, and variants of them."""

import hashlib
import io
import json
import os
import subprocess
import sys
import tarfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
# If the sources are edited during a build, the archive no longer matches them.
ATTEMPTS = 3


def archive(image: str, sources: Path = ROOT) -> Path:
    """Return the archive of an image of these sources. It is built if it is not in the cache.

    DIJOB_E2E_OPERATOR (or _LIGHT, _DITASK, _LAUNCHER) names an archive that is tested instead of
    the current sources.
    """
    given = os.environ.get(f"DIJOB_E2E_{image.upper()}")
    if given and sources == ROOT:
        return Path(given)
    program = str(sources / "images/build.py")
    for _ in range(ATTEMPTS):
        subprocess.run([sys.executable, program, image], check=True)
        printed = subprocess.check_output([sys.executable, program, "--print", image], text=True)
        if (path := Path(printed.strip())).is_file():
            return path
    raise FileNotFoundError(
        f"{path}: the sources of image {image} changed during each of {ATTEMPTS} builds"
    )


def with_entry_point(source: Path, target: Path, name: str, entry_point: Sequence[str]) -> Path:
    """Write a copy of a docker archive with another name, an entry point, and no command."""

    def change(config: Any) -> None:
        config["config"] |= {"Entrypoint": list(entry_point), "Cmd": None}

    return _copy(source, target, name, change)


def with_files(source: Path, target: Path, name: str, files: Mapping[str, str]) -> Path:
    """Write a copy of a docker archive with another name and an additional layer of files, as COPY
    in a Dockerfile creates it.
    """
    layer = io.BytesIO()
    with tarfile.open(fileobj=layer, mode="w") as tar:
        for path, text in files.items():
            _add(tar, path.lstrip("/"), text.encode())

    def change(config: Any) -> None:
        digest = hashlib.sha256(layer.getvalue()).hexdigest()
        config["rootfs"]["diff_ids"].append(f"sha256:{digest}")

    return _copy(source, target, name, change, layer.getvalue())


def _copy(
    source: Path, target: Path, name: str, change: Callable[[Any], None], layer: bytes = b""
) -> Path:
    """Copy a docker archive with another name and configuration, and an additional layer."""
    with tarfile.open(source) as old, tarfile.open(target, "w") as new:
        manifest = json.loads(_content(old, "manifest.json"))[0]
        config = json.loads(_content(old, manifest["Config"]))
        change(config)
        for member in old.getmembers():
            if member.name not in ("manifest.json", manifest["Config"]):
                new.addfile(member, old.extractfile(member) if member.isreg() else None)
        if layer:
            _add(new, "top.tar", layer)
            manifest["Layers"].append("top.tar")
        data = json.dumps(config).encode()
        manifest |= {"Config": f"{hashlib.sha256(data).hexdigest()}.json", "RepoTags": [name]}
        _add(new, manifest["Config"], data)
        _add(new, "manifest.json", json.dumps([manifest]).encode())
    return target


def _content(archive: tarfile.TarFile, name: str) -> bytes:
    file = archive.extractfile(name)
    assert file, name
    return file.read()


def _add(archive: tarfile.TarFile, name: str, data: bytes) -> None:
    member = tarfile.TarInfo(name)
    member.size = len(data)
    archive.addfile(member, io.BytesIO(data))
