"""The project's container images: their inputs, and their archives in the cache."""

from __future__ import annotations

import hashlib
import os
import platform
import re
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

from steps import BuildError, quiet, say

ROOT = Path(__file__).resolve().parent.parent
CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "dijob" / "images"
SLIM = "debian:bookworm-slim"
# The version of the operator, the chart and the packages, and the tag of the project's images.
(VERSION,) = re.findall(
    r'^__version__ = "(.+)"$', (ROOT / "operator/dijob/__init__.py").read_text(), re.MULTILINE
)


@dataclass(frozen=True)
class Image:
    """One image: its reference, its inputs, and the cost of a build.

    `inputs` are files, folders and patterns relative to the repository. `seconds` is the build time
    on 2 cores, and `free_gb` the disk space that the build needs.
    """

    reference: str
    context: str
    inputs: tuple[str, ...]
    seconds: int
    free_gb: int
    # Its Dockerfile starts FROM scratch with a rootfs.tar, which is created by rootfs.sh in the
    # same folder.
    rootfs: bool = False
    # The architecture in Go's notation, for images that can be built for other architectures.
    arch: str = ""
    # All files get the same timestamp, so that the image is reproducible. This is possible because
    # nothing in the image compares file times.
    timeless: bool = False
    # Folders inside the inputs. The build excludes all files in these folders.
    without: tuple[str, ...] = ()


# The Python code that runs in users' pods: a second build context.
RUNTIME = "images/dijob-runtime"
OTHER_CONTEXT = ("--build-context", f"runtime={ROOT / RUNTIME}")
OPERATOR_INPUTS = (
    "Dockerfile",
    ".dockerignore",
    "requirements.txt",
    "operator/dijob",
    # The web UI in the cluster.
    "operator/dijob_extras/__init__.py",
    "operator/dijob_extras/ui",
)
# Commands for users' machines. Changing them does not trigger a rebuild of the operator's image.
# The image keeps dijob/client and the rest of dijob/cli, because the web UI imports modules from
# both.
NOT_OPERATOR = tuple(
    f"operator/dijob/cli/{name}" for name in ("commands", "copying", "doctor", "explain")
)
# The context of an operator image for another architecture. Its build runs no code for that
# architecture.
CROSS = "images/operator"
LAUNCHER_INPUTS = (
    *(f"images/launcher/{name}" for name in ("Dockerfile", "rootfs.sh", "go.mod", "*.go")),
    "images/launcher/internal",
    f"{RUNTIME}/hook",
    f"{RUNTIME}/dijob_runtime",
)
STACKS_INPUTS = tuple(
    f"images/stacks/{name}"
    for name in ("Dockerfile", "rootfs.sh", "requirements.txt", "go.mod", "*.go")
)
ARCHES = ("amd64", "arm64")
MACHINE = {"x86_64": "amd64", "aarch64": "arm64"}.get(platform.machine(), platform.machine())
IMAGES = {
    "base": Image("dijob/base:dev", "images/base", ("images/base",), 50, 2, rootfs=True),
    "launcher": Image(
        f"dijob/launcher:{VERSION}",
        "images/launcher",
        LAUNCHER_INPUTS,
        8,
        1,
        rootfs=True,
        arch=MACHINE,
        timeless=True,
    ),
    "stacks": Image(
        f"dijob/stacks:{VERSION}",
        "images/stacks",
        STACKS_INPUTS,
        10,
        1,
        rootfs=True,
        arch=MACHINE,
        timeless=True,
    ),
    "light": Image("dijob/light:dev", "images/light", ("images/light",), 25, 2),
    "operator": Image(
        f"dijob/operator:{VERSION}",
        ".",
        OPERATOR_INPUTS,
        60,
        3,
        timeless=True,
        without=NOT_OPERATOR,
    ),
    "ditask": Image(
        "dijob/ditask:0.5.3", "images/ditask", ("images/ditask", f"{RUNTIME}/dijob_runtime"), 240, 9
    ),
    "py313": Image("dijob/ditask:0.5.3-py313", "images/py313", ("images/py313",), 300, 9),
}
# The images of `make images`, in this order. py313 is built only if it is named.
ORDER = ("launcher", "stacks", "light", "operator", "ditask")
OF_ANY_ARCH = ("launcher", "stacks", "operator")
# Images without a base image. Their programs are statically linked, and they contain no files from
# Debian.
STATIC = ("launcher", "stacks")


