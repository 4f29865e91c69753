"""The chart without helm: values, schema, RBAC comments and documentation are consistent."""

import json
import re
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml
from dijob import __version__
from dijob.core.render.scheduling import ENGINES
from dijob.crd import crd_manifest
from dijob.kube.kinds import ISOLATING, KINDS, QUEUEING, QUEUEING_CLUSTER, SCHEDULING

ROOT = Path(__file__).parents[3]
CHART = ROOT / "charts/dijob"
PAGE = ROOT / "docs/chart-values.md"
VALUES: dict[str, Any] = yaml.safe_load((CHART / "values.yaml").read_text())
SCHEMA: dict[str, Any] = json.loads((CHART / "values.schema.json").read_text())
HELPERS = (CHART / "templates/_helpers.tpl").read_text()


def rules_text(template: str) -> str:
    """Return the operator's RBAC rules with their comments from the template."""
    found = re.search(
        rf'define "dijob\.{template}" -\}}\}}\n(.*?)\n\{{\{{- end', HELPERS, re.DOTALL
    )
    assert found, f"templates/_helpers.tpl no longer defines dijob.{template}"
    return found.group(1)


# The operator's permissions, and the additional ones with networkPolicy.jobs and with engines.
TEMPLATES = {
    "rules": KINDS,
    "isolatingRules": ISOLATING,
    "queueingRules": QUEUEING,
    "queueingClusterRules": QUEUEING_CLUSTER,
    **{
        f"rulesOf{engine}": (SCHEDULING[row.full_kind],)
        for engine, row in ENGINES.items()
        if row.kind
    },
}
RULES: dict[str, list[dict[str, list[str]]]] = {
    template: yaml.safe_load(rules_text(template)) for template in TEMPLATES
}


def leaves(schema: Mapping[str, Any], path: str = "") -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield each value of the schema without nested values, with its dotted path."""
    for name, sub in schema["properties"].items():
        inner = f"{path}.{name}" if path else name
        if "properties" in sub and sub["properties"].keys() - {"requests", "limits"}:
            yield from leaves(sub, inner)
        else:
            yield inner, sub


def lookup(values: Mapping[str, Any], path: str) -> Any:
    """Return the value at a dotted path. Raises KeyError if there is none."""
    node: Any = values
    for part in path.split("."):
        node = node[part]
    return node


def nodes(schema: Any, path: str = "values") -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield each part of the schema that must have a description, with a path for messages."""
    yield path, schema
    for name, sub in schema.get("properties", {}).items():
        yield from nodes(sub, f"{path}.{name}")


PATHS = [path for path, _ in leaves(SCHEMA) if path != "global"]


def test_defaults_meet_the_schema() -> None:
    jsonschema.validate(VALUES, SCHEMA, cls=jsonschema.Draft7Validator)


@pytest.mark.parametrize("path", PATHS)
def test_every_value_has_a_default_and_a_row_in_the_page(path: str) -> None:
    lookup(VALUES, path)
    assert f"| `{path}` |" in PAGE.read_text(), f"{PAGE.name} has no row for {path}"


def test_the_page_has_no_row_of_a_value_that_is_gone() -> None:
    rows = re.findall(r"^\| `([\w.]+)` \|", PAGE.read_text(), re.MULTILINE)
    assert sorted(rows) == sorted(PATHS)


@pytest.mark.parametrize(
    ("path", "node"), [pytest.param(*each, id=each[0]) for each in nodes(SCHEMA)]
)
def test_the_schema_describes_and_closes_every_part(path: str, node: Mapping[str, Any]) -> None:
    assert node.get("description") or node.get("title"), f"{path} has no description"
    if "properties" in node:
        assert node.get("additionalProperties") is False, f"{path} lets a typo pass"


@pytest.mark.parametrize("template", TEMPLATES)
def test_every_rule_has_a_comment(template: str) -> None:
    lines = rules_text(template).splitlines()
    starts = [number for number, line in enumerate(lines) if line.startswith("- apiGroups")]
    assert len(starts) == len(RULES[template])
    for number in starts:
        assert number > 0, "the first rule has no reason above it"
        assert lines[number - 1].startswith("# "), f"no reason above: {lines[number + 1]}"


