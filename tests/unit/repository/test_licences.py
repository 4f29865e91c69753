"""The licenses of the locked packages, from their metadata, are compatible with Apache-2.0."""

import importlib.metadata
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
# SPDX identifiers. MPL-2.0 applies only to its own files, which are not modified.
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
# Names of licenses in older metadata.
WORDS = {
    "Apache 2.0": "Apache-2.0",
    "BSD 2-Clause License": "BSD-2-Clause",
    "MIT License": "MIT",
    "Mozilla Public License 2.0 (MPL 2.0)": "MPL-2.0",
}
# Packages without a license in their metadata. The source here is the LICENSE file, and the header
# of the bundled axe-core.
UNSAID = {"axe-playwright-python": {"MIT", "MPL-2.0"}}


def locked(name: str) -> list[str]:
    return re.findall(r"^([\w.-]+)==", (ROOT / name).read_text(), re.MULTILINE)


def licences(package: str) -> set[str]:
    """Return all licenses in a package's metadata, whether they are joined by AND or by OR."""
    if package in UNSAID:
        return UNSAID[package]
    fields = importlib.metadata.metadata(package)
    named = next((fields[each] for each in ("License-Expression", "License") if each in fields), "")
    if not named:
        classifiers = fields.get_all("Classifier") or []
        named = next(c.rpartition(" :: ")[2] for c in classifiers if c.startswith("License :: "))
    if named in WORDS:
        return {WORDS[named]}
    return set(re.split(r" (?:AND|OR) ", named))


def test_the_locked_packages_of_the_tests_include_those_of_the_operator() -> None:
    """One environment then has the metadata of all packages."""
    assert set(locked("requirements.txt")) <= set(locked("requirements-dev.txt"))


@pytest.mark.parametrize("package", locked("requirements-dev.txt"))
def test_the_licence_of_a_locked_package_is_allowed(package: str) -> None:
    found = licences(package)
    assert found
    assert found <= ALLOWED, f"{package}: {found - ALLOWED}"
