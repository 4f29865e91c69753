"""The rules by which each line of a batch script is converted: options, resources, commands."""

import time
from contextlib import suppress
from typing import Any

import pytest
from click.testing import CliRunner
from dijob.cli.errors import CliError, Exit
from dijob.cli.files import parse_file
from dijob.cli.main import group
from dijob.core.members import gang_of
from dijob.core.render.runtimes import RUNTIMES, slurm
from dijob.names import Runtime
from dijob_extras.slurm import amounts
from dijob_extras.slurm.command import SLURM_VARIABLES, job_name
from dijob_extras.slurm.convert import Wishes, convert_script
from dijob_extras.slurm.script import Option, parse_script
from dijob_extras.slurm.write import render_file
from hypothesis import given
from hypothesis import strategies as st
from samples.builders import job


def body_of(text: str, **wishes: Any) -> dict[str, Any]:
    return convert_script(
        parse_script(text), Wishes(**{"image": "img", "name": "job", **wishes})
    ).job


def notes_of(text: str, **wishes: Any) -> list[tuple[int, str]]:
    found = convert_script(
        parse_script(text), Wishes(**{"image": "img", "name": "job", **wishes})
    ).notes
    return [(note.number, note.advice) for note in found]


OPTIONS = [
    pytest.param("#SBATCH --nodes=3", {"replicas": 3}, id="a node is a pod"),
    pytest.param("#SBATCH -N 2 -n 6", {"replicas": 6}, id="a task is a pod"),
    pytest.param("#SBATCH -N2\n#SBATCH --ntasks-per-node 4", {"replicas": 8}, id="tasks per node"),
    pytest.param("#SBATCH -n4\n#SBATCH -n5", {"replicas": 5}, id="the last one wins"),
    pytest.param("##SBATCH -n 4", {"replicas": 1}, id="two hashes are a comment"),
    pytest.param("#SBATCH -n 4 # four", {"replicas": 4}, id="a comment behind it"),
    pytest.param("#SBATCH -t 2-0", {"activeDeadlineSeconds": 172800}, id="days"),
    pytest.param("#SBATCH --no-requeue", {"backoffLimit": 0}, id="no requeue"),
    pytest.param("#SBATCH --requeue", {"backoffLimit": 3}, id="requeue"),
]


@pytest.mark.parametrize(("lines", "expected"), OPTIONS)
def test_options_become_fields(lines: str, expected: dict[str, Any]) -> None:
    spec = body_of(f"#!/bin/sh\n{lines}\nsrun hostname\n")["spec"]
    assert {name: spec.get(name) for name in expected} == expected


RESOURCES = [
    pytest.param("-c 4", {"requests": {"cpu": "4"}}, id="CPUs of a task"),
    pytest.param(
        "-N 1 -n 4 --mem=2G",
        {"requests": {"memory": "512Mi"}, "limits": {"memory": "512Mi"}},
        id="a node's memory is shared by its tasks",
    ),
    pytest.param(
        "-c 2 --mem-per-cpu=1500M",
        {"requests": {"cpu": "2", "memory": "3000Mi"}, "limits": {"memory": "3000Mi"}},
        id="memory of a CPU",
    ),
    pytest.param("--gres=gpu:2", {"limits": {"nvidia.com/gpu": "2"}}, id="gres"),
    pytest.param("-n 4 -N 2 --gpus=8", {"limits": {"nvidia.com/gpu": "2"}}, id="GPUs of the job"),
    pytest.param("-n 4 -N 2 --gpus-per-node=4", {"limits": {"nvidia.com/gpu": "2"}}, id="of nodes"),
    pytest.param("-n 4 --gpus-per-task=a100:1", {"limits": {"nvidia.com/gpu": "1"}}, id="of tasks"),
    pytest.param("-n 4 -N 2 --gpus-per-node=3", {"limits": {"nvidia.com/gpu": "2"}}, id="uneven"),
    pytest.param("--gres=shard:2", None, id="no GPUs"),
    pytest.param("--mem=0", None, id="all memory"),
]


@pytest.mark.parametrize(("options", "expected"), RESOURCES)
def test_resources(options: str, expected: dict[str, Any] | None) -> None:
    container = body_of(f"#SBATCH {options}\nsrun hostname\n")["spec"]["template"]["spec"][
        "containers"
    ][0]
    assert container.get("resources") == expected


