"""The inputs of each image (images/catalogue.py). Other changes do not cause a new build."""

from pathlib import Path, PurePosixPath

from catalogue import CROSS, IMAGES, NOT_OPERATOR, ROOT, input_files


def seen(name: str) -> list[PurePosixPath]:
    return [PurePosixPath(path.relative_to(ROOT)) for path in input_files(IMAGES[name])]


def test_the_operators_image_has_nothing_of_the_command_line_or_the_client() -> None:
    packages = {path.parts[2] for path in seen("operator") if len(path.parts) > 3}
    assert packages >= {"api", "controller", "core", "crd", "kube", "process", "reasons", "server"}
    assert not packages & {"cli", "client"}


def test_the_build_context_matches_the_catalogue() -> None:
    """Docker reads .dockerignore, in which the last matching line decides. The build for another
    machine has its own list."""
    lines = (ROOT / ".dockerignore").read_text().splitlines()
    rules = [line for line in lines if line and not line.startswith("#")]
    behind = rules[rules.index("!operator/dijob") + 1 :]
    assert set(behind) == {*NOT_OPERATOR, "**/__pycache__"}
    script = Path(ROOT / CROSS / "rootfs.sh").read_text()
    for folder in NOT_OPERATOR:
        assert f"! -path '{folder.removeprefix('operator/')}/*'" in script
