"""DI-orchestrator's own manifests with their expected results (see di-orchestrator/README.md)."""

from pathlib import Path
from typing import Any

import yaml
from dijob.api.model import DIJob
from dijob.api.parse import parse_job
from dijob.names import Topology

Body = dict[str, Any]

MANIFESTS = Path(__file__).parent / "di-orchestrator"
FILES = sorted(str(path.relative_to(MANIFESTS)) for path in MANIFESTS.glob("v*/*.yaml"))
FOUR = "learner 1, evaluator 1, collector 2"

# By file: world size, workers per pod, topology, tasks with their replicas.
ACCEPTED: dict[str, tuple[int, int, Topology, str]] = {
    "v1.0.0/dijob-gobigger.yaml": (10, 2, Topology.STAR, ""),
    "v1.1.0/atari-dqn-dist.yaml": (4, 1, Topology.MESH, FOUR),
    "v1.1.0/dijob-serial.yaml": (1, 1, Topology.MESH, "serial 1"),
    "v1.1.0/name-validate-without-name.yaml": (4, 1, Topology.MESH, FOUR),
    "v1.1.0/normal-job-sleep.yaml": (4, 1, Topology.MESH, FOUR),
    "v1.1.0/normal-job.yaml": (4, 1, Topology.MESH, FOUR),
    "v1.1.3/atari-dqn-dist-config.yaml": (
        6,
        2,
        Topology.MESH,
        "learner 1, evaluator 1, collector 1",
    ),
    "v1.1.3/atari-dqn-dist.yaml": (4, 1, Topology.MESH, FOUR),
    "v1.1.3/dijob-serial.yaml": (1, 1, Topology.MESH, "serial 1"),
}
# By file: the one problem, which DI-orchestrator's validator reports too (pkg/utils/validator.go).
# A task without a name is valid: it is named after its type, there (SetDefaultJobNameInCluster) as
# here.
REFUSED: dict[str, tuple[str, str]] = {
    "v1.1.0/name-validate-name-repeat.yaml": ("spec.tasks[2].name", "two tasks have this name"),
    "v1.1.0/name-validate-none-type-task-without-name.yaml": (
        "spec.tasks[3].name",
        "a task of type none needs a name",
    ),
    "v1.1.0/name-validate-task-repeat.yaml": (
        "spec.tasks[2].type",
        "at most one task of each of the types learner, collector",
    ),
}
NORMAL = "v1.1.0/normal-job.yaml"
GOBIGGER = "v1.0.0/dijob-gobigger.yaml"


def body(file: str) -> Body:
    """Return the DIJob in a file, as the apiserver would return it."""
    objects = yaml.safe_load_all((MANIFESTS / file).read_text())
    found: Body = next(one for one in objects if one["kind"] == "DIJob")
    found["metadata"] |= {"uid": "the-uid", "namespace": "ns", "generation": 1}
    return found


def job(file: str = NORMAL, **spec: Any) -> DIJob:
    made = body(file)
    made["spec"] |= spec
    return parse_job(made)
