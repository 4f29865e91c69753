"""Bounds that keep the code readable: modules everywhere, and in the operator classes, dataclasses,
and how those of the core are built.
"""

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import dijob

OPERATOR = Path(dijob.__file__).parent
CORE = OPERATOR / "core"
MAX_LINES, MAX_FIELDS, MAX_POSITIONAL = 150, 15, 4
ROOT = Path(__file__).parents[2]
OWN = ("operator", "tests", "bench", "images", "docs", "examples")
# Whoever has GPUs runs this script by itself, without the other modules of the tests.
LONGER = {"tests/gpu/torchrpc_cuda.py"}


@cache
def trees(folder: Path) -> dict[Path, ast.Module]:
    return {path: ast.parse(path.read_text()) for path in sorted(folder.rglob("*.py"))}


def classes(folder: Path = OPERATOR) -> Iterator[ast.ClassDef]:
    nodes = (node for tree in trees(folder).values() for node in ast.walk(tree))
    return (node for node in nodes if isinstance(node, ast.ClassDef))


def fields(of: ast.ClassDef) -> int:
    """How many fields a dataclass has; 0 for any other class."""
    if not any("dataclass" in ast.unparse(each) for each in of.decorator_list):
        return 0
    return sum(isinstance(node, ast.AnnAssign) for node in of.body)


def test_no_module_is_longer_than_300_lines() -> None:
    files = [path for folder in OWN for path in (ROOT / folder).rglob("*.py")]
    lines = {str(path.relative_to(ROOT)): len(path.read_text().splitlines()) for path in files}
    assert {"operator/dijob/main.py", "tests/unit/test_sizes.py"} <= lines.keys()
    assert {path: count for path, count in lines.items() if count > 300}.keys() == LONGER


def test_no_class_is_longer_than_can_be_read_at_once() -> None:
    lines = [(each.name, (each.end_lineno or 0) - each.lineno + 1) for each in classes()]
    assert "World" in dict(lines)
    assert [(name, count) for name, count in lines if count > MAX_LINES] == []


def test_no_dataclass_has_more_fields_than_can_be_kept_in_mind() -> None:
    counts = [(each.name, fields(each)) for each in classes()]
    assert dict(counts)["Pod"] > MAX_POSITIONAL
    assert [(name, count) for name, count in counts if count > MAX_FIELDS] == []


def test_what_has_many_fields_is_built_by_their_names() -> None:
    many = {each.name for each in classes(CORE) if fields(each) > MAX_POSITIONAL}
    assert by_position(CORE, many, at_most=0) == []


def test_a_row_of_a_table_names_what_comes_after_its_fourth_field() -> None:
    many = {each.name for each in classes() if fields(each) > MAX_POSITIONAL}
    assert {"Kind", "Entry"} <= many
    assert by_position(OPERATOR, many, at_most=MAX_POSITIONAL) == []


def by_position(folder: Path, built: set[str], at_most: int) -> list[str]:
    """FILE:LINE of each construction of these classes with more arguments without a name."""
    return [
        f"{file.name}:{node.lineno}"
        for file, tree in trees(folder).items()
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        and ast.unparse(node.func) in built
        and len(node.args) > at_most
    ]
