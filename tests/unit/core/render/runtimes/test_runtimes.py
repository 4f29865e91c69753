"""The variables of each runtime: its programs get those that they read, and none of another
runtime.
"""

import json
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest
from dijob import names
from dijob.api.model import DIJob
from dijob.api.parse import parse_job
from dijob.core.actions import PublishAddresses
from dijob.core.addresses import AddressList
from dijob.core.members import gang_of
from dijob.core.observed.derived import list_fingerprints
from dijob.core.render.annotations import addresses_patch, made_of
from dijob.core.render.runtimes import RUNTIMES, runtime_environment
from dijob.names import Runtime
from samples.builders import (
    Body,
    container,
    given,
    job,
    job_body,
    manifest,
    read,
    tasks_body,
)
from simulator.environment import environment_of

ROOT = Path(__file__).parents[5]
LIST = "10.0.0.7,10.0.0.8,10.0.0.9"


def told(owner: DIJob, rank: int, listed: str = LIST) -> dict[str, str]:
    """Return the variables of a rank's program with this list."""
    body, gang = manifest(owner, rank), gang_of(owner)
    listed = ",".join(gang.address(at, ip) for at, ip in enumerate(listed.split(",")))
    action = PublishAddresses(
        gang.member(rank).name, "uid", given(1, listed), read(body).made.reads
    )
    body["metadata"]["annotations"] = addresses_patch(gang, action)["metadata"]["annotations"]
    return environment_of(body)


@pytest.mark.parametrize("runtime", Runtime)
def test_every_runtime_has_a_row(runtime: Runtime) -> None:
    row = RUNTIMES[runtime]
    known = {names.ANNOTATION_NUM_NODES, names.ANNOTATION_WORLD_SIZE, *row.annotation_builders}
    assert set(row.list_env.values()) <= known
    assert set(row.annotation_builders) <= set(row.list_env.values())
    assert set(row.annotation_builders) == set(runtime.traits.annotations)


@pytest.mark.parametrize("runtime", Runtime)
def test_annotations_of_each_runtime_are_read_back_from_the_pods(runtime: Runtime) -> None:
    gang = gang_of(job(replicas=3, runtime=runtime.value))
    made = made_of(gang, AddressList(1, LIST))
    assert RUNTIMES[runtime].annotation_builders.keys() <= made.keys()
    assert {key for key, _ in list_fingerprints(made)} == made.keys()


def test_no_runtime_leaks_into_another() -> None:
    """DI-engine's dist_init takes SLURM_LOCALID before RANK
    (ding/utils/pytorch_ddp_dist_helper.py).
    """
    owner = job(replicas=3)
    usual = set(told(owner, 0))
    own = {
        runtime: set(told(job(replicas=3, runtime=runtime.value), 0)) - usual for runtime in Runtime
    }
    assert own[Runtime.DITASK] == set()
    prefixes = {Runtime.TORCH: "PET_", Runtime.SLURM: "SLURM", Runtime.ONEFLOW: "DI_ONEFLOW_"}
    assert prefixes.keys() == set(Runtime) - {Runtime.DITASK}, "each runtime needs a prefix"
    for one, other in combinations(prefixes, 2):
        assert not any(name.startswith(prefixes[one]) for name in own[other])
        assert not any(name.startswith(prefixes[other]) for name in own[one])
    assert not {"RANK", "WORLD_SIZE", "MASTER_ADDR"} & own[Runtime.SLURM]


def test_torch() -> None:
    """torch/distributed/run.py of 1.13: each option's default is PET_<OPTION>."""
    found = told(job(replicas=3, parallelWorkers=2, runtime="torch"), 1)
    wanted = {
        "MASTER_ADDR": "10.0.0.7",
        "MASTER_PORT": "29500",
        "WORLD_SIZE": "6",
        "RANK": "2",
        "LOCAL_RANK": "0",
        "PET_MASTER_ADDR": "10.0.0.7",
        "PET_MASTER_PORT": "29500",
        "PET_NNODES": "3",
        "PET_NODE_RANK": "1",
        "PET_NPROC_PER_NODE": "2",
        "DI_NODES": LIST,
        "DI_RANK": "1",
    }
    assert wanted.items() <= found.items()


FOUR = "10.0.0.1,10.0.0.2,10.0.0.3,10.0.0.4"
OF_TORCH = {"RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"}