@pytest.mark.parametrize("template", TEMPLATES)
def test_the_rules_grant_only_the_required_permissions(template: str) -> None:
    """More permissions require a change to kube/kinds.py too, and a row in docs/security.md."""
    granted = [
        (group, resource, verb)
        for rule in RULES[template]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    ]
    kinds = TEMPLATES[template]
    wanted = [(kind.group, kind.plural, verb) for kind in kinds for verb in kind.verbs.split()]
    assert sorted(granted) == sorted(wanted)


@pytest.mark.parametrize(
    "rule", [rule for rules in RULES.values() for rule in rules], ids=lambda rule: rule["verbs"]
)
def test_the_security_page_has_each_rule(rule: dict[str, list[str]]) -> None:
    group = rule["apiGroups"][0] or "(core)"
    row = f"| {group} | {rule['resources'][0]} | {', '.join(rule['verbs'])} | "
    assert row in (ROOT / "docs/security.md").read_text(), f"no row starts with {row!r}"


def templates_in(schema: Mapping[str, Any], path: str) -> Iterator[str]:
    """Yield the paths of all properties named `template` in a CRD's schema, which create pods."""
    for name, sub in schema.get("properties", {}).items():
        if name == "template":
            yield f"{path}.{name}"
        yield from templates_in(sub, f"{path}.{name}")
    if "items" in schema:
        yield from templates_in(schema["items"], f"{path}[]")


def test_the_policy_checks_every_pod_template_of_the_api() -> None:
    """A template in the CRD that the policy does not read could bypass the policy."""
    for version in crd_manifest()["spec"]["versions"]:
        spec = version["schema"]["openAPIV3Schema"]["properties"]["spec"]
        assert list(templates_in(spec, "spec")) == ["spec.tasks[].template", "spec.template"]


def test_the_crd_has_the_charts_label() -> None:
    """This label distinguishes our CRD from DI-orchestrator's (dijob.checkCrd in _helpers.tpl)."""
    assert crd_manifest()["metadata"].get("labels", {}).get("app.kubernetes.io/part-of") == "dijob"


def test_notes_and_page_name_the_job_of_the_first_example() -> None:
    documents = yaml.safe_load_all((ROOT / "examples/dijob.yaml").read_text())
    (name,) = [each["metadata"]["name"] for each in documents if each["kind"] == "DIJob"]
    for page in (CHART / "templates/NOTES.txt", ROOT / "docs/install.md"):
        assert f"dijob/{name}\n" in page.read_text(), f"{page.name} does not wait for {name}"


def test_links_between_the_pages_work() -> None:
    for page in (ROOT / "docs/install.md", ROOT / "docs/security.md", CHART / "README.md"):
        for target in re.findall(r"\]\(([^)\s]+)\)", page.read_text()):
            path, _, anchor = target.partition("#")
            file = (page.parent / path).resolve() if path else page
            assert file.exists(), f"{page.name} links to {target}"
            headings = re.findall(r"^#+ (.*)$", file.read_text(), re.MULTILINE)
            slugs = {
                re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings
            }
            assert not anchor or anchor in slugs, (
                f"{page.name} links to {target}; there are {sorted(slugs)}"
            )


def test_all_released_parts_have_one_version() -> None:
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    projects = [ROOT / "pyproject.toml", ROOT / "images/dijob-runtime/pyproject.toml"]
    runtime = (ROOT / "images/dijob-runtime/dijob_runtime/__init__.py").read_text()
    said = {
        chart["version"],
        chart["appVersion"],
        *(tomllib.loads(path.read_text())["project"]["version"] for path in projects),
        *re.findall(r'^__version__ = "(.+)"$', runtime, re.MULTILINE),
    }
    assert said == {__version__}


def test_the_changelog_starts_with_this_version_or_unreleased() -> None:
    heads = re.findall(r"^## (\S+)", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert heads[0] == "Unreleased"
    assert __version__.endswith("-dev") or heads[1] == __version__
