"""Builds the project's container images as docker archives in the cache. An image is rebuilt only
if its inputs have changed.
"""

from __future__ import annotations

import argparse
import fcntl
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from catalogue import (
    ARCHES,
    CACHE,
    CROSS,
    IMAGES,
    OF_ANY_ARCH,
    ORDER,
    OTHER_CONTEXT,
    ROOT,
    STATIC,
    Image,
    archive,
    debian_sources,
    docker_has_slim,
    for_arch,
    slim,
    stem,
)
from golang import find_go
from steps import SANDBOX, BuildError, Step, pip_secrets, say

# A cache of the layers of the operator's image. With this cache, a build after a change to the
# operator's code only copies and compiles the code. Docker has its own layer cache.
LAYERS = CACHE / "layers"
LAYERS_LIMIT = 2e9
# If an image is smaller than this, a second archive of it is kept, for developers who switch
# between two branches.
SECOND_LIMIT = 1e9
TOOLS = {
    "buildah": "buildah",
    "debootstrap": "debootstrap",
    "unshare": "util-linux",
    "setpriv": "util-linux",
}


def check_machine(image: Image) -> None:
    """Check disk space and tools before a build that takes minutes, and install missing tools from
    Debian. Raise BuildError if the build cannot work here.
    """
    free = shutil.disk_usage(CACHE).free / 1e9
    if free < image.free_gb:
        raise BuildError(
            f"{image.reference} needs {image.free_gb} GB of free disk in {CACHE}, but only"
            f" {free:.1f} GB are free: free some, or set XDG_CACHE_HOME to a larger disk"
        )
    missing = sorted({package for tool, package in TOOLS.items() if shutil.which(tool) is None})
    if docker_has_slim():
        return
    if os.geteuid() != 0:
        raise BuildError(
            "without a Docker engine, the build needs root (buildah, debootstrap): use sudo"
        )
    if missing:
        say(f"installing {', '.join(missing)} with apt-get")
        subprocess.run(["apt-get", "-qq", "update"], check=True, stdout=sys.stderr)
        command = ["apt-get", "-qq", "install", "-y", "--no-install-recommends", *missing]
        quiet = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, env=quiet)


def prepared_context(name: str, step: Step, work: Path) -> Path:
    """Return the build context of an image: a folder of the repository, or a new one in `work`."""
    image = IMAGES[name]
    if not image.rootfs:
        return ROOT / image.context
    context, script = work / "context", str(ROOT / image.context / "rootfs.sh")
    context.mkdir()
    sources = work / "sources.list"
    if name not in STATIC:
        sources.write_text("\n".join(debian_sources()) + "\n")
    if name == "operator":
        step.run(*SANDBOX, script, sys.executable, image.arch, str(context), str(sources))
    elif name == "base":
        mirror = next(line.split()[1] for line in debian_sources() if line.split()[2] == "bookworm")
        step.run(*SANDBOX, script, str(context), str(sources), mirror)
    else:
        # Without Docker, the build runs in the sandbox, which needs root.
        sandbox = [] if docker_has_slim() else SANDBOX
        step.run(*sandbox, script, find_go(), image.arch, str(context), sys.executable)
    return context


def on_rootfs(dockerfile: str) -> str:
    """Return the last stage of a Dockerfile, with a rootfs.tar in place of the base image and of
    the RUN and COPY instructions.
    """
    stage = dockerfile.rpartition("\nFROM ")[2].partition("\n")[2]
    settings = re.sub(r"^(RUN|COPY) (.*\\\n)*.*\n", "", stage, flags=re.MULTILINE)
    return f"FROM scratch\nADD rootfs.tar /\n{settings}"


def common_options(image: Image, base: str, work: Path) -> list[str]:
    """Return the build options that docker and buildah have in common."""
    file = ROOT / image.context / "Dockerfile"
    if image.context == CROSS:
        file = work / "Dockerfile"
        file.write_text(on_rootfs((ROOT / "Dockerfile").read_text()))
    options = ["--file", str(file), "--tag", image.reference]
    if not image.rootfs:
        options += ["--build-arg", f"BASE={base}", *OTHER_CONTEXT, *pip_secrets(work)]
    if image.arch:
        options += ["--platform", f"linux/{image.arch}"]
    return options


def build_with_docker(name: str, out: Path, step: Step, work: Path) -> None:
    """Run docker build and docker save."""
    image, context = IMAGES[name], prepared_context(name, step, work)
    os.environ["DOCKER_BUILDKIT"] = "1"
    step.run("docker", "build", "--load", *common_options(image, slim(), work), str(context))
    step.run("docker", "save", "--output", str(out), image.reference)


def build_with_buildah(name: str, out: Path, step: Step, work: Path) -> None:
    """Build with buildah in chroot isolation.

    buildah's store is removed after the build. Only the store of the operator's image is kept,
    because it is the cache of the image's layers.
    """
    image, context = IMAGES[name], prepared_context(name, step, work)
    store = LAYERS if name == "operator" and not image.rootfs else work / "store"
    buildah = [*SANDBOX, "buildah", "--root", str(store), "--runroot", str(work / "run")]
    if not image.rootfs:
        step.run(*buildah, "pull", "--quiet", f"docker-archive:{archive('base')}")
    options = ["--isolation", "chroot", "--network", "host", "--pull-never"]
    if store == LAYERS:
        options.append("--layers")
    # An image in Docker's format contains the ID of the build container, so it would not be
    # reproducible.
    options += ["--format", "oci", "--timestamp", "0"] if image.timeless else ["--format", "docker"]
    options += common_options(image, IMAGES["base"].reference, work)
    step.run(*buildah, "bud", *options, str(context))
    step.run(
        *buildah, "push", "--quiet", image.reference, f"docker-archive:{out}:{image.reference}"
    )


