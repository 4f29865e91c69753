"""The arm64 images of launcher, stacks and operator, built on another architecture: their content,
and that their programs start under an emulator.
"""

import importlib.metadata
import os
import shutil
import struct
from collections.abc import Iterator
from pathlib import Path

import pytest
from unpacked import Unpacked, unpacked

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.skipif(os.geteuid() != 0, reason="unpacking and entering an image needs root"),
]

ARCH = "arm64"
AARCH64 = 183  # e_machine of elf.h
EMULATOR = "qemu-aarch64-static"


@pytest.fixture(scope="module", params=["launcher", "stacks", "operator"])
def image(request: pytest.FixtureRequest) -> Iterator[Unpacked]:
    with unpacked(request.param, ARCH) as image:
        yield image


@pytest.fixture
def emulator(image: Unpacked) -> Iterator[str]:
    """Debian's qemu-user-static in the image, as a prefix for commands."""
    found = shutil.which(EMULATOR)
    if found is None:
        pytest.skip(f"no {EMULATOR} (Debian's package qemu-user-static)")
    inside = image.files / EMULATOR
    shutil.copy(found, inside)
    yield f"/{EMULATOR}"
    inside.unlink()


def machine(path: Path) -> int | None:
    """The architecture of an ELF file; None of any other file."""
    with path.open("rb") as file:
        head = file.read(20)
    return struct.unpack_from("<H", head, 18)[0] if head[:4] == b"\x7fELF" else None


def test_the_manifest_says_arm64(image: Unpacked) -> None:
    assert image.architecture == ARCH


def test_every_program_and_library_is_for_arm64(image: Unpacked) -> None:
    regular = (path for path in image.walk() if path.is_file() and not path.is_symlink())
    found = {path: kind for path in regular if (kind := machine(path)) is not None}
    assert found
    assert {path: kind for path, kind in found.items() if kind != AARCH64} == {}


def test_the_program_starts(image: Unpacked, emulator: str) -> None:
    if image.name == "launcher":
        said = image.run(emulator, "-0", "gate", "/launch")
        assert (said.returncode, said.stdout) == (1, ""), said
        assert said.stderr.startswith("dijob gate: "), said
        return
    if image.name == "stacks":
        said = image.run(emulator, "-0", "stacks", "/stacks", user="0:0")
        assert (said.returncode, said.stdout) == (0, '{"processes":0}\n'), said
        return
    python, *arguments = image.config["Entrypoint"]
    said = image.run(emulator, "-0", python, python, *arguments, "--help", only_writable="tmp")
    assert said.returncode == 0, said.stderr
    assert "--namespace" in said.stdout


def test_the_operator_has_the_locked_packages(image: Unpacked) -> None:
    if image.name != "operator":
        pytest.skip("the others have no packages of the operator's")
    site = image.files / "opt/dijob/lib/python3.11/site-packages"
    has = {
        found.name: found.version for found in importlib.metadata.distributions(path=[str(site)])
    }
    locked = dict(
        line.split()[0].split("==")
        for line in (Path(__file__).parents[2] / "requirements.txt").read_text().splitlines()
        if "==" in line
    )
    assert {name.lower().replace("_", "-"): version for name, version in has.items()} == {
        name.partition("[")[0].lower(): version for name, version in locked.items()
    }
