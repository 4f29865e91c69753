"""make version and make release (images/version.py, images/bundle.py): the version, the changes,
and the checksums.
"""

import hashlib
import re
from datetime import date
from pathlib import Path

import pytest
from bundle import PLACES, checked, notes, section, sums
from steps import BuildError
from version import with_heading, with_version

ROOT = Path(__file__).parents[3]
TEXTS = {place: (ROOT / place).read_text() for place in PLACES}
(NOW,) = re.findall(r'__version__ = "(.+)"', TEXTS["operator/dijob/__init__.py"])


def test_all_places_have_the_same_version() -> None:
    checked(NOW, TEXTS)


def test_each_place_with_another_version_is_named() -> None:
    with pytest.raises(BuildError) as error:
        checked("9.9.9", TEXTS)
    assert [place for place in PLACES if place not in str(error.value)] == []
    assert NOW in str(error.value)


LOG = """\
# Changes

## Unreleased

- new

## 0.2.0 - 2026-12-01

- old

## 0.2.0-rc1

- rc
"""


@pytest.mark.parametrize(
    ("version", "text"),
    [("0.2.0", "- old"), ("0.2.0-rc1", "- rc"), ("0.3.0-dev", "- new")],
)
def test_the_changes_are_those_below_the_versions_heading(version: str, text: str) -> None:
    assert section(LOG, version) == text


def test_a_version_without_a_heading_is_rejected() -> None:
    with pytest.raises(BuildError, match=r"no heading `## 0\.1\.0`"):
        section(LOG, "0.1.0")


def test_the_notes_describe_the_installation() -> None:
    text = notes("1.0.0", "- all", {"operator-1.0.0.oci.tar": "sha256:1"}, "dijob.whl")
    assert "oci-archive:operator-1.0.0.oci.tar docker://REGISTRY/dijob/operator:1.0.0" in text
    assert "| `operator-1.0.0.oci.tar` | `sha256:1` |" in text
    assert "dijob-1.0.0.tgz" in text
    assert 'pip install "dijob.whl[cli]"' in text
    assert text.endswith("sources of this version.\n\n- all\n")


def test_the_sums_are_those_of_sha256sum(tmp_path: Path) -> None:
    for name in ("b", "a"):
        (tmp_path / name).write_text(name)
    wanted = [f"{hashlib.sha256(name.encode()).hexdigest()}  {name}" for name in "ab"]
    assert sums(tmp_path.iterdir()).splitlines() == wanted


def test_each_place_gets_the_new_version_and_nothing_else_changes() -> None:
    after = {place: with_version(TEXTS[place], PLACES[place], "9.9.9") for place in PLACES}
    checked("9.9.9", after)
    assert {place: with_version(after[place], PLACES[place], NOW) for place in PLACES} == TEXTS


def test_the_unreleased_changes_get_the_versions_heading_once() -> None:
    after = with_heading(LOG, "0.3.0", date(2026, 12, 24))
    assert section(after, "0.3.0") == "- new"
    assert section(after, "0.4.0-dev") == ""
    assert with_heading(after, "0.3.0", date(2026, 12, 25)) == after


def test_a_development_version_has_no_heading() -> None:
    assert with_heading(LOG, "0.3.0-dev", date(2026, 12, 24)) == LOG
