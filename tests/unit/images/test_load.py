"""make images-load (images/load.py): the command that imports an archive into each node."""

from pathlib import Path

import pytest
from load import Import, Where, imports, load, parsed
from steps import BuildError

A, B = Path("/cache/a.tar"), Path("/cache/b.tar")
IMPORT = ("--namespace=k8s.io", "images", "import", "-")

CASES = {
    "kind": (
        Where(kind="dev"),
        [
            Import(("kind", "load", "image-archive", "/cache/a.tar", "--name=dev")),
            Import(("kind", "load", "image-archive", "/cache/b.tar", "--name=dev")),
        ],
    ),
    "two hosts": (
        Where(hosts=("root@n1", "root@n2")),
        [
            Import(("ssh", host, "ctr --namespace=k8s.io images import -"), each)
            for each in (A, B)
            for host in ("root@n1", "root@n2")
        ],
    ),
    "k3s": (
        Where(hosts=("n1",), ctr="sudo k3s ctr"),
        [
            Import(("ssh", "n1", "sudo k3s ctr --namespace=k8s.io images import -"), each)
            for each in (A, B)
        ],
    ),
    "a command": (
        Where(enter=("docker exec -i 'a node'",)),
        [Import(("docker", "exec", "-i", "a node", "ctr", *IMPORT), each) for each in (A, B)],
    ),
}


@pytest.mark.parametrize(("where", "wanted"), CASES.values(), ids=CASES)
def test_each_archive_goes_into_each_node(where: Where, wanted: list[Import]) -> None:
    assert imports(where, [A, B]) == wanted


def test_without_a_node_the_error_explains_the_usage() -> None:
    with pytest.raises(BuildError, match="no nodes are given"):
        imports(Where(), [A])


def test_an_own_archive_is_loaded_alone(tmp_path: Path) -> None:
    (own := tmp_path / "own.tar").touch()
    assert parsed(["--kind", "dev", "--file", str(own)]) == (Where(kind="dev"), [own])


@pytest.mark.parametrize(
    ("given", "said"),
    [
        pytest.param(["nothing"], "unknown image nothing; known: base", id="no such image"),
        pytest.param(["--file", "/gone.tar"], "/gone.tar does not exist", id="no such file"),
    ],
)
def test_a_missing_image_or_file_is_named(given: list[str], said: str) -> None:
    with pytest.raises(BuildError, match=said):
        parsed(given)


def test_the_output_of_a_node_is_shown(tmp_path: Path) -> None:
    (own := tmp_path / "own.tar").write_text("x")
    load(Import(("grep", "-q", "x"), own))
    with pytest.raises(BuildError, match=r"failed \(3\): no space left"):
        load(Import(("sh", "-c", "cat > /dev/null; echo no space left >&2; exit 3"), own))
    with pytest.raises(BuildError, match="no-such-program: No such file"):
        load(Import(("no-such-program",), own))
