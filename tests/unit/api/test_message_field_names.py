"""Messages name fields as in the API (`parallelWorkers`), not as in Python."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from dijob.api.parse import parse_job
from dijob.api.spec import Spec
from dijob.api.status import Status
from dijob.api.warnings import job_warnings
from samples.builders import job_body

ROOT = Path(__file__).parents[3] / "operator"
PYTHON_NAMES = sorted(
    name for model in (Spec, Status) for name in model.model_fields if "_" in name
)
NAME = re.compile(rf"(?<![\w.%{{-])(?:spec\.|status\.)?({'|'.join(PYTHON_NAMES)})(?!\w)")


def messages(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Yield the line and the text of all strings with a space that are not docstrings."""
    silent = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        text = node.value if isinstance(node, ast.Constant) else None
        if isinstance(text, str) and " " in text and id(node) not in silent:
            assert isinstance(node, ast.Constant)
            yield node.lineno, text


def test_warnings_have_the_api_names() -> None:
    body = job_body()
    body["spec"]["template"]["spec"]["containers"][0]["command"] = ["ditask", "x" * 20_000]
    found = list(map(str, job_warnings(parse_job(body))))
    assert any(one.startswith("spec.parallelWorkers: ") for one in found)
    assert [one for one in found if NAME.search(one)] == []


def test_no_message_has_the_python_name_of_a_field() -> None:
    found = [
        f"{path.relative_to(ROOT)}:{line}: {text}"
        for path in sorted(ROOT.rglob("*.py"))
        for line, text in messages(ast.parse(path.read_text()))
        if NAME.search(text)
    ]
    assert found == []