COMMANDS = [
    pytest.param(
        "srun ditask -p a -m a.b", "ditask", ["ditask", "-p", "a", "-m", "a.b"], id="ditask"
    ),
    pytest.param(
        "srun ditask --platform=slurm", "slurm", ["ditask", "--platform=slurm"], id="as on Slurm"
    ),
    pytest.param("srun python a.py", "slurm", ["python", "a.py"], id="a program"),
    pytest.param("srun -n 2 -- python a.py", "slurm", ["python", "a.py"], id="options end"),
    pytest.param("srun python 'a b.py' &", "slurm", ["python", "a b.py"], id="quotes, background"),
    pytest.param("srun torchrun --nnodes=2 a.py", "torch", ["torchrun", "a.py"], id="torchrun"),
    pytest.param(
        "srun python -m torch.distributed.run --master_port 1 a.py",
        "torch",
        ["python", "-m", "torch.distributed.run", "a.py"],
        id="torchrun as a module",
    ),
    pytest.param("python a.py", "ditask", ["python", "a.py"], id="without srun"),
    pytest.param("X=a.py\nsrun python $X", "slurm", ["python", "a.py"], id="a variable"),
    pytest.param(
        "srun python a.py --me $SLURM_PROCID",
        "slurm",
        ["/bin/bash", "-c", "python a.py --me $SLURM_PROCID"],
        id="a variable of the pod",
    ),
    pytest.param(
        "export OUT=/o/$SLURM_PROCID\nsrun python a.py",
        "slurm",
        ["/bin/bash", "-c", 'export OUT="/o/$SLURM_PROCID"\npython a.py'],
        id="a variable that only the pod knows",
    ),
    pytest.param("srun a $$", "slurm", ["/bin/bash", "-c", "a $$$$"], id="two dollars"),
    pytest.param(
        "a\nif true; then\n  b # c\nfi",
        "ditask",
        ["/bin/bash", "-c", "a\nif true; then\n  b # c\nfi"],
        id="several commands without srun",
    ),
    pytest.param("set +u; module load x; srun a b; wait", "slurm", ["a", "b"], id="semicolons"),
    pytest.param(
        "A=$(scontrol show hostnames)\nexport A\nsrun a", "slurm", ["a"], id="exported later"
    ),
    pytest.param("srun \\\n  python \\\n  a.py", "slurm", ["python", "a.py"], id="lines go on"),
]


@pytest.mark.parametrize(("lines", "runtime", "words"), COMMANDS)
def test_commands(lines: str, runtime: str, words: list[str]) -> None:
    spec = body_of(f"#!/bin/sh\n{lines}\n")["spec"]
    main = spec["template"]["spec"]["containers"][0]
    assert spec.get("runtime", "ditask") == runtime
    assert [*main["command"], *main.get("args", [])] == words


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        pytest.param("module load x", "image must contain the software", id="module"),
        pytest.param("rsync a b", "runs this once, on the first node", id="another command"),
        pytest.param("export A", "variables of its template", id="a variable without a value"),
        pytest.param("A=$(date)", "a command computes the value", id="a computed value"),
        pytest.param("cd x", "set workingDir", id="a folder"),
        pytest.param("cd $HOME", "set workingDir", id="a folder that is not known"),
    ],
)
def test_lines_without_a_counterpart_are_noted(lines: str, said: str) -> None:
    (found,) = notes_of(f"{lines}\nsrun hostname\n")
    assert found[0] == 1
    assert said in found[1]


REFUSED = [
    pytest.param("#SBATCH --array=1-3\nsrun a", "choose an index with --array-index", id="array"),
    pytest.param("srun a\nsrun b", "calls srun 2 times (lines 1, 2)", id="two steps"),
    pytest.param("for i in 1 2; do\nsrun a\ndone", "line 2 calls srun inside a loop", id="a loop"),
    pytest.param("#SBATCH hetjob\nsrun a", "spec.tasks", id="heterogeneous"),
    pytest.param("#SBATCH -t soon\nsrun a", "--time is 'soon'", id="no time"),
    pytest.param("#SBATCH -n many\nsrun a", "--ntasks is 'many'", id="no number"),
    pytest.param("#SBATCH --mem=lots\nsrun a", "--mem is 'lots'", id="no memory"),
    pytest.param("#SBATCH nodes=1\nsrun a", "is not an option of sbatch", id="no option"),
    pytest.param("echo 'a\nb", "has an open quote", id="an open quote"),
    pytest.param("srun -n 2", "srun has no command", id="no command"),
    pytest.param("#SBATCH -n 2\nmodule load x", "the script runs nothing", id="nothing"),
]


