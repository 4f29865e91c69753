"""Dataclasses with many fields are built with the fields' names."""

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import dijob

OPERATOR = Path(dijob.__file__).parent
CORE = OPERATOR / "core"
MAX_POSITIONAL = 4


@cache
def tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


def trees(folder: Path) -> dict[Path, ast.Module]:
    return {path: tree(path) for path in sorted(folder.rglob("*.py"))}


def classes(folder: Path = OPERATOR) -> Iterator[ast.ClassDef]:
    nodes = (node for each in trees(folder).values() for node in ast.walk(each))
    return (node for node in nodes if isinstance(node, ast.ClassDef))


def fields(of: ast.ClassDef) -> int:
    """Return the number of fields of a dataclass; 0 for any other class."""
    if not any("dataclass" in ast.unparse(each) for each in of.decorator_list):
        return 0
    return sum(isinstance(node, ast.AnnAssign) for node in of.body)


def test_dataclasses_with_many_fields_are_built_with_names() -> None:
    many = {each.name for each in classes(CORE) if fields(each) > MAX_POSITIONAL}
    assert by_position(CORE, many, at_most=0) == []


def test_a_row_of_a_table_names_its_fields_after_the_fourth() -> None:
    many = {each.name for each in classes() if fields(each) > MAX_POSITIONAL}
    assert {"ObjectKind", "Entry"} <= many
    assert by_position(OPERATOR, many, at_most=MAX_POSITIONAL) == []


def by_position(folder: Path, built: set[str], at_most: int) -> list[str]:
    """Return FILE:LINE of each call of these classes that passes more arguments without a name."""
    return [
        f"{file.name}:{node.lineno}"
        for file, read in trees(folder).items()
        for node in ast.walk(read)
        if isinstance(node, ast.Call)
        and len(node.args) > at_most
        and ast.unparse(node.func) in built
    ]
