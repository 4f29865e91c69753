"""The locked packages have licences that go with Apache-2.0; which ones, their metadata say."""

import importlib.metadata
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
# SPDX. MPL-2.0 is about its own files only, which are used as they are.
ALLOWED = {
    "Apache-2.0",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "ISC",
    "MIT",
    "MIT-0",
    "MPL-2.0",
    "PSF-2.0",
}
# What older metadata say in words of their own.
WORDS = {
    "Apache 2.0": "Apache-2.0",
    "BSD 2-Clause License": "BSD-2-Clause",
    "MIT License": "MIT",
    "Mozilla Public License 2.0 (MPL 2.0)": "MPL-2.0",
}
# Whose metadata say none: its LICENSE file, and the head of the axe-core that it carries.
UNSAID = {"axe-playwright-python": {"MIT", "MPL-2.0"}}


def locked(name: str) -> list[str]:
    return re.findall(r"^([\w.-]+)==", (ROOT / name).read_text(), re.MULTILINE)


def licences(package: str) -> set[str]:
    """The licences that a package's metadata name; each of a choice, and of what holds together."""
    if package in UNSAID:
        return UNSAID[package]
    fields = importlib.metadata.metadata(package)
    said = next((fields[each] for each in ("License-Expression", "License") if each in fields), "")
    if not said:
        classifiers = fields.get_all("Classifier") or []
        said = next(c.rpartition(" :: ")[2] for c in classifiers if c.startswith("License :: "))
    if said in WORDS:
        return {WORDS[said]}
    return set(re.split(r" (?:AND|OR) ", said))


def test_every_package_of_the_operator_is_among_those_of_the_tests() -> None:
    """So one environment has the metadata of all."""
    assert set(locked("requirements.txt")) <= set(locked("requirements-dev.txt"))


@pytest.mark.parametrize("package", locked("requirements-dev.txt"))
def test_the_licence_of_a_locked_package_is_allowed(package: str) -> None:
    found = licences(package)
    assert found
    assert found <= ALLOWED, f"{package}: {found - ALLOWED}"
