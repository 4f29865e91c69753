"""What the pages and the examples tell people to type."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
# Whatever a user reads, as it is printed.
PAGES = sorted(
    path
    for pattern in ("*.md", "docs/*.md", "charts/dijob/*.md", "charts/dijob/templates/NOTES.txt", "examples/*.yaml")
    for path in ROOT.glob(pattern)
    if "kubectl wait" in path.read_text()
)


def waits(text: str) -> list[tuple[str, str, str]]:
    """Each `kubectl wait` for a condition of a job: the condition, the job, and the line after it."""
    found = re.compile(r"(?m)^[# ]*kubectl wait.*?--for=condition=(\w+).* dij(?:ob)?/([\w-]+).*\n(.*)")
    return [match.groups() for match in found.finditer(text)]  # type: ignore[misc]


def test_the_pages_wait_somewhere() -> None:
    assert {"README.md", "NOTES.txt", "install.md", "dijob.yaml"} <= {path.name for path in PAGES}


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.name)
def test_no_page_waits_for_an_end_that_a_failed_job_never_has(page: Path) -> None:
    assert "--for=condition=Succeeded" not in page.read_text()
    assert "--for=condition=Failed" not in page.read_text()


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.name)
def test_after_waiting_for_the_end_a_page_prints_how_it_ended(page: Path) -> None:
    for condition, job, following in waits(page.read_text()):
        if condition == "Finished":
            assert re.search(rf"kubectl get.* dij(ob)?[ /]{job}\b.*status\.phase", following), following
