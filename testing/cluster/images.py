"""Builds image archives from a few files."""

import hashlib
import io
import json
import platform
import tarfile
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from cluster.shell import run

PAUSE = "dijob.local/pause:1"
BUSYBOX = "dijob.local/busybox:1"


def write_archive(
    archive: Path, name: str, files: Mapping[str, bytes], entrypoint: Sequence[str]
) -> Path:
    """Write a docker archive of an image with one layer. `files` maps each path in the layer to the
    file's content; all files are executable. `name` and
    `entrypoint` are those of the image.
    """
    layer = io.BytesIO()
    with tarfile.open(fileobj=layer, mode="w") as tar:
        for path, content in files.items():
            _add(tar, path, content)
    data = layer.getvalue()
    config = json.dumps(
        {
            "architecture": {"aarch64": "arm64"}.get(platform.machine(), "amd64"),
            "os": "linux",
            "config": {"Entrypoint": list(entrypoint), "Env": ["PATH=/usr/bin:/bin"]},
            "rootfs": {
                "type": "layers",
                "diff_ids": [f"sha256:{hashlib.sha256(data).hexdigest()}"],
            },
        }
    ).encode()
    config_name = f"{hashlib.sha256(config).hexdigest()}.json"
    manifest = json.dumps(
        [{"Config": config_name, "RepoTags": [name], "Layers": ["layer.tar"]}]
    ).encode()
    with tarfile.open(archive, mode="w") as tar:
        for path, content in (
            (config_name, config),
            ("layer.tar", data),
            ("manifest.json", manifest),
        ):
            _add(tar, path, content)
    return archive


def _add(tar: tarfile.TarFile, path: str, content: bytes) -> None:
    member = tarfile.TarInfo(path.lstrip("/"))
    member.size = len(content)
    member.mode = 0o755
    tar.addfile(member, io.BytesIO(content))


def pause_archive(binaries: Path, folder: Path) -> Path:
    """Return the archive of the sandbox image, which has one static program."""
    return write_archive(
        folder / "pause.tar", PAUSE, {"/pause": (binaries / "pause").read_bytes()}, ["/pause"]
    )


def busybox_archive(folder: Path) -> Path:
    """Return the archive of a minimal image with a shell: Debian's static busybox (4 MB)."""
    archive = folder / "busybox.tar"
    # written only once: every image store would treat a new file as a new image
    if archive.exists():
        return archive
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as scratch:
        run(
            [
                "sh",
                "-c",
                'cd "$1" && apt-get download -q busybox-static && dpkg-deb -x ./*.deb .',
                "sh",
                scratch,
            ]
        )
        program = (Path(scratch) / "bin/busybox").read_bytes()
    files = {"/bin/busybox": program, "/bin/sh": program}
    return write_archive(archive, BUSYBOX, files, ["/bin/sh"])