def cached(name: str) -> bool:
    """Return whether the cache has an image's archive for the current inputs. If so, update the
    archive's access time, which decides when the archive is removed.
    """
    target = archive(name)
    if target.exists():
        # Only the access time is changed, because the test cluster uses the modification time to
        # recognize an archive that it has already loaded.
        os.utime(target, ns=(time.time_ns(), target.stat().st_mtime_ns))
        say(f"{name} is in the cache: {target}")
    return target.exists()


def build(name: str) -> Path:
    """Return the archive of an image, and build it if the cache has none for these inputs. Remove
    old archives of the image.
    """
    target = archive(name)
    if cached(name):
        return target
    image = IMAGES[name]
    check_machine(image)
    started = time.monotonic()
    step = Step(name, image.seconds, started, CACHE / f"{name}.log")
    step.log.write_bytes(b"")
    say(f"building {name} (about {image.seconds} s; log: {step.log})")
    with tempfile.TemporaryDirectory(prefix="work-", dir=CACHE) as directory:
        work = Path(directory)
        out = work / "image.tar"
        if docker_has_slim():
            build_with_docker(name, out, step, work)
        else:
            build_with_buildah(name, out, step, work)
        if archive(name) != target:
            say(f"the inputs of {name} changed during the build; building it again")
            return build(name)
        out.rename(target)
    for old in _superseded(name, target):
        old.unlink()
    say(
        f"{name} built in {time.monotonic() - started:.0f} s, {target.stat().st_size / 1e6:.0f} MB:"
        f" {target}"
    )
    return target


@contextmanager
def locked_cache() -> Iterator[None]:
    """Allow one build at a time per cache, and remove the files of killed builds."""
    CACHE.mkdir(parents=True, exist_ok=True)
    with (CACHE / "lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say("another image build is running; waiting for it")
            fcntl.flock(lock, fcntl.LOCK_EX)
        killed = list(CACHE.glob("work-*"))
        for left in killed:
            shutil.rmtree(left, ignore_errors=True)
        if killed or _bytes_in(LAYERS) > LAYERS_LIMIT:
            shutil.rmtree(LAYERS, ignore_errors=True)
        try:
            yield
        except BaseException:
            shutil.rmtree(LAYERS, ignore_errors=True)
            raise


def _superseded(name: str, newest: Path) -> list[Path]:
    """Return which archives of an image to remove: all except the newest.

    If the image is small, the most recently used of the other archives is kept as well.
    """
    others = sorted(
        (p for p in CACHE.glob(f"{stem(name)}-*.tar") if p != newest),
        key=lambda p: p.stat().st_atime,
    )
    return others[:-1] if newest.stat().st_size < SECOND_LIMIT else others


def _bytes_in(folder: Path) -> int:
    return sum(
        os.lstat(Path(top) / name).st_size for top, _, names in os.walk(folder) for name in names
    )


def with_base(names: list[str]) -> list[str]:
    """Return the images to build, with the base before the images that buildah builds on it."""
    if all(IMAGES[name].rootfs for name in names) or docker_has_slim():
        return names
    return list(dict.fromkeys(["base", *names]))


def parsed() -> argparse.Namespace:
    """Parse the command line, and apply `--arch` to the images in OF_ANY_ARCH."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "names",
        nargs="*",
        metavar="NAME",
        help=f"one of {', '.join(IMAGES)} (default: {', '.join(ORDER)})",
    )
    parser.add_argument(
        "--print", dest="show", choices=IMAGES, help="print the archive's path and exit"
    )
    parser.add_argument(
        "--arch",
        choices=ARCHES,
        help=f"the architecture, for {' and '.join(OF_ANY_ARCH)} (default: this machine's)",
    )
    options = parser.parse_args()
    if unknown := set(options.names) - set(IMAGES):
        parser.error(
            f"unknown image: {', '.join(sorted(unknown))}; known images: {', '.join(IMAGES)}"
        )
    if options.arch:
        asked = {*options.names, options.show} - {None}
        if not asked or asked - set(OF_ANY_ARCH):
            parser.error(f"--arch works only with {' and '.join(OF_ANY_ARCH)}: name one of them")
        for_arch(options.arch)
    return options


def main() -> int:
    """Build the images that the command line names. Exit code 1 with one message on an error, 130
    after an interrupt.
    """
    options = parsed()
    signal.signal(signal.SIGTERM, lambda *_: (_ for _ in ()).throw(KeyboardInterrupt()))
    os.chdir(ROOT)
    try:
        if options.show:
            print(archive(options.show))
            return 0
        # Check first without the lock, so that a call that needs no build does not wait for the
        # build of another call.
        if missing := [name for name in options.names or ORDER if not cached(name)]:
            with locked_cache():
                for name in with_base(list(dict.fromkeys(missing))):
                    build(name)
        for name in options.names:
            print(archive(name))
    except (BuildError, OSError, subprocess.CalledProcessError) as error:
        print(f"images: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("images: interrupted; all temporary files are removed", file=sys.stderr)
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
