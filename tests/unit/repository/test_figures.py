"""The figures of the code (make figures)."""

from pathlib import Path

from figures import (
    PRODUCT,
    ROOT,
    comments_and_code,
    count_lines,
    files,
    functions,
    repeated_classes,
)

MODULE = '''"""A docstring
of two lines."""

# Why: the first line,
# and the second one.
class Given:
    """One more."""

    def __init__(self) -> None:
        self.a = """text
that is code"""

    def _read(self) -> str:  # beside code
        return self.a
'''


def written(folder: Path, text: str, name: str = "module.py") -> Path:
    path = folder / name
    path.write_text(text)
    return path


def test_docstrings_are_neither_comments_nor_code(tmp_path: Path) -> None:
    assert comments_and_code([written(tmp_path, MODULE)]) == (2, 6)


def test_names_that_python_gives_are_no_function_names(tmp_path: Path) -> None:
    assert list(functions([written(tmp_path, MODULE)])) == ["_read"]


def test_a_class_name_is_repeated_if_two_modules_have_it(tmp_path: Path) -> None:
    one, other = written(tmp_path, MODULE), written(tmp_path, MODULE, "other.py")
    assert repeated_classes([one]) == {}
    assert repeated_classes([one, other]) == {"Given": [f"{one}:6", f"{other}:6"]}


def test_tests_in_go_are_no_lines_of_the_product(tmp_path: Path) -> None:
    kept = written(tmp_path, "package main\n", "gate.go")
    written(tmp_path, "package main\n", "gate_test.go")
    assert files(tmp_path, ["."], ".go") == [kept]
    assert count_lines([kept]) == 1


def test_no_class_name_is_used_twice_in_the_product() -> None:
    """A name in a traceback, or in a search, then means one class."""
    assert repeated_classes(files(ROOT, PRODUCT, ".py")) == {}
