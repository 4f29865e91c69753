"""Prints figures of the code next to their goals: names, comments, sizes, pages.

Usage: python tests/figures.py [BASE] (make figures BASE=77028d8). With a commit as BASE, its
figures are printed as well. Only one figure is enforced: no class name is used twice in the product
(tests/unit/repository/test_figures.py).
"""

import ast
import io
import subprocess
import sys
import tempfile
import tokenize
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
# What is installed: the operator, and what runs in the pods.
PRODUCT = ("operator/dijob", "operator/dijob_extras", "images/launcher", "images/dijob-runtime")
TESTS = ("tests", "testing")
GENERATED = {"reference", "cli", "conditions", "metrics", "chart-values"}
FEW_LINES = 40


def files(root: Path, folders: Iterable[str], *endings: str) -> list[Path]:
    """Return the files below these folders with this suffix, sorted. Go tests count as tests."""
    found = (path for folder in folders for path in (root / folder).rglob("*") if path.is_file())
    return sorted(p for p in found if p.suffix in endings and not p.name.endswith("_test.go"))


def count_lines(paths: Iterable[Path]) -> int:
    """Return the number of lines of these files, blank ones included."""
    return sum(len(path.read_text().splitlines()) for path in paths)


def functions(paths: Iterable[Path]) -> Iterator[str]:
    """Yield the name of each function and method but those that Python names (__init__)."""
    for path in paths:
        for node in ast.walk(ast.parse(path.read_text())):
            match node:
                case ast.FunctionDef() | ast.AsyncFunctionDef() if not node.name.startswith("__"):
                    yield node.name


def repeated_classes(paths: Iterable[Path]) -> dict[str, list[str]]:
    """Return each name that several classes have, with the places of the classes."""
    places: dict[str, list[str]] = {}
    for path in paths:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ClassDef):
                places.setdefault(node.name, []).append(f"{path}:{node.lineno}")
    return {name: found for name, found in sorted(places.items()) if len(found) > 1}


def comments_and_code(paths: Iterable[Path]) -> tuple[int, int]:
    """Return the number of lines with only a comment, and of lines with code.

    Docstrings are neither.
    """
    comments, code = 0, 0
    layout = {tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER}
    for path in paths:
        kinds: dict[int, set[int]] = {}
        texts = _docstring_lines(ast.parse(path.read_text()))
        for token in tokenize.generate_tokens(io.StringIO(path.read_text()).readline):
            if token.type not in layout:
                for line in range(token.start[0], token.end[0] + 1):
                    kinds.setdefault(line, set()).add(token.type)
        comments += sum(found == {tokenize.COMMENT} for found in kinds.values())
        code += sum(
            found != {tokenize.COMMENT} for line, found in kinds.items() if line not in texts
        )
    return comments, code


def _docstring_lines(tree: ast.Module) -> set[int]:
    nodes = (n for n in ast.walk(tree) if isinstance(n, ast.Expr))
    texts = (n for n in nodes if isinstance(n.value, ast.Constant))
    return {line for n in texts for line in range(n.lineno, (n.end_lineno or n.lineno) + 1)}


def figures(root: Path) -> dict[str, str]:
    """Return the figures of a tree by name, as text."""
    python = files(root, PRODUCT, ".py")
    names = list(functions(python))
    short = sum("_" not in name.strip("_") for name in names)
    comments, code = comments_and_code(python)
    modules = [path for path in python if path.name != "__init__.py"]
    command_line = files(root, ("operator/dijob/cli", "operator/dijob/client"), ".py")
    product = count_lines(files(root, PRODUCT, ".py", ".go", ".sh", ".js", ".css"))
    tests = count_lines(files(root, TESTS, ".py", ".go", ".sh"))
    pages = [path for path in (root / "docs").glob("*.md") if path.stem not in GENERATED]
    return {
        "functions with a one-word name": f"{100 * short / len(names):.0f} %",
        "class names of two or more classes": str(len(repeated_classes(python))),
        "comment lines per 100 lines of code": f"{100 * comments / code:.1f}",
        f"modules under {FEW_LINES} lines": str(
            sum(len(path.read_text().splitlines()) < FEW_LINES for path in modules)
        ),
        "lines of cli and client": f"{count_lines(command_line):,}",
        "lines of the product": f"{product:,}",
        "lines of tests": f"{tests:,}",
        "lines of tests per line of the product": f"{tests / product:.2f}",
        "pages in docs/ that are not generated": str(len(pages)),
    }


# The goals by the name of the figure.
GOALS = {
    "functions with a one-word name": "<= 50 %",
    "class names of two or more classes": "0",
    "comment lines per 100 lines of code": ">= 6",
    f"modules under {FEW_LINES} lines": "<= 20",
    "lines of cli and client": "<= 10,500",
    "lines of the product": "<= 31,800",
    "lines of tests per line of the product": "<= 1.50",
    "pages in docs/ that are not generated": "about 20",
}


def unpack(commit: str, folder: str) -> None:
    """Write the files of a commit below the folder."""
    archive = subprocess.run(["git", "archive", commit], cwd=ROOT, check=True, capture_output=True)
    subprocess.run(["tar", "-x", "-C", folder], input=archive.stdout, check=True)


def main(base: str) -> None:
    """Print the table, and advice about its first two rows."""
    now, before = figures(ROOT), dict[str, str]()
    if base:
        with tempfile.TemporaryDirectory() as folder:
            unpack(base, folder)
            before = figures(Path(folder))
    print(f"{'':<42}{base[:10]:>12}{'now':>12}{'goal':>12}")
    for name, value in now.items():
        print(f"{name:<42}{before.get(name, ''):>12}{value:>12}{GOALS.get(name, ''):>12}")
    python = files(ROOT, PRODUCT, ".py")
    common = Counter(name for name in functions(python) if "_" not in name.strip("_"))
    print("\nmost frequent one-word names:", *(f"{n} {k}" for k, n in common.most_common(12)))
    for name, places in repeated_classes(python).items():
        print(f"class {name}:", *(place.removeprefix(f"{ROOT}/") for place in places))


if __name__ == "__main__":
    main(*sys.argv[1:] or [""])
