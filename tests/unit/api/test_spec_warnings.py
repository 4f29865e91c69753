"""Warnings about specs that are accepted although they may be a mistake."""

import pytest
from dijob.api.parse import parse_job
from dijob.api.warnings import job_warnings
from samples.specs import Body, body, with_command

WARNED: dict[str, tuple[Body, str, str]] = {
    "launcher off": (with_command("ditask", launcher="Off"), "spec.launcher", "launcher: Auto"),
    "another manager": (
        body(managedBy="kueue.x-k8s.io/multikueue"),
        "spec.managedBy",
        "is kueue.x-k8s.io/multikueue: this operator does not create",
    ),
    "Kueue without the label of a queue": (
        body(scheduling={"engine": "Kueue"}),
        "spec.scheduling.engine",
        "is Kueue, but the job names no queue: set the DIJob's label kueue.x-k8s.io/queue-name",
    ),
    "hidden workers": (
        with_command("ditask --parallel-workers $N"),
        "spec.parallelWorkers",
        "1 is assumed",
    ),
    "slurm's command": (
        with_command("ditask --platform slurm"),
        "spec.runtime",
        "set runtime: slurm",
    ),
    "no GPU for a queue between GPUs": (
        body(messageQueue={"type": "torchrpc:cuda"}),
        "spec.messageQueue.type",
        "requests no GPU, so the ranks may not find one: add a limit of nvidia.com/gpu",
    ),
    "no GPU for the command's queue": (
        with_command("ditask --mq-type torchrpc:cuda"),
        "spec.messageQueue.type",
        "is torchrpc:cuda, but the template requests no GPU",
    ),
    "hidden topology": (with_command("ditask --topology $T"), "spec.topology", "mesh is assumed"),
}


@pytest.mark.parametrize(("made", "field", "words"), WARNED.values(), ids=WARNED.keys())
def test_a_spec_with_a_warning_is_accepted(made: Body, field: str, words: str) -> None:
    (warning,) = job_warnings(parse_job(made))
    assert warning.field == field
    assert words in warning.message


@pytest.mark.parametrize(
    "made",
    [
        pytest.param(
            with_command("conda activate x; ditask --platform k8s --topology mesh"), id="by hand"
        ),
        pytest.param(with_command("ditask --platform k8s", launcher="Off"), id="off, by hand"),
        pytest.param(with_command("ditask --platform slurm", runtime="slurm"), id="slurm in slurm"),
        pytest.param(with_command("conda activate x; ditask"), id="past the launcher's ditask"),
        pytest.param(with_command("conda activate x; python train.py"), id="no ditask in sight"),
        pytest.param(with_command("ditask --topology $T", topology="star"), id="the field says it"),
        pytest.param(with_command("sleep 1", launcher="Off"), id="another program"),
    ],
)
def test_a_correct_spec_has_no_warning(made: Body) -> None:
    assert job_warnings(parse_job(made)) == ()