@pytest.mark.parametrize(("lines", "said"), REFUSED)
def test_a_script_that_cannot_be_converted_is_reported_in_one_sentence(
    lines: str, said: str
) -> None:
    done = CliRunner().invoke(group, ["from-slurm", "-", "--image", "img"], input=lines)
    assert done.exit_code == Exit.USAGE
    assert said in done.output
    assert done.output.count("\n") == 1


@pytest.mark.parametrize("word", ["1e-3", "5", "-1", "+2", ".5", "y", "no", "1:30", "0x1f", "null"])
def test_a_word_that_looks_like_something_else_is_quoted(word: str) -> None:
    """kubectl interprets more words as numbers than PyYAML does."""
    done = CliRunner().invoke(
        group, ["from-slurm", "-", "--image", "img"], input=f"srun a {word} b"
    )
    assert f"- '{word}'\n" in done.output


CONTAINERS = [
    pytest.param("--nv -B /d:/d docker://reg/img:2", "reg/img:2", id="of a registry"),
    pytest.param("--nv --bind=/d /images/a.sif", "img", id="a file"),
]


@pytest.mark.parametrize(("options", "image"), CONTAINERS)
def test_the_command_of_a_container_becomes_the_pods_command(options: str, image: str) -> None:
    text = f"srun -n 2 apptainer exec {options} torchrun --nnodes=2 a.py"
    made = convert_script(
        parse_script(text), Wishes(image="" if image != "img" else "img", name="job")
    )
    spec = made.job["spec"]
    main = spec["template"]["spec"]["containers"][0]
    assert (spec["runtime"], main["command"], main["image"]) == (
        "torch",
        ["torchrun", "a.py"],
        image,
    )
    assert any("the pod's image replaces" in note.advice for note in made.notes)


def test_the_scripts_own_arguments_are_noted() -> None:
    (found,) = notes_of("srun python a.py $1")
    assert "write the values instead" in found[1]


TIMES = [("90", 5400), ("10:30", 630), ("1:00:00", 3600), ("1-2", 93600), ("1-2:3:4", 93784)]


@pytest.mark.parametrize(("words", "seconds"), TIMES, ids=[words for words, _ in TIMES])
def test_times(words: str, seconds: int) -> None:
    assert amounts.parse_seconds(Option("time", words, 1, "")) == seconds


@pytest.mark.parametrize("words", ["0", "UNLIMITED", "infinite"])
def test_no_limit(words: str) -> None:
    assert amounts.parse_seconds(Option("time", words, 1, "")) is None


@pytest.mark.parametrize(
    ("given", "name"),
    [("My Job", "my-job"), ("9-star", "star"), ("a" * 80, "a" * 58), ("___", "job")],
)
def test_names(given: str, name: str) -> None:
    assert job_name(given) == name


def test_slurm_variables_match_the_runtime() -> None:
    gang = gang_of(job(runtime="slurm"))
    known = (
        slurm.slurm_variables(gang.member(0), gang).keys() | RUNTIMES[Runtime.SLURM].list_env.keys()
    )
    assert known == SLURM_VARIABLES


def test_a_broken_script_is_reported() -> None:
    with pytest.raises(CliError, match=r"No closing quotation|has an open quote"):
        parse_script("#SBATCH --comment='x\nsrun a")


PIECES = [
    *("#SBATCH ", "--ntasks=2 ", "-N 2 ", "--mem ", "-t ", "1:00 ", "--gres=gpu:1 ", "srun ", "\n"),
    *("apptainer exec ", "-B ", "docker://x "),
    *("torchrun ", "ditask ", "--platform slurm ", "export ", "A=1 ", "B=$A ", "$(", ")", "`"),
    *('"', "'", "\\", "${X[0]} ", "| tee f ", "> f ", "&", ">>>", "for ", "done ", "cd /x ", "# "),
    *("MASTER_ADDR=$(scontrol show hostnames)\n", "X=(a b)\n", "--", "= ", "\0", "é ", "0", ";"),
]


@given(st.lists(st.sampled_from(PIECES), max_size=40).map("".join))
def test_any_text_is_converted_or_rejected(text: str) -> None:
    try:
        found = convert_script(parse_script(text), Wishes(image="img", name="job"))
    except CliError:
        return
    made = render_file("any", found)
    assert parse_file("any", made).job == found.job


@pytest.mark.timed
def test_long_lines_are_read_quickly() -> None:
    begin = time.process_time()
    for text in (">" * 5000, "$(" * 2000, "| tee " * 2000, "&" * 5000, "a=" * 3000):
        with suppress(CliError):
            convert_script(parse_script(f"srun a {text} b\n"), Wishes(image="img", name="job"))
    assert time.process_time() - begin < 10
