"""Each runtime with its real program on real pods, and the commands of DI-engine's pages."""

import re

import pytest
import yaml
from jobs import EXAMPLES, REAL, REAL_SECONDS, config_map, job, mounted, shell, succeeded
from space import Space

pytestmark = pytest.mark.e2e

# --- slurm
# ------------------------------------------------------------------------------------------------


@pytest.mark.long
def test_ditask_for_slurm_runs_unchanged(space: Space) -> None:
    succeeded(space, "slurm.yaml", "cluster")
    for rank in range(3):
        said = re.findall(
            # Two processes print at the same time, so two lines may be joined.
            r"node (\d) of 6 received from nodes \[([^]]*)\]; task (\d) of 3 on (cluster-\d)",
            space.logs(f"cluster-{rank}"),
        )
        assert len(said) == 2, space.logs(f"cluster-{rank}")
        for node, heard, task, host in said:
            assert heard == ", ".join(str(other) for other in range(6) if other != int(node))
            assert (int(node) // 2, task, host) == (rank, str(rank), f"cluster-{rank}")


SPEC = '{"tasks": [{"node_ids": 0, "ports": 16001}, {"node_ids": 1, "attach_to": "$node.0"}]}'


def test_a_platform_spec_names_its_peers_by_their_nodes(space: Space) -> None:
    """DI-engine's own parser (ding 0.5.3, slurm_parser.py) resolves `$node.0` to the name and port
    of the task.
    """
    _, hello = yaml.safe_load_all((EXAMPLES / "slurm.yaml").read_text())
    text = hello["data"]["hello.py"].replace("* 2  # --parallel-workers 2", "")
    mount, volume = mounted("spec-code", "/code/hello")
    flags = ["--platform", "slurm", "--platform-spec", SPEC]
    command = ["ditask", "--package", "hello", "--main", "hello.main", *flags]
    main = {**REAL, "command": command, "workingDir": "/code", **mount}
    space.apply(
        config_map("spec-code", hello_py=text), job("spec", main, pod=volume, runtime="slurm")
    )
    space.until_true("spec", "Succeeded", REAL_SECONDS)
    assert "node 0 of 2 received from nodes [1]; task 0 of 2 on spec-0" in space.logs("spec-0")
    assert "node 1 of 2 received from nodes [0]; task 1 of 2 on spec-1" in space.logs("spec-1")


def until_logged(space: Space, pod: str) -> None:
    """Wait until the program has printed something: a container runs before its program does."""
    space.until(f"{pod} says something", lambda: "" if space.printed(pod) else "not yet", 60)


SRUN = """
set -e
first=${SLURM_NODELIST%%[*}0
getent hosts "$first" >/dev/null
number=$((SLURM_JOB_ID))
where="$SLURM_NODELIST $SLURMD_NODENAME $first"
echo "$SLURM_PROCID $SLURM_LOCALID $SLURM_NTASKS $SLURM_NNODES $where $number"
"""


def test_a_script_for_srun_runs(space: Space) -> None:
    """The script also works after scaling up, and with names without dots."""
    space.apply(
        shell(
            "srun",
            SRUN + "exec sleep 3600",
            runtime="slurm",
            maxReplicas=3,
            minReplicas=2,
            replicas=2,
        )
    )
    space.until_true("srun", "PeersReady")
    for rank in range(2):
        until_logged(space, f"srun-{rank}")
        said = space.printed(f"srun-{rank}").split()[:7]
        assert said == [str(rank), "0", "2", "2", "srun-[0-1]", f"srun-{rank}", "srun-0"]
    space.kubectl("scale", "dijob/srun", "--replicas=3")
    until_logged(space, "srun-2")
    assert space.printed("srun-2").split()[:7] == [
        "2",
        "0",
        "3",
        "3",
        "srun-[0-2]",
        "srun-2",
        "srun-0",
    ]


# --- a script of one's own, and OneFlow
# ------------------------------------------------------------------------------


@pytest.mark.long
def test_a_script_runs_unchanged_in_a_job_and_on_one_machine(space: Space) -> None:
    succeeded(space, "runner.yaml", "script")
    assert heard_by(space, space.names("script")) == ALL_SIX
    template = space.job("script")["spec"]["template"]["spec"]
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "machine"},
        "spec": {**template, "restartPolicy": "Never"},
    }
    space.apply(pod)
    said = "node 0: Get msg: Hi, from nodes [1]\n"
    space.until(
        "the pod's processes meet",
        lambda: "" if said in space.logs("machine") else "not yet",
        REAL_SECONDS,
    )


