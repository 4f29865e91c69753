"""The start of each Python process of a pod: the import hook for DI-engine, and then the image's
own sitecustomize.
"""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

RUNTIME = Path(__file__).parents[2] / "images/dijob-runtime"
HOOK = RUNTIME / "hook"
PARALLEL = "class Parallel:\n    known = True\n"
SHOWS = "from ding.framework import parallel; print(parallel.Parallel.patched, end='')"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A directory of modules with DI-engine's names, and a patch that leaves a trace."""
    for path, text in {
        "ding/__init__.py": "",
        "ding/framework/__init__.py": "",
        "ding/framework/parallel.py": PARALLEL,
        "dijob_runtime/__init__.py": "",
        "dijob_runtime/hook/__init__.py": "",
        "dijob_runtime/hook/compat.py": "def prepare():\n    pass\n",
        "dijob_runtime/hook/quiet.py": "def patch(m):\n    pass\n",
        "dijob_runtime/hook/parallel.py": "def patch(m):\n    m.Parallel.patched = 'yes'\n",
    }.items():
        file = tmp_path / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    return tmp_path


def run(program: str, *folders: Path, options: tuple[str, ...] = ()) -> tuple[str, str]:
    """Run a program with this Python and these directories in PYTHONPATH. Return its stdout and
    stderr.
    """
    done = subprocess.run(
        [sys.executable, *options, "-c", program],
        env={"PYTHONPATH": ":".join(map(str, folders))},
        capture_output=True,
        text=True,
        check=False,
        timeout=30,
    )
    return done.stdout, done.stderr


def test_a_module_is_patched_when_it_is_imported(folder: Path) -> None:
    assert run(SHOWS, HOOK, folder) == ("yes", "")


def test_nothing_is_imported_before(folder: Path) -> None:
    names = "import sys; print([n for n in sys.modules if n[:4] in ('dijo', 'ding')], end='')"
    assert run(names, HOOK, folder) == ("[]", "")


def test_its_source_can_still_be_read(folder: Path) -> None:
    program = "import inspect, ding.framework.parallel as p; print(inspect.getsource(p), end='')"
    assert run(program, HOOK, folder) == (PARALLEL, "")


def test_the_images_own_sitecustomize_runs_too(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text("import sys; sys.own = __file__\n")
    program = "import sys, sitecustomize; print(sys.own == sitecustomize.__file__, end='')"
    assert run(program, HOOK, folder) == ("True", "")


@pytest.mark.parametrize("patch", ["raise ValueError('new')", "def patch(m): m.nothing"])
def test_another_di_engine_works_as_without(folder: Path, patch: str) -> None:
    (folder / "dijob_runtime/hook/parallel.py").write_text(patch)
    program = "from ding.framework.parallel import Parallel; print(Parallel.known)"
    out, err = run(program, HOOK, folder)
    assert out == "True\n"
    assert "dijob: WARNING: unsupported version of ding.framework.parallel" in err


def test_an_isolated_python_sees_nothing_of_it(folder: Path) -> None:
    program = "import sys; print('sitecustomize' in sys.modules and sys.modules['sitecustomize'])"
    out, _ = run(program, HOOK, options=("-I",))
    assert str(HOOK) not in out


# The nodes of ast that Python 2.7 cannot parse.
NEWER = (
    ast.AnnAssign,
    ast.AsyncFor,
    ast.AsyncFunctionDef,
    ast.AsyncWith,
    ast.Await,
    ast.JoinedStr,
    ast.MatMult,
    ast.Match,
    ast.NamedExpr,
    ast.Nonlocal,
    ast.TryStar,
    ast.YieldFrom,
)


def newer_than_2_7(node: ast.AST) -> bool:
    """Whether this node is a syntax error in Python 2.7."""
    match node:
        case ast.ImportFrom(module="__future__"):
            return True
        case ast.arguments(posonlyargs=before, kwonlyargs=behind):
            return bool(before or behind)
        case ast.arg(annotation=note) | ast.FunctionDef(returns=note) if note:
            return True
        case ast.ClassDef(keywords=[_, *_]) | ast.Raise(cause=ast.AST()):
            return True
        case ast.Starred():
            return not isinstance(node.ctx, ast.Load)
    return isinstance(node, NEWER)


def test_an_old_python_can_read_the_file() -> None:
    """C51: Python 2.7 and 3.6 printed a SyntaxError at each start."""
    text = (HOOK / "sitecustomize.py").read_bytes()
    assert [ast.dump(node) for node in ast.walk(ast.parse(text)) if newer_than_2_7(node)] == []
    assert text.isascii()


@pytest.mark.parametrize("text", ["def f(a: int): 0", "def f(*, a): 0", "from __future__ import x"])
def test_what_an_old_python_cannot_read(text: str) -> None:
    assert any(map(newer_than_2_7, ast.walk(ast.parse(text))))


# A module of Python 2.7 that 3.12 no longer has.
IMP = """
import sys, types
def load(name, path):
    sys.own = path
def find(name, folders):
    return [f for f in folders if f.endswith("own")]
sys.modules["imp"] = types.SimpleNamespace(find_module=find, load_module=load)
sys.modules["sitecustomize"] = types.ModuleType("sitecustomize")
"""
OLD = """
sys.version_info, before, __file__ = {version}, list(sys.meta_path), {file!r}
exec(open(__file__).read())
print(sys.own.rpartition("/")[2], sys.meta_path == before, end="")
"""


@pytest.mark.parametrize("version", [(2, 7, 18), (3, 6, 15)])
def test_an_old_python_runs_the_images_own_and_nothing_else(
    version: tuple[int, ...], tmp_path: Path
) -> None:
    """C51: DI-engine needs Python 3.7."""
    own = tmp_path / "own"
    own.mkdir()
    (own / "sitecustomize.py").write_text("import sys; sys.own = __file__.rpartition('/')[0]\n")
    program = IMP + OLD.format(version=version, file=str(HOOK / "sitecustomize.py"))
    assert run(program, own) == ("own True", "")
