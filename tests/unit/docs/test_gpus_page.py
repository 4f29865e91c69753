"""The blocks to paste of docs/gpus.md are jobs that the operator accepts."""

import re
from pathlib import Path

import pytest
import yaml
from dijob.api.parse import parse_job
from dijob.core.members import gang_of

PAGE = (Path(__file__).parents[3] / "docs/gpus.md").read_text()
BLOCKS = [yaml.safe_load(text) for text in re.findall(r"(?ms)^```yaml\n(.*?)^```", PAGE)]
JOBS = {block["metadata"]["name"]: block for block in BLOCKS if block.get("kind") == "DIJob"}
DEVICES = {
    "learner-gpu": "nvidia.com/gpu",
    "on-mig": "nvidia.com/mig-1g.10gb",
    "on-slices": "nvidia.com/gpu.shared",
    "nccl": "nvidia.com/gpu",
}
SIZES = {"learner-gpu": 5, "on-mig": 4, "on-slices": 4, "nccl": 2}


def test_the_page_has_a_block_for_each_way_to_use_a_gpu() -> None:
    assert set(JOBS) == set(DEVICES)


@pytest.mark.parametrize("name", DEVICES)
def test_the_operator_accepts_a_block_of_the_page(name: str) -> None:
    """A task's pods may differ: only the learner's has the GPU."""
    body = JOBS[name]
    job = parse_job({**body, "metadata": {**body["metadata"], "namespace": "a", "uid": "u"}})
    assert gang_of(job).size == SIZES[name]
    containers = [each.main_container for each in job.pod_sets]
    assert DEVICES[name] in containers[0]["resources"]["limits"]
    for container, pods in zip(containers, job.pod_sets, strict=True):
        memory = {v["name"] for v in pods.pod["volumes"] if v["emptyDir"]["medium"] == "Memory"}
        assert {"/dev/shm"} == {
            mount["mountPath"] for mount in container["volumeMounts"] if mount["name"] in memory
        }
