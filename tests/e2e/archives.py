"""The image archives that the tests load: the project's own, and variants made of them without any
tool.
"""

import hashlib
import io
import json
import os
import subprocess
import sys
import tarfile
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).parents[2]
# Somebody may edit the sources while the image is built: what was built is then no longer what they
# are.
ATTEMPTS = 3


def archive(image: str, sources: Path = ROOT) -> Path:
    """The archive of an image of these sources, built where it is not in the cache yet.

    DIJOB_E2E_OPERATOR (or _LIGHT, _DITASK, _LAUNCHER) names an archive to be tested instead of the
    present sources'.
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
    """Write a copy of a docker archive under another name whose image has an entry point and no
    command.
    """
    with tarfile.open(source) as old, tarfile.open(target, "w") as new:
        manifest = json.loads(_content(old, "manifest.json"))[0]
        config = json.loads(_content(old, manifest["Config"]))
        config["config"] |= {"Entrypoint": list(entry_point), "Cmd": None}
        for member in old.getmembers():
            if member.name not in ("manifest.json", manifest["Config"]):
                new.addfile(member, old.extractfile(member) if member.isreg() else None)
        data = json.dumps(config).encode()
        digest = hashlib.sha256(data).hexdigest()
        _add(new, f"{digest}.json", data)
        _add(
            new,
            "manifest.json",
            json.dumps([manifest | {"Config": f"{digest}.json", "RepoTags": [name]}]).encode(),
        )
    return target


def _content(archive: tarfile.TarFile, name: str) -> bytes:
    file = archive.extractfile(name)
    assert file, name
    return file.read()


def _add(archive: tarfile.TarFile, name: str, data: bytes) -> None:
    member = tarfile.TarInfo(name)
    member.size = len(data)
    archive.addfile(member, io.BytesIO(data))