def with_torch_tasks(*kinds: str, **spec: Any) -> DIJob:
    """Return a job of two learners and two collectors, in which these tasks have runtime torch."""
    body = tasks_body(2, 1, 2, **spec)
    body["spec"]["tasks"].pop(1)
    for task in body["spec"]["tasks"]:
        task |= {"runtime": "torch"} if task["type"] in kinds else {}
    return parse_job(body)


@pytest.mark.parametrize("launcher", ["Auto", "Off"])
@pytest.mark.parametrize(
    ("kinds", "rank", "place"),
    [
        (("learner",), 0, (0, "10.0.0.1")),
        (("learner",), 1, (1, "10.0.0.1")),
        (("collector",), 2, (0, "10.0.0.3")),
        (("collector",), 3, (1, "10.0.0.3")),
        (("learner", "collector"), 3, (1, "10.0.0.3")),
    ],
    ids=str,
)
def test_a_task_of_torch_is_a_world_of_its_own(
    launcher: str, kinds: tuple[str, ...], rank: int, place: tuple[int, str]
) -> None:
    owner = with_torch_tasks(*kinds, parallelWorkers=2, launcher=launcher)
    index, master = place
    found = told(owner, rank, FOUR)
    wanted = {
        "MASTER_ADDR": master,
        "MASTER_PORT": "29500",
        "WORLD_SIZE": "4",
        "RANK": str(2 * index),
        "LOCAL_RANK": "0",
        "LOCAL_WORLD_SIZE": "2",
        "PET_MASTER_ADDR": master,
        "PET_MASTER_PORT": "29500",
        "PET_NNODES": "2",
        "PET_NODE_RANK": str(index),
        "PET_NPROC_PER_NODE": "2",
        "DI_NODES": FOUR,
        "DI_NUM_NODES": "4",
        "DI_WORLD_SIZE": "8",
        "DI_RANK": str(rank),
    }
    assert wanted.items() <= found.items()


@pytest.mark.parametrize("launcher", ["Auto", "Off"])
def test_the_other_tasks_have_no_variables_of_torch(launcher: str) -> None:
    found = told(with_torch_tasks("learner", launcher=launcher), 2, FOUR)
    assert not OF_TORCH & found.keys()
    assert not any(name.startswith("PET_") for name in found)


def test_the_world_of_the_last_task_grows_with_it() -> None:
    found = told(with_torch_tasks("collector"), 3, f"{FOUR},10.0.0.5")
    assert (found["WORLD_SIZE"], found["PET_NNODES"]) == ("3", "3")


def test_a_pod_gets_only_the_annotations_of_its_own_world() -> None:
    owner = with_torch_tasks("learner", "collector")
    gang = gang_of(owner)
    worlds = []
    for rank in range(4):
        reads = read(manifest(owner, rank)).made.reads
        action = PublishAddresses(gang.member(rank).name, "uid", given(1, FOUR), reads)
        made = addresses_patch(gang, action)["metadata"]["annotations"]
        worlds.append({key.rpartition("-")[2] for key in made if "world-size" in key})
    assert worlds == [{"learner"}, {"learner"}, {"collector"}, {"collector"}]


def test_slurm() -> None:
    names_ = ",".join(f"job-{rank}.job" for rank in range(3))
    found = told(job(replicas=3, parallelWorkers=2, runtime="slurm"), 2, names_)
    wanted = {
        "SLURM_NTASKS": "3",
        "SLURM_NTASKS_PER_NODE": "1",
        "SLURM_NNODES": "3",
        "SLURM_NODELIST": "job-[0-2]",
        "SLURM_PROCID": "2",
        "SLURM_LOCALID": "0",
        "SLURMD_NODENAME": "job-2",
        "DI_NODES": names_,
    }
    assert wanted.items() <= found.items()
    assert found["SLURM_JOB_ID"].isdigit()
    assert "DI_NODE_IPS" not in found


def test_a_node_list_of_one_has_the_brackets_too() -> None:
    """DI-engine's parser accepts `job-0` as a single node, too, but scripts that split at the
    bracket do not.
    """
    assert told(job(replicas=1, runtime="slurm"), 0, "job-0.job")["SLURM_NODELIST"] == "job-[0-0]"


