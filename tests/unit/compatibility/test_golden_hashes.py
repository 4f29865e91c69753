"""The template hash is pinned: running pods carry it, and another value would mark each of them as
outdated.
"""

from pathlib import Path
from typing import Any

import pytest
import yaml
from apiserver.theirs import ACCEPTED, body
from dijob.api.parse import parse_job
from dijob.core.render.pod import template_hash
from samples.builders import container, job

EXAMPLES = Path(__file__).parents[3] / "examples"

# By file, and by sample.
OF_EXAMPLES = {
    "cartpole-ddp.yaml": "fc9e11fb3ceb892e",
    "cartpole-dqn.yaml": "1630f08aedbc89f9",
    "cartpole-tasks.yaml": "7b3f6cc447152fe3",
    "current-python.yaml": "bdee911fed28bb9e",
    "dataset.yaml": "ca400064cb9aa07b",
    "dijob.yaml": "d464196b3a5e7317",
    "evaluate.yaml": "160945fe67bd2450",
    "events.yaml": "9f19bbdb0174d61e",
    "gpu.yaml": "425fb8ed692c521f",
    "league.yaml": "50efaebb43352884",
    "learners-collectors.yaml": "cc95fe38dc6d126f",
    "oneflow.yaml": "4c0cd8fb0bb8244d",
    "own-image.yaml": "5c7a02bb92e826d1",
    "redis.yaml": "1abbc8a01b475482",
    "resume.yaml": "e9c44c79e0531318",
    "runner.yaml": "899dac2f414845e5",
    "slurm.yaml": "4413c21120eb3bec",
    "stalled.yaml": "946acfb4448df1a5",
    "star.yaml": "c71787974ae7534e",
    "torch.yaml": "3cf6fb30aebf3a64",
    "torchrpc.yaml": "752b4bc5ded809ba",
}
OF_DI_ORCHESTRATOR = {
    "v1.0.0/dijob-gobigger.yaml": "e26b77865e75c8b1",
    "v1.1.0/atari-dqn-dist.yaml": "ef1c8cf7996e5a68",
    "v1.1.0/dijob-serial.yaml": "f83a6e19ea886037",
    "v1.1.0/name-validate-without-name.yaml": "66a38a96b2bc97f9",
    "v1.1.0/normal-job-sleep.yaml": "f53405be8bd44b52",
    "v1.1.0/normal-job.yaml": "6ae31981a46b636a",
    "v1.1.3/atari-dqn-dist-config.yaml": "ebb1739b1f4b2391",
    "v1.1.3/atari-dqn-dist.yaml": "dfc37f24712aa688",
    "v1.1.3/dijob-serial.yaml": "d930112967bfd5e7",
}

SAMPLES: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "plain": ({}, {}),
    "pod": (
        {
            "restartPolicy": "Never",
            "nodeSelector": {"gpu": "yes"},
            "initContainers": [container(name="i")],
        },
        {},
    ),
    "sizes": ({}, {"minReplicas": 2, "maxReplicas": 7}),
    "workers": ({}, {"parallelWorkers": 4}),
    "topology": ({}, {"topology": "star"}),
    "topology as it is when absent": ({}, {"topology": "mesh"}),
    "launcher": ({}, {"launcher": "Off"}),
    "runtime": ({}, {"runtime": "torch"}),
    "queue": ({}, {"messageQueue": {"type": "redis"}}),
    "queue of the user's": (
        {},
        {"messageQueue": {"type": "redis", "host": "redis.example", "port": 6380}},
    ),
    "addressing": ({}, {"addressing": "Hostname"}),
    "engineFields": ({}, {"engineFields": {"topology": "alone", "parallelWorkers": 2}}),
    "volumes": ({}, {"volumes": [{"name": "data", "emptyDir": {}}]}),
    "group": ({}, {"group": "team"}),
    "priority": ({}, {"priority": "high"}),
    "policies": (
        {},
        {"backoffLimit": 0, "successPolicy": "Rank0", "cleanPodPolicy": "All", "suspend": True},
    ),
}
OF_SAMPLES = {
    "plain": "8998fd0a6b6c51fc",
    "pod": "98ef531b97d3e635",
    "sizes": "8998fd0a6b6c51fc",
    "workers": "0e0cee26283311fc",
    "topology": "401c83c096d760a2",
    "topology as it is when absent": "8998fd0a6b6c51fc",
    "launcher": "af8800468643677d",
    "runtime": "1f961efb4aea3690",
    "queue": "a04483a98858f72f",
    "queue of the user's": "b734b07b9f3ef1ac",
    "addressing": "e1bced6ae72592a5",
    "engineFields": "80301e77b30c8dac",
    "volumes": "702cd864c4035050",
    "group": "7732b8dc7b9f92b3",
    "priority": "c2bc831c93282a8b",
    "policies": "8998fd0a6b6c51fc",
}


def of_file(name: str) -> str:
    found = yaml.safe_load_all((EXAMPLES / name).read_text())
    (made,) = (each for each in found if each and each["kind"] == "DIJob")
    return template_hash(parse_job(made))


def test_every_manifest_has_a_pinned_hash() -> None:
    assert sorted(OF_EXAMPLES) == sorted(
        path.name for path in EXAMPLES.glob("*.yaml") if "\nkind: DIJob\n" in path.read_text()
    )
    assert sorted(OF_DI_ORCHESTRATOR) == sorted(ACCEPTED)
    assert sorted(OF_SAMPLES) == sorted(SAMPLES)


@pytest.mark.parametrize("file", OF_EXAMPLES)
def test_hashes_of_the_examples(file: str) -> None:
    assert of_file(file) == OF_EXAMPLES[file]


@pytest.mark.parametrize("file", OF_DI_ORCHESTRATOR)
def test_hashes_of_the_manifests_of_di_orchestrator(file: str) -> None:
    assert template_hash(parse_job(body(file))) == OF_DI_ORCHESTRATOR[file]


@pytest.mark.parametrize("sample", OF_SAMPLES)
def test_hashes_of_the_samples(sample: str) -> None:
    pod, spec = SAMPLES[sample]
    assert template_hash(job(pod, **spec)) == OF_SAMPLES[sample]
