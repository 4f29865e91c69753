"""Bounds that keep the core readable: classes, dataclasses, and how these are built."""

import ast
from collections.abc import Iterator
from pathlib import Path

import dijob

CORE = Path(dijob.__file__).parent / "core"
MAX_LINES, MAX_FIELDS, MAX_POSITIONAL = 150, 15, 4


def trees() -> dict[str, ast.Module]:
    return {path.name: ast.parse(path.read_text()) for path in sorted(CORE.rglob("*.py"))}


def classes() -> Iterator[ast.ClassDef]:
    nodes = (node for tree in trees().values() for node in ast.walk(tree))
    return (node for node in nodes if isinstance(node, ast.ClassDef))


def fields(of: ast.ClassDef) -> int:
    """How many fields a dataclass has; 0 for any other class."""
    if not any("dataclass" in ast.unparse(each) for each in of.decorator_list):
        return 0
    return sum(isinstance(node, ast.AnnAssign) for node in of.body)


def test_no_class_is_longer_than_can_be_read_at_once() -> None:
    lines = {each.name: (each.end_lineno or 0) - each.lineno + 1 for each in classes()}
    assert "World" in lines
    assert {name: count for name, count in lines.items() if count > MAX_LINES} == {}


def test_no_dataclass_has_more_fields_than_can_be_kept_in_mind() -> None:
    counts = {each.name: fields(each) for each in classes()}
    assert counts["Pod"] > MAX_POSITIONAL
    assert {name: count for name, count in counts.items() if count > MAX_FIELDS} == {}


def test_what_has_many_fields_is_built_by_their_names() -> None:
    many = {each.name for each in classes() if fields(each) > MAX_POSITIONAL}
    by_position = [
        f"{file}:{node.lineno}"
        for file, tree in trees().items()
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and ast.unparse(node.func) in many and node.args
    ]
    assert by_position == []
