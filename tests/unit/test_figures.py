"""The figures of the code (make figures)."""

from pathlib import Path

import pytest
from figures import CLASSES, DATACLASSES, FUNCTIONS, MODULES, ROOT, code, core_imports, large

FIELDS = "".join(f"    f{at}: int\n" for at in range(16))
TOO_LARGE = {
    FUNCTIONS: "async def f():\n" + "    1\n" * 50,
    CLASSES: "class C:\n" + "    1\n" * 150,
    MODULES: "1\n" * 301,
    DATACLASSES: f"@dataclasses.dataclass(frozen=True)\nclass C:\n{FIELDS}",
}


@pytest.mark.parametrize("kind", TOO_LARGE)
def test_what_is_too_large_is_found_and_not_what_is_one_smaller(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "module.py"
    path.write_text(TOO_LARGE[kind])
    assert [each.kind for each in large(tmp_path, [path])] == [kind]
    path.write_text(TOO_LARGE[kind].rstrip("\n").rpartition("\n")[0])
    assert large(tmp_path, [path]) == []


def test_fields_of_a_class_that_is_no_dataclass_are_not_counted(tmp_path: Path) -> None:
    path = tmp_path / "module.py"
    path.write_text(f"class C(BaseModel):\n{FIELDS}")
    assert large(tmp_path, [path]) == []


def test_scripts_and_images_are_code_and_the_test_cluster_is_not_counted() -> None:
    product = {str(path.relative_to(ROOT)) for path in code(ROOT, ("operator", "images"))}
    assert {"images/base/rootfs.sh", "images/ditask/Dockerfile"} <= product
    tests = code(ROOT, ("tests",))
    assert Path(__file__) in tests
    assert not [path for path in tests if "tests/e2e/cluster" in str(path)]


def test_imports_between_folders_of_the_core_go_to_the_layers_below() -> None:
    folders, imports = core_imports(ROOT)
    core = "dijob.core"
    assert {core, f"{core}.decide", f"{core}.render.runtimes"} <= folders
    assert (f"{core}.decide", core) in imports
    assert (core, f"{core}.decide") not in imports
