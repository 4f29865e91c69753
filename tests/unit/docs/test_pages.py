"""The commands in the pages and the examples."""

import re
from pathlib import Path

import pytest
from dijob.cli.doctor import checks
from pages import commands, section

ROOT = Path(__file__).parents[3]
# All texts for users.
PAGES = sorted(
    path
    for pattern in (
        "*.md",
        "docs/*.md",
        "charts/dijob/*.md",
        "charts/dijob/templates/NOTES.txt",
        "examples/*.yaml",
    )
    for path in ROOT.glob(pattern)
    if "kubectl wait" in path.read_text()
)


def waits(text: str) -> list[tuple[str, str, str]]:
    """Return each `kubectl wait` for a job: the condition, the job, and the next line."""
    found = re.compile(
        r"(?m)^[# ]*kubectl wait.*?--for=condition=(\w+).* dij(?:ob)?/([\w-]+).*\n(.*)"
    )
    return [(match[1], match[2], match[3]) for match in found.finditer(text)]


def test_some_pages_wait_for_a_job() -> None:
    assert {"NOTES.txt", "install.md", "quick-start.md", "dijob.yaml"} <= {
        path.name for path in PAGES
    }


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.name)
def test_no_page_waits_for_a_condition_that_a_failed_job_never_has(page: Path) -> None:
    assert "--for=condition=Succeeded" not in page.read_text()
    assert "--for=condition=Failed" not in page.read_text()


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.name)
def test_after_waiting_for_the_end_a_page_prints_the_result(page: Path) -> None:
    for condition, job, following in waits(page.read_text()):
        if condition == "Finished":
            assert re.search(rf"kubectl get.* dij(ob)?[ /]{job}\b.*status\.phase", following), (
                following
            )


MAKEFILE = (ROOT / "Makefile").read_text()
TARGETS = set(re.findall(r"(?m)^\.PHONY: ([\w-]+)$", MAKEFILE))
FIRST = ("README.md", "Quick start"), ("docs/install.md", "")


def test_every_target_of_make_that_a_page_names_exists() -> None:
    pages = [
        *ROOT.glob("*.md"),
        *ROOT.glob("docs/**/*.md"),
        *ROOT.glob("*/*/README.md"),
        *ROOT.glob("images/*.md"),
    ]
    named = {
        word
        for page in pages
        for word in re.findall(r"[`(\n]make (?:-s )?([a-z][\w-]*)", page.read_text())
    }
    assert named >= {"demo", "cluster-up", "cluster-env", "cluster-down"}
    assert named - TARGETS == set()


@pytest.mark.parametrize(("page", "heading"), FIRST, ids=[page for page, _ in FIRST])
def test_the_first_steps_start_a_cluster_and_continue_with_an_existing_release(
    page: str, heading: str
) -> None:
    steps = "\n".join(commands(section(page, heading))).splitlines()
    assert steps[:2] == ["make cluster-up", 'eval "$(make -s cluster-env)"']
    assert [step for step in steps if step.startswith("helm")] == [
        "helm upgrade --install dijob charts/dijob --namespace dijob-system --create-namespace"
    ]


def test_readme_has_the_commands_of_the_quick_start() -> None:
    """The tests run the commands of the quick start."""
    whole = "\n".join(commands((ROOT / "docs/quick-start.md").read_text())).splitlines()
    short = "\n".join(commands(section("README.md", "Quick start"))).splitlines()
    assert len(short) > 5
    assert [line for line in short if line not in whole] == []


def test_the_test_cluster_has_every_image_of_the_examples_and_the_chart() -> None:
    recipe = re.search(r"(?m)^cluster-up:.*\n((?:\t.*\n)+)", MAKEFILE)
    assert recipe
    assert "--image" in recipe[1]
    given = set(re.findall(r"images/build\.py ([\w ]+)", recipe[1])[0].split())
    texts = [path.read_text() for path in (ROOT / "examples").iterdir()]
    named = {name for text in texts for name in re.findall(r"image: dijob/([\w-]+)", text)}
    assert named
    assert given >= named | {"operator"}


GLOSSARY = (ROOT / "docs/glossary.md").read_text()
TERMS = dict(re.findall(r"(?ms)^\*\*([^*]+)\*\*: (.+?)\n\n", GLOSSARY))


def test_the_glossary_has_40_to_60_terms_in_alphabetical_order() -> None:
    assert 40 <= len(TERMS) == GLOSSARY.count("\n**") <= 60
    plain = [re.sub(r"[^a-z ]", "", term.lower()) for term in TERMS]
    assert plain == sorted(plain)


@pytest.mark.parametrize("term", TERMS)
def test_a_term_has_a_source_and_an_existing_place_in_the_code(term: str) -> None:
    text = " ".join(TERMS[term].split())
    assert re.search(r"Source: |Project-specific\b", text)
    code = re.findall(r"`([\w/]+(?:\.py|\.sh|/))`", text)
    assert code
    assert [path for path in code if not (ROOT / "operator/dijob" / path).exists()] == []
    pages = re.findall(r"\]\(([^)#]+)[^)]*\)", text)
    assert [page for page in pages if not (ROOT / "docs" / page).is_file()] == []


def test_each_reference_of_the_glossary_is_used_and_has_its_address() -> None:
    addresses = re.findall(r"(?m)^\[([\w-]+)\]: https://\S+$", GLOSSARY)
    assert set(re.findall(r"\]\[([\w-]+)\]", GLOSSARY)) == set(addresses)


def test_troubleshooting_and_doctor_have_the_same_checks() -> None:
    page = (ROOT / "docs/troubleshooting.md").read_text()
    lines = {row.name for row in checks.CHECKS}
    named = re.findall(r"checks? ((?:`[\w ]+`(?:, )?)+)", page)
    assert len(named) > 5
    assert {name for each in named for name in re.findall(r"`([\w ]+)`", each)} <= lines
    table = section("docs/troubleshooting.md", "Diagnose with kubectl dijob doctor")
    told = {name for row in re.findall(r"(?m)^\| ([\w, ]+) \|", table) for name in row.split(", ")}
    assert lines <= told, lines - told