# Two processes may print in one line.
HEARD = re.compile(r"node (\d): Get msg: Hi, from nodes (\[[^]]*\])")
ALL_SIX = {str(node): str([other for other in range(6) if other != node]) for node in range(6)}


def heard_by(space: Space, pods: list[str]) -> dict[str, str]:
    """Return from which nodes each process of runner.yaml's script has received events."""
    return dict(pair for pod in pods for pair in HEARD.findall(space.logs(pod)))


# How each of three tasks starts the same script.
VENV = "python3 -m venv --system-site-packages --without-pip /tmp/own && . /tmp/own/bin/activate"
WAYS: dict[str, tuple[list[str], dict[str, str]]] = {
    "venv": (["/bin/bash", "-c", f"{VENV} && python main.py"], {}),
    "module": (["python3", "-m", "main"], {}),
    "own": (["python3", "main.py"], {"PYTHONPATH": "/code/"}),
}


@pytest.mark.long
@pytest.mark.parametrize("queue", ["nng", "redis"])
def test_a_plain_script_joins_one_world_however_it_is_started(space: Space, queue: str) -> None:
    """In a venv with bash -c, with python -m, and with a sitecustomize of the user."""
    _, code = yaml.safe_load_all((EXAMPLES / "runner.yaml").read_text())
    files = {"main_py": code["data"]["main.py"], "sitecustomize_py": "print('their own ran')\n"}
    mount, volume = mounted("ways-code", "/code")
    made = job("ways", {}, messageQueue={"type": queue}, backoffLimit=0)
    tasks = []
    for way, (command, env) in WAYS.items():
        more = [{"name": name, "value": value} for name, value in env.items()]
        main = {**REAL, "command": command, "workingDir": "/code", **mount}
        main["env"] = [*REAL["env"], *more]
        template = job("", main, pod=volume)["spec"]["template"]
        tasks.append({"type": "none", "name": way, "replicas": 1, "template": template})
    del made["spec"]["template"], made["spec"]["replicas"]
    made["spec"]["tasks"] = tasks
    space.apply(config_map("ways-code", **files), made)
    space.until_true("ways", "Succeeded", REAL_SECONDS)
    assert heard_by(space, space.names("ways")) == ALL_SIX
    assert "their own ran" in space.logs("ways-own-0")
    assert "Traceback" not in "".join(space.logs(pod) for pod in space.names("ways"))


ALONE = """
import time
from ding.framework import Parallel

def main():
    time.sleep(7)

if __name__ == "__main__":
    Parallel.runner(n_parallel_workers=1)(main)
"""


def test_a_python_without_the_hook_is_named_in_the_message(
    space: Space,
) -> None:
    mount, volume = mounted("alone-code", "/code")
    # The launcher looks 30 times for such a program. On a busy machine, the import of DI-engine
    # alone can take more than 30 s, so the launcher looks every 3 s instead of every second.
    env = [*REAL["env"], {"name": "DIJOB_NAP", "value": "3"}]
    main = {**REAL, "env": env, "command": ["python3", "-I", "/code/main.py"], **mount}
    space.apply(config_map("alone-code", main_py=ALONE), job("alone", main, pod=volume, replicas=1))
    space.until_true("alone", "Succeeded", REAL_SECONDS)
    said = space.condition("alone", "LauncherBypassed")
    assert said["status"] == "True"
    assert "rank 0 ran without peers" in said["message"]
    assert "python -I" in said["message"]
    assert space.status("alone")["message"].startswith("each pod may train alone")


def test_the_machines_of_oneflow_meet_on_its_control_port(space: Space) -> None:
    succeeded(space, "oneflow.yaml", "flow")
    assert "master: machines [0, 1, 2] are connected" in space.logs("flow-0")
    assert "machine 2 is connected to the master" in space.logs("flow-2")
