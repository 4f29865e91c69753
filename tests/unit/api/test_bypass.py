"""C8: programs that run without the launcher do not know their peers, and the job reports it."""

from typing import Any

import pytest
from dijob.api.parse import parse_job
from dijob.api.warnings import job_warnings
from dijob.cli.explain import text
from dijob.cli.explain.report import explain_job
from dijob.core.observed.containers import ALONE
from dijob.core.observed.endings import ContainerEnding
from dijob.core.options import Options
from samples.builders import (
    NOW,
    all_run,
    container,
    job,
    job_body,
    listed,
    observed,
    plan,
    running,
    says,
)

Body = dict[str, Any]

DITASK = ["ditask", "--package", ".", "--main", "os.getcwd"]
JOINS = [*DITASK, "--platform", "k8s", "--topology", "mesh"]
NOT_ASKED: Body = {"asked": False, "why": "", "findings": []}
FIELD = "spec.template.spec.containers[0].command"
TORCHRPC = {"messageQueue": {"type": "torchrpc"}, "parallelWorkers": 2, "topology": "star"}


def without_command(*args: str, **spec: Any) -> Body:
    main = container(command=None, args=list(args) or None)
    return job_body({"containers": [main]}, **spec)


@pytest.mark.parametrize(
    "made",
    [
        pytest.param(without_command(*DITASK), id="arguments that begin with ditask"),
        pytest.param(without_command("-c", "sleep 5"), id="arguments of an unknown program"),
        pytest.param(without_command(), id="neither command nor arguments"),
        pytest.param(job_body({"containers": [container(command=[])]}), id="an empty command"),
        pytest.param(without_command(*DITASK, runtime="torch"), id="a ditask in torch"),
        pytest.param(without_command("x", **TORCHRPC), id="another queue"),
        pytest.param(without_command("x", runtime="torch", **TORCHRPC), id="a queue in torch"),
        pytest.param(without_command("x", replicas=1, maxReplicas=2), id="a job that may grow"),
        pytest.param(
            without_command("x", replicas=1, parallelWorkers=2), id="two processes in one pod"
        ),
    ],
)
def test_a_template_without_a_command_is_reported_as_bypassed(made: Body) -> None:
    (found,) = job_warnings(parse_job(made))
    assert found.field == FIELD
    assert "each pod may train alone: set `command` to the program" in found.message


@pytest.mark.parametrize(
    "made",
    [
        pytest.param(without_command(*JOINS), id="a ditask that joins by itself"),
        pytest.param(without_command("x", launcher="Off"), id="the user knows"),
        pytest.param(without_command("train.py", runtime="torch"), id="torch"),
        pytest.param(without_command("train.py", runtime="slurm"), id="slurm"),
        pytest.param(without_command("train.py", runtime="oneflow"), id="oneflow"),
        pytest.param(without_command(*DITASK, replicas=1), id="one process"),
        pytest.param(without_command(*DITASK, topology="alone"), id="no connections are wanted"),
        pytest.param(job_body({"containers": [container(command="ditask")]}), id="not a list"),
    ],
)
def test_there_is_no_warning_if_the_program_needs_no_launcher(made: Body) -> None:
    assert job_warnings(parse_job(made)) == ()


@pytest.mark.parametrize(
    ("options", "spec", "option"),
    [
        (["--address", "127.0.0.1"], {}, "--address 127.0.0.1"),
        (["--address=10.0.0.1", "--topology", "star"], TORCHRPC, "--address 10.0.0.1"),
        (["--protocol", "ipc"], {}, "--protocol ipc"),
        (["--address", "127.0.0.1", "--topology", "alone"], {}, ""),
        (["--address", "127.0.0.1", "--attach-to", "tcp://a:1"], {}, ""),
        (["--address", "127.0.0.1"], {"replicas": 1}, ""),
        (["--address", "127.0.0.1", "--mq-type", "redis"], {}, ""),
        (["--platform", "k8s", "--address", "127.0.0.1"], {}, ""),
        (["--address", ""], {}, ""),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else None,
)
def test_c5_a_ditask_with_its_own_address_is_reported_as_bypassed(
    options: list[str], spec: Body, option: str
) -> None:
    """C5: such a ditask does not join the job, and the user might not know that."""
    main = container(command=["ditask"], args=[*options, "--main", "a.main"])
    found = [one for one in job_warnings(job({"containers": [main]}, **spec)) if one.field == FIELD]
    assert [one.message.partition(",")[0] for one in found] == (
        [f"passes {option} to ditask"] if option else []
    )


def test_args_that_run_ditask_are_checked_if_the_launcher_is_off() -> None:
    (found,) = job_warnings(parse_job(without_command(*DITASK, launcher="Off")))
    assert (found.field, "--platform k8s" in found.message) == ("spec.launcher", True)


def test_the_task_without_a_command_is_named() -> None:
    tasks = [
        {"type": kind, "replicas": 2, "template": {"spec": {"containers": [main]}}}
        for kind, main in (("learner", container()), ("collector", container(command=None)))
    ]
    made = parse_job(job_body(tasks=tasks, template=None, replicas=None))
    (found,) = job_warnings(made)
    assert found.field == "spec.tasks[1].template.spec.containers[0].command"
    seen = explain_job(made, Options())
    assert seen["connections"]["ranksWithoutPeers"] == [2, 3]
    assert (seen["connections"]["total"], seen["pods"][1]["dials"]) == (1, [0])


def test_the_path_of_the_main_container_has_its_index() -> None:
    made = job({"containers": [{"name": "side", "image": "x"}, container(command=None)]})
    (found,) = job_warnings(made)
    assert found.field == "spec.template.spec.containers[1].command"


@pytest.mark.parametrize(
    ("command", "launcher"), [(None, "Auto"), (DITASK, "Off")], ids=["no command", "launcher Off"]
)
def test_peers_ready_stays_false_for_ranks_that_do_not_know_their_peers(
    command: list[str] | None, launcher: str
) -> None:
    owner = job({"containers": [container(command=command)]}, launcher=launcher)
    begun = plan(owner, observed(*all_run(owner)), NOW)
    assert says(begun)["LauncherBypassed"] == ("True", "LauncherBypassed")
    assert says(begun)["Running"] == ("True", "Begun")
    assert says(begun)["PeersReady"] == ("False", "LauncherBypassed")
    assert begun.status.message.startswith("each pod may train alone, see LauncherBypassed")


def test_peers_ready_stays_false_if_a_rank_reports_that_it_worked_alone() -> None:
    end = ContainerEnding(0, 0, "Completed", f"{ALONE}its Python does not read PYTHONPATH")
    done = listed(0, phase="Succeeded", succeeded=True, last_end=end)
    decided = plan(running(), observed(done, listed(1), listed(2)), NOW)
    assert says(decided)["PeersReady"] == ("False", "LauncherBypassed")


def test_explain_counts_no_connections_without_a_launcher() -> None:
    made = parse_job(without_command(*DITASK))
    lines = "\n".join(
        text.explanation_lines({**explain_job(made, Options()), "cluster": NOT_ASKED})
    )
    assert "Connections  0 between DI-engine's processes" in lines
    shown = " ".join(lines.split())
    assert "programs of ranks 0-2 do not know their peers (see the warning)" in shown
    assert "each pod may train alone" in shown