def for_arch(arch: str) -> None:
    """Set the architecture of the images in OF_ANY_ARCH.

    With a Docker engine, the operator's Dockerfile is built for another architecture under
    emulation. Without one, CROSS is the context.
    """
    for name in OF_ANY_ARCH:
        IMAGES[name] = replace(IMAGES[name], arch=arch)
    if arch != MACHINE and not docker_has_slim():
        inputs = (*OPERATOR_INPUTS, CROSS)
        IMAGES["operator"] = replace(IMAGES["operator"], context=CROSS, inputs=inputs, rootfs=True)


@cache
def docker_has_slim() -> bool:
    """Whether a Docker engine with BuildKit is available.

    It must also have Debian's slim image, or be able to pull it.
    """
    if shutil.which("docker") is None or quiet("docker", "version").returncode:
        return False
    if quiet("docker", "buildx", "version").returncode:
        say(
            "the Docker engine has no buildx, which is needed for build secrets; building with"
            " buildah instead"
        )
        return False
    if (
        not quiet("docker", "image", "inspect", SLIM).returncode
        or not quiet("docker", "pull", SLIM).returncode
    ):
        return True
    say(f"the Docker engine cannot pull {SLIM}; building with buildah on its own base instead")
    return False


@cache
def slim() -> str:
    """Return Debian's slim image, with its digest if the Docker engine knows it.

    The digest is needed because the tag moves every month.
    """
    said = quiet("docker", "image", "inspect", "--format", "{{index .RepoDigests 0}}", SLIM)
    _, _, digest = said.stdout.strip().partition("@")
    return f"{SLIM}@{digest}" if said.returncode == 0 and digest else SLIM


@cache
def debian_sources() -> tuple[str, ...]:
    """Return this machine's apt sources of Debian bookworm, as lines of a sources.list."""
    listing = quiet(
        "apt-get",
        "indextargets",
        "--format",
        "$(REPO_URI) $(RELEASE) $(COMPONENT)",
        "Created-By: Packages",
    )
    rows = {tuple(line.split()) for line in listing.stdout.splitlines()}
    found = sorted(
        f"deb {' '.join(row)}" for row in rows if row[1].startswith("bookworm") and row[2] == "main"
    )
    if not any(line.split()[2] == "bookworm" for line in found):
        raise BuildError(
            "found neither a Docker engine that can pull images nor Debian bookworm in apt's"
            " sources; the build needs one of them"
        )
    return tuple(found)


def input_files(image: Image) -> Iterator[Path]:
    """Yield every file that the build of an image can see."""
    for name in image.inputs:
        paths = sorted(ROOT.glob(name))
        if not paths:
            raise BuildError(f"{name}, an input of {image.reference}, is missing")
        for path in paths:
            files = sorted(path.rglob("*")) if path.is_dir() else [path]
            yield from (f for f in files if f.is_file() and not _is_left_out(f, image))


def _is_left_out(path: Path, image: Image) -> bool:
    if any(path.is_relative_to(ROOT / folder) for folder in image.without):
        return True
    return "__pycache__" in path.parts or path.name.endswith("_test.go")


def _built_on(name: str) -> str:
    """Return the identity of an image's base, which is included in the image's hash."""
    if name in STATIC:
        return ""
    if docker_has_slim():
        return slim()
    return "\n".join(debian_sources()) if IMAGES[name].rootfs else archive("base").name


def archive(name: str) -> Path:
    """Return the path of an image's archive for the current inputs, whether or not it exists.

    Its name contains a hash of the inputs, the base, the reference and the architecture.
    """
    image = IMAGES[name]
    digest = hashlib.sha256(f"{image.reference} {image.arch or platform.machine()}".encode())
    digest.update(_built_on(name).encode())
    for path in input_files(image):
        content = path.read_bytes()
        digest.update(
            f"\0{path.relative_to(ROOT)}\0{path.stat().st_mode & 0o111}\0{len(content)}\0".encode()
        )
        digest.update(content)
    return CACHE / f"{stem(name)}-{digest.hexdigest()[:12]}.tar"


def stem(name: str) -> str:
    """Return the name prefix of an image's archives."""
    arch = IMAGES[name].arch
    return f"{arch}-{name}" if arch not in ("", MACHINE) else name
