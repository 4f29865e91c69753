"""`from-slurm` converts batch scripts: ten complete scripts, each with the expected DIJob."""

from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner
from dijob.cli.errors import Exit
from dijob.cli.files import job_of, parse_file
from dijob.cli.main import group
from dijob_extras.slurm.script import parse_script

SCRIPTS = Path(__file__).parent / "slurm"
# The options of the command for each script that needs others than the usual ones.
SAID = {
    "array": ["--array-index", "3", "--image", "dijob/ditask:0.5.3"],
    "peers": ["--image", "dijob/light:dev"],
    "pyxis": [],
    "sockets": ["--image", "dijob/light:dev"],
    "steps": ["--step", "2", "--image", "dijob/ditask:0.5.3"],
}
USUAL = ["--image", "dijob/ditask:0.5.3"]
NAMES = sorted(path.stem for path in SCRIPTS.glob("*.sbatch"))


def converted(name: str) -> str:
    """Return what the command prints for a script of the folder."""
    args = ["from-slurm", str(SCRIPTS / f"{name}.sbatch"), *SAID.get(name, USUAL)]
    done = CliRunner().invoke(group, args)
    assert done.exit_code == Exit.OK, done.output
    return done.output


def test_there_are_ten_scripts() -> None:
    assert len(NAMES) >= 10


@pytest.mark.parametrize("name", NAMES)
def test_a_script_is_converted_to_the_expected_dijob(name: str) -> None:
    found = converted(name)
    assert found == (SCRIPTS / f"{name}.yaml").read_text()
    job_of(parse_file(name, found))


@pytest.mark.parametrize("name", NAMES)
def test_a_line_without_a_counterpart_is_quoted(name: str) -> None:
    """Each #SBATCH line is a field, or a comment that quotes it."""
    script = parse_script((SCRIPTS / f"{name}.sbatch").read_text())
    comments = [line for line in converted(name).splitlines() if line.startswith("# line ")]
    for option in script.options:
        if option.name in ("partition", "account", "mail-type", "qos", "output", "hint", "made-up"):
            assert f"# line {option.number}: {option.text}" in comments


def test_from_slurm_requires_an_image() -> None:
    done = CliRunner().invoke(group, ["from-slurm", "-"], input="srun hostname")
    assert done.exit_code == Exit.USAGE
    assert "add --image" in done.output


def test_too_many_pods_are_rejected_with_the_field() -> None:
    done = CliRunner().invoke(
        group, ["from-slurm", "-", "--image", "img"], input="#SBATCH -n 2000\nsrun hostname"
    )
    assert done.exit_code == Exit.USAGE
    assert "spec.replicas: is 2000; it must be at most 1500" in done.output


def test_from_slurm_writes_a_file(tmp_path: Path) -> None:
    out = tmp_path / "job.yaml"
    args = ["from-slurm", str(SCRIPTS / "peers.sbatch"), "--image", "img", "--to", str(out)]
    done = CliRunner().invoke(group, args)
    assert (done.exit_code, done.stdout) == (Exit.OK, "")
    assert yaml.safe_load(out.read_text())["metadata"]["name"] == "peers"
