"""docs/migration.md has a row for all that DI-orchestrator knows, and names tests that
exist.
"""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]

DOC = ROOT / "docs/migration.md"


def test_the_tests_that_the_document_names_exist() -> None:
    named = set(re.findall(r"`(\w+)/(test_\w+)\.(test_\w+)`", DOC.read_text()))
    assert named
    lost = [
        f"{folder}/{file}.{name}"
        for folder, file, name in named
        if f"def {name}(" not in (ROOT / f"tests/{folder}/{file}.py").read_text()
    ]
    assert lost == []


# pkg/api/v2alpha1/dijob_types.go, pkg/common/config.go and pkg/context/ of v1.0.0 and v1.1.0 to
# v1.1.3.
THEIRS = """
spec.group spec.priority spec.engineFields.topology spec.engineFields.parallelWorkers
spec.cleanPodPolicy spec.preemptible spec.minReplicas spec.maxReplicas spec.template
spec.backoffLimit spec.volumes spec.tasks
tasks[].replicas tasks[].type tasks[].name tasks[].template
status.completionTimestamp status.generation status.phase status.replicas
status.readyReplicas status.allocation
status.profilings status.conditions status.restarts status.reschedules status.taskStatus
diengine/operator diengine/group diengine/job diengine/rank diengine/pod
diengine/task-type diengine/task-name
diengine/generation diengine/replicas diengine/node diengine/task-rank
DI_JOB_ID DI_JOB_GENERATION DI_SERVER_URL DI_PARALLEL_WORKERS_ARG
DI_PORTS_ARG DI_NODE_IDS_ARG DI_ATTACHED_NODES_ARG
DI_RANK DI_NODES DI_<TASK>_NODES DI_JOB_DEFAULT_RESOURCES
"""


def test_the_document_has_a_row_for_each_field_label_annotation_and_variable() -> None:
    text = DOC.read_text()
    assert [thing for thing in THEIRS.split() if f"\n| `{thing}`" not in text] == []
