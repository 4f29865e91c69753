"""Unpacks an image's archive into a folder and runs programs in it, without a container engine."""

import json
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
BUILD = ROOT / "images" / "build.py"

# Everything runs in namespaces: only the loopback interface, and mounts and processes that end with
# the command.
ENTER = """
root=$1 writable=$2; shift 2
ip link set lo up
mkdir -p "$root/proc" "$root/dev"
mount --bind "$root" "$root"
mount -t proc proc "$root/proc"
mount -t tmpfs -o mode=755 dev "$root/dev"
for name in null zero random urandom; do
  : >"$root/dev/$name"; mount --bind "/dev/$name" "$root/dev/$name"
done
mkdir -m 1777 "$root/dev/shm"
ln -s /proc/self/fd "$root/dev/fd"
for folder in $writable; do mount -t tmpfs -o mode=1777 tmp "$root/$folder"; done
if [ -n "$writable" ]; then mount -o remount,ro,bind "$root"; fi
exec "$@"
"""
# The path of chroot, because `env` would search for it in the image's PATH. `env` itself runs
# outside the image, which may have no `env`.
CHROOT = shutil.which("chroot") or "/usr/sbin/chroot"
SANDBOX = [
    "unshare",
    "--mount",
    "--net",
    "--pid",
    "--fork",
    "--kill-child",
    "sh",
    "-euc",
    ENTER,
    "sandbox",
]


@dataclass(frozen=True)
class Unpacked:
    """An image: archive, configuration (Env, User, ...) and files."""

    name: str
    archive: Path
    config: dict[str, Any]
    files: Path
    architecture: str  # as Go names it

    def size(self) -> int:
        """Return the size of all files in bytes; hard links count once."""
        seen = {(s.st_dev, s.st_ino): s.st_size for s in map(os.lstat, self.walk())}
        return sum(seen.values())

    def walk(self) -> Iterator[Path]:
        """Yield every file and link, but no folders."""
        for folder, _, names in os.walk(self.files):
            yield from (Path(folder) / name for name in names)

    def run(
        self, *command: str, user: str | None = None, only_writable: str = "", **env: str
    ) -> subprocess.CompletedProcess[str]:
        """Run a command with the image's environment, for 15 minutes at most. With `only_writable`,
        only these folders are writable.
        """
        variables = [*self.config["Env"], *(f"{name}={value}" for name, value in env.items())]
        root = str(self.files)
        enter = [CHROOT, f"--userspec={user or self.config['User']}", root, *command]
        return subprocess.run(
            [*SANDBOX, root, only_writable, "env", "-i", *variables, *enter],
            capture_output=True,
            text=True,
            check=False,
            timeout=900,
        )


@contextmanager
def unpacked(name: str, arch: str = "") -> Iterator[Unpacked]:
    """Yield the image of the current sources in a temporary folder. It is built if it is not in the
    cache. `arch` is an architecture other than this machine's.
    """
    options = ["--arch", arch] if arch else []
    built = subprocess.run(
        [sys.executable, str(BUILD), *options, name], check=True, stdout=subprocess.PIPE, text=True
    )
    archive = Path(built.stdout.strip())
    with (
        tempfile.TemporaryDirectory(prefix="unpacked-", dir=archive.parent) as folder,
        tarfile.open(archive) as tar,
    ):
        manifest = json.loads(_read(tar, "manifest.json"))[0]
        files = Path(folder)
        files.chmod(0o755)
        for layer in manifest["Layers"]:
            _extract(tar, layer, files)
        image = json.loads(_read(tar, manifest["Config"]))
        yield Unpacked(name, archive, image["config"], files, image["architecture"])


def _read(tar: tarfile.TarFile, member: str) -> bytes:
    stream = tar.extractfile(member)
    assert stream is not None, f"no {member} in {tar.name!r}"
    return stream.read()


def _extract(tar: tarfile.TarFile, layer: str, files: Path) -> None:
    """Extract a layer over the lower ones; `.wh.NAME` removes NAME of a lower layer."""
    stream = tar.extractfile(layer)
    assert stream is not None, f"no {layer} in {tar.name!r}"
    with subprocess.Popen(
        ["tar", "--extract", "--directory", str(files)], stdin=subprocess.PIPE
    ) as process:
        assert process.stdin is not None
        shutil.copyfileobj(stream, process.stdin, 1 << 20)
        process.stdin.close()
    assert process.returncode == 0, f"tar failed on {layer} of {tar.name!r}"
    for mark in list(files.rglob(".wh.*")):
        gone = mark.with_name(mark.name.removeprefix(".wh."))
        (
            shutil.rmtree(gone)
            if gone.is_dir() and not gone.is_symlink()
            else gone.unlink(missing_ok=True)
        )
        mark.unlink()
