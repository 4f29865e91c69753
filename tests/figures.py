"""Prints the figures of the code: lines, ratio of tests, what is too large, imports in the core.

Use: python tests/figures.py [BASE] (make figures BASE=d493ff3). With a commit as BASE, its figures
stand beside those of the working tree. Code is what ends in .py or .sh, and Dockerfiles;
tests/e2e/cluster, the test cluster, is not counted.
"""

import ast
import importlib
import io
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import grimp

ROOT = Path(__file__).parents[1]
PRODUCT, TESTS = ("operator", "images"), ("tests",)
CLUSTER = "tests/e2e/cluster"
CORE = "dijob.core"
COLUMNS = 100
FUNCTIONS, CLASSES = "functions over 50 lines", "classes over 150 lines"
MODULES, DATACLASSES = "modules over 300 lines", "dataclasses of more than 15 fields"
MOST = {FUNCTIONS: 50, CLASSES: 150, MODULES: 300, DATACLASSES: 15}


@dataclass(frozen=True)
class Large:
    """Something larger than a rule allows: `kind` names the rule, `size` is in lines or fields."""

    kind: str
    place: str
    size: int


def code(root: Path, folders: tuple[str, ...]) -> list[Path]:
    """The files of code below these folders, in order."""
    found = (path for folder in folders for path in (root / folder).rglob("*") if path.is_file())
    kept = (path for path in found if path.suffix in (".py", ".sh") or path.name == "Dockerfile")
    return sorted(path for path in kept if not path.is_relative_to(root / CLUSTER))


def sizes(text: str) -> Iterator[tuple[str, str, int]]:
    """Rule, place within the file, and size, for a module of Python and all that is in it."""
    yield MODULES, "", len(text.splitlines())
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            place, lines = f":{node.lineno} {node.name}", (node.end_lineno or 0) - node.lineno + 1
            yield CLASSES if isinstance(node, ast.ClassDef) else FUNCTIONS, place, lines
            if isinstance(node, ast.ClassDef) and _is_dataclass(node):
                yield DATACLASSES, place, sum(isinstance(line, ast.AnnAssign) for line in node.body)


def large(root: Path, files: list[Path]) -> list[Large]:
    """What is too large in these files."""
    return [
        Large(kind, f"{path.relative_to(root)}{place}", size)
        for path in files
        if path.suffix == ".py"
        for kind, place, size in sizes(path.read_text())
        if size > MOST[kind]
    ]


def statements(files: list[Path]) -> int:
    """How many statements of Python: unlike lines, they do not depend on how long lines may be.

    Docstrings are not counted.
    """
    nodes = (
        node
        for path in files
        if path.suffix == ".py"
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.stmt)
    )
    texts = (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) for node in nodes)
    return sum(not text for text in texts)


def _is_dataclass(node: ast.ClassDef) -> bool:
    names = (each.func if isinstance(each, ast.Call) else each for each in node.decorator_list)
    return any(ast.unparse(name).rpartition(".")[2] == "dataclass" for name in names)


def core_imports(root: Path) -> tuple[set[str], set[tuple[str, str]]]:
    """The core's folders (itself and nested ones too), and the imports between them."""
    sys.path.insert(0, str(root / "operator"))
    importlib.invalidate_caches()
    try:
        graph = grimp.build_graph("dijob", cache_dir=None)
    finally:
        del sys.path[0]
    modules = {name for name in graph.modules if f"{name}.".startswith(f"{CORE}.")}
    folders = {name for name in modules if name == CORE or graph.find_children(name)}
    folder = {name: name if name in folders else name.rpartition(".")[0] for name in modules}
    imports = {
        (folder[name], folder[other])
        for name in modules
        for other in graph.find_modules_directly_imported_by(name) & modules
    }
    return folders, {(importer, imported) for importer, imported in imports if importer != imported}


def figures(root: Path) -> tuple[dict[str, str], list[Large]]:
    """The figures of a tree by name, as text, and what is too large in it."""
    rows, found, totals = dict[str, str](), list[Large](), dict[str, int]()
    for name, folders in (("product", PRODUCT), ("tests", TESTS)):
        files = code(root, folders)
        lines = [line for path in files for line in path.read_text().splitlines()]
        too_large = large(root, files)
        totals[name] = statements(files)
        rows[f"{name}: lines"] = str(len(lines))
        rows[f"{name}: statements of Python"] = str(totals[name])
        for kind in MOST:
            rows[f"{name}: {kind}"] = str(sum(each.kind == kind for each in too_large))
        wide = sum(len(line) > COLUMNS for line in lines)
        rows[f"{name}: lines over {COLUMNS} columns"] = f"{100 * wide / len(lines):.1f} %"
        found += too_large
    ratio = totals["tests"] / totals["product"]
    rows["statements of tests per statement of product"] = f"{ratio:.2f}"
    core, imports = core_imports(root)
    rows["core: folders"] = str(len(core))
    rows["core: imports between folders"] = str(len(imports))
    return rows, found


def unpack(commit: str, folder: Path) -> None:
    """The files of a commit, below the folder."""
    archive = subprocess.run(["git", "archive", commit], cwd=ROOT, check=True, capture_output=True)
    with tarfile.open(fileobj=io.BytesIO(archive.stdout)) as tar:
        tar.extractall(folder, filter="data")


def main(base: str) -> None:
    """Print the table, and below it what is too large now."""
    now, found = figures(ROOT)
    before = dict[str, str]()
    if base:
        with tempfile.TemporaryDirectory() as folder:
            unpack(base, Path(folder))
            before, _ = figures(Path(folder))
        print(f"{'':<46}{base[:10]:>12}{'now':>12}")
    for name, value in now.items():
        print(f"{name:<46}{before[name] if base else '':>12}{value:>12}")
    for each in found:
        print(f"{each.size:>6}  {each.place} ({each.kind})")


if __name__ == "__main__":
    main(*sys.argv[1:] or [""])
