"""The first job that a reader meets is the same in README.md, on the home page and in examples."""

import re
from typing import Any

import pytest
import yaml
from planes import ROOT

PAGES = ("README.md", "docs/index.md")
# What the example adds, so that it runs as it is.
ADDED = {"imagePullPolicy", "env", "resources", "workingDir", "volumeMounts"}


def first_job(page: str) -> dict[str, Any]:
    """Return the first YAML block of a page."""
    found = re.search(r"```yaml\n(.*?)```", (ROOT / page).read_text(), re.DOTALL)
    assert found
    return dict(yaml.safe_load(found[1]))


def example() -> dict[str, Any]:
    """Return the job of the example without what it adds."""
    job: dict[str, Any]
    job, _ = yaml.safe_load_all((ROOT / "examples/dijob.yaml").read_text())
    pod = job["spec"]["template"]["spec"]
    del pod["volumes"]
    (main,) = pod["containers"]
    # The pages write the same command on one line.
    main["args"] = [word.strip() for word in main["args"]]
    pod["containers"] = [{key: main[key] for key in main.keys() - ADDED}]
    return job


@pytest.mark.parametrize("page", PAGES)
def test_the_page_has_the_job_of_the_example(page: str) -> None:
    shown, whole = first_job(page), example()
    # The pages name an image of the reader.
    whole["spec"]["template"]["spec"]["containers"][0]["image"] = "my/image"
    assert shown == whole


def test_the_pages_agree_on_the_time_of_the_first_build() -> None:
    text = {page: (ROOT / page).read_text() for page in ("README.md", "docs/quick-start.md")}
    found = {
        page: re.findall(r"first (?:build|run)\s+takes (\S+) minutes", words)
        for page, words in text.items()
    }
    assert found == {"README.md": ["15"], "docs/quick-start.md": ["15"]}