@pytest.mark.parametrize("gpus", [0, 2])
def test_oneflow(gpus: int) -> None:
    limits: dict[str, Any] = {"resources": {"limits": {"nvidia.com/gpu": gpus}}} if gpus else {}
    container = {"name": "di-container", "image": "i", "command": ["python3", "train.py"], **limits}
    found = told(job({"containers": [container]}, replicas=3, runtime="oneflow"), 1)
    assert json.loads(found["DI_ONEFLOW_NODES"]) == [
        {"addr": address} for address in LIST.split(",")
    ]
    wanted = {
        "DI_ONEFLOW_CTRL_PORT": "9988",
        "DI_ONEFLOW_GPU_DEVICE_NUM": str(gpus),
        "MASTER_ADDR": "10.0.0.7",
        "MASTER_PORT": "9988",
        "WORLD_SIZE": "3",
        "RANK": "1",
        "LOCAL_RANK": "0",
    }
    assert wanted.items() <= found.items()


def test_the_names_of_slurm_resolve_without_a_dot() -> None:
    spec = {
        "containers": [{"name": "di-container", "image": "i"}],
        "dnsConfig": {"searches": ["mine"], "options": []},
    }
    assert manifest(job(spec, runtime="slurm"))["spec"]["dnsConfig"] == {
        "searches": ["mine", "job.ns.svc.cluster.local"],
        "options": [],
    }
    assert "dnsConfig" not in manifest(job())["spec"]


@pytest.mark.parametrize("runtime", Runtime)
@pytest.mark.parametrize("addressing", ["IP", "Hostname"])
def test_a_program_has_the_same_world_with_the_launcher_and_without(
    runtime: Runtime, addressing: str
) -> None:
    spec: Body = {"runtime": runtime.value, "addressing": addressing, "parallelWorkers": 2}
    own = {name for name in told(job(**spec), 1) if name.startswith("DIJOB_")}
    seen = {name: value for name, value in told(job(**spec), 1).items() if name not in own}
    assert seen == told(job(**spec, launcher="Off"), 1)


@pytest.mark.parametrize("runtime", Runtime)
def test_variables_set_by_the_user_are_kept(runtime: Runtime) -> None:
    variables = [{"name": name, "value": "his"} for name in RUNTIMES[runtime].list_env]
    own = {"containers": [container(env=variables)]}
    found = told(job(own, runtime=runtime.value), 0)
    assert {found[name] for name in RUNTIMES[runtime].list_env} <= {"his"}


@pytest.mark.parametrize(
    ("runtime", "scope"),
    [("ditask", "Pod"), ("slurm", "Pod"), ("torch", "Job"), ("oneflow", "Job")],
)
def test_runtimes_with_fixed_membership_restart_together(runtime: str, scope: str) -> None:
    assert job(runtime=runtime).restart_scope == scope
    assert job(runtime=runtime, restart={"scope": "Pod"}).restart_scope == "Pod"
    assert job(runtime=runtime, restart={"scope": "Job"}).restart_scope == "Job"


def test_the_first_process_of_each_pod_has_a_rank_of_its_own() -> None:
    gang = gang_of(job(replicas=4, parallelWorkers=3, runtime="torch"))
    assert [runtime_environment(member, gang)["RANK"] for member in gang.members] == [
        "0",
        "3",
        "6",
        "9",
    ]


def test_the_seed_of_ddp_needs_no_field_of_its_own() -> None:
    """Containers without resources, or with an invalid number, have no GPUs."""
    body = job_body(
        {
            "containers": [
                {"name": "a", "image": "i", "resources": {"limits": {"nvidia.com/gpu": "x"}}}
            ]
        }
    )
    assert parse_job(body).pod_sets[0].gpus == 0


@pytest.mark.parametrize("runtime", Runtime)
def test_the_page_names_each_variable(runtime: Runtime) -> None:
    text = (ROOT / "docs/runtimes.md").read_text()
    section = text.partition(f"\n## {runtime}\n")[2].partition("\n## ")[0]
    listed = (
        RUNTIMES[runtime].list_env.keys()
        | RUNTIMES[runtime].env(gang_of(job()).member(0), gang_of(job())).keys()
    )
    assert [name for name in listed if f"`{name}`" not in section] == []
    assert f"`{runtime}`" in text
