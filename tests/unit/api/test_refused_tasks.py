"""parse_job: the messages for invalid specs with tasks."""

from typing import Any

import pytest
from dijob.api.parse import parse_job
from dijob.api.parts import Task
from samples.builders import Body, container, tasks_body
from samples.specs import rejection


def with_tasks(*edits: Body, **spec: Any) -> Body:
    """Return a job with tasks. Each edit is merged into the task with the same index."""
    body = tasks_body(1, 1, 2, **spec)
    for task, edit in zip(body["spec"]["tasks"] or (), edits, strict=False):
        task.update(edit)
    return body


def with_command(*commands: str) -> Body:
    pods = [{"spec": {"containers": [container(command=command.split())]}} for command in commands]
    return with_tasks(*({"template": pod} for pod in pods))


NO_TASK = {"action": "Ignore", "task": "other"}
CODES = {"action": "FailJob", "onExitCodes": {"values": [3]}}
REFUSED: dict[str, tuple[Body, str, str]] = {
    "both shapes": (
        with_tasks(template=tasks_body()["spec"]["tasks"][0]["template"]),
        "spec",
        "remove one of the two",
    ),
    "neither": (with_tasks(tasks=None), "spec", "add one of the two"),
    "slurm": (
        with_tasks(runtime="slurm"),
        "spec.runtime",
        "slurm and oneflow need identical pods",
    ),
    "oneflow": (
        with_tasks(runtime="oneflow"),
        "spec.runtime",
        "slurm and oneflow need identical pods",
    ),
    "a task of slurm": (
        with_tasks({"runtime": "slurm"}),
        "spec.tasks[0].runtime",
        "is slurm: it must be ditask or torch",
    ),
    "a task of torch in a job of torch": (
        with_tasks({}, {"runtime": "torch"}, runtime="torch"),
        "spec.tasks[1].runtime",
        "spec.runtime: torch makes all ranks of the job one world",
    ),
    "a task without torch in a job of torch": (
        with_tasks({}, {"runtime": "ditask"}, runtime="torch"),
        "spec.tasks[1].runtime",
        "remove spec.runtime, and set runtime: torch in the tasks that train together",
    ),
    "a task of torch in a job of oneflow": (
        with_tasks({"runtime": "torch"}, runtime="oneflow"),
        "spec.runtime",
        "slurm and oneflow need identical pods",
    ),
    "an unknown runtime of a task": (
        with_tasks({"runtime": "ray"}),
        "spec.tasks[0].runtime",
        "'ditask', 'torch'",
    ),
    "no task": (with_tasks(tasks=[]), "spec.tasks", "at least 1 item"),
    "a minimum and tasks": (
        with_tasks(minReplicas=2),
        "spec.minReplicas",
        "use spec.tasks[].minReplicas",
    ),
    "a maximum and tasks": (
        with_tasks(maxReplicas=2),
        "spec.maxReplicas",
        "use spec.tasks[].minReplicas and spec.tasks[].maxReplicas",
    ),
    "a minimum of another task": (
        with_tasks({"minReplicas": 1}),
        "spec.tasks[0].minReplicas",
        "only for the last task",
    ),
    "a maximum of another task": (
        with_tasks({}, {"maxReplicas": 1}),
        "spec.tasks[1].maxReplicas",
        "only for the last task",
    ),
    "a minimum of a task above its maximum": (
        with_tasks({}, {}, {"minReplicas": 3, "maxReplicas": 2}),
        "spec.tasks[2].minReplicas",
        "must not be greater than maxReplicas",
    ),
    "replicas of a task below its minimum": (
        with_tasks({}, {}, {"minReplicas": 3}),
        "spec.tasks[2].replicas",
        "is 2: replicas must be between minReplicas and maxReplicas",
    ),
    "replicas of a task above its maximum": (
        with_tasks({}, {}, {"maxReplicas": 1}),
        "spec.tasks[2].replicas",
        "is 2: replicas must be between minReplicas and maxReplicas",
    ),
    "too many replicas in total by the scale": (
        with_tasks(replicas=1499),
        "spec.tasks",
        "have 1501 replicas in total",
    ),
    "a budget of the whole job and tasks": (
        with_tasks(disruptionBudget={"maxUnavailable": 1}),
        "spec.disruptionBudget",
        "use spec.tasks[].disruptionBudget",
    ),
    "a budget without a number": (
        with_tasks({"disruptionBudget": {}}),
        "spec.tasks[0].disruptionBudget.maxUnavailable",
        "required",
    ),
    "a budget in percent": (
        with_tasks({"disruptionBudget": {"maxUnavailable": "50%"}}),
        "spec.tasks[0].disruptionBudget.maxUnavailable",
        "valid integer",
    ),
    "a negative budget": (
        with_tasks({"disruptionBudget": {"maxUnavailable": -1}}),
        "spec.tasks[0].disruptionBudget.maxUnavailable",
        "at least 0",
    ),
    "two tasks with one name": (
        with_tasks({"name": "a"}, {"name": "a"}),
        "spec.tasks[1].name",
        "two tasks have this name",
    ),
    "two tasks of one type": (
        with_tasks({}, {"type": "learner", "name": "b"}),
        "spec.tasks[1].type",
        "at most one task of each",
    ),
    "an unknown type": (
        with_tasks({"type": "actor"}),
        "spec.tasks[0].type",
        "'learner', 'collector', 'evaluator' or 'none'",
    ),
    "a task of type none without a name": (
        with_tasks({"type": "none"}),
        "spec.tasks[0].name",
        "needs a name",
    ),
    "an invalid name": (with_tasks({"name": "A_b"}), "spec.tasks[0].name", "must match"),
    "a typo in a task": (
        with_tasks({"replica": 1}),
        "spec.tasks[0].replica",
        "did you mean replicas?",
    ),
    "no container": (
        with_tasks({"template": {"spec": {}}}),
        "spec.tasks[0].template.spec.containers",
        "at least one",
    ),
    "a reserved variable": (
        with_tasks(
            {
                "template": {
                    "spec": {"containers": [container(env=[{"name": "DI_RANK", "value": "1"}])]}
                }
            }
        ),
        "spec.tasks[0].template.spec.containers[0].env",
        "DI_RANK is set by the operator",
    ),
    "workers that differ between tasks": (
        with_command("ditask --parallel-workers 2", "ditask --parallel-workers 3"),
        "spec.parallelWorkers",
        "--parallel-workers 2 in task learner and --parallel-workers 3 in task evaluator",
    ),
    "a success policy that names no task": (
        with_tasks(successPolicy="actor"),
        "spec.successPolicy",
        "AllReplicas, Rank0, learner",
    ),
    "a rule that names no task": (
        with_tasks(failurePolicy={"rules": [NO_TASK]}),
        "spec.failurePolicy.rules[0].task",
        "not a task",
    ),
    "exit codes under OnFailure": (
        with_tasks(failurePolicy={"rules": [CODES]}),
        "spec.failurePolicy.rules[0].onExitCodes",
        "needs restartPolicy: Never",
    ),
    "a rule without exit codes": (
        with_tasks(failurePolicy={"rules": [{"action": "FailJob", "onExitCodes": {"values": []}}]}),
        "spec.failurePolicy.rules[0].onExitCodes.values",
        "at least 1 item",
    ),
    "exit code 0": (
        with_tasks(
            failurePolicy={"rules": [{"action": "FailJob", "onExitCodes": {"values": [0]}}]}
        ),
        "spec.failurePolicy.rules[0].onExitCodes.values[0]",
        "at least 1",
    ),
    "an unknown action": (
        with_tasks(failurePolicy={"rules": [{"action": "Panic"}]}),
        "spec.failurePolicy.rules[0].action",
        "'FailJob', 'RestartJob', 'Restart' or 'Ignore'",
    ),
    "a name whose variable is reserved": (
        with_tasks({"type": "none", "name": "num"}),
        "spec.tasks[0].name",
        "DI_NUM_NODES",
    ),
    "a rule on a condition of every pod's life": (
        with_tasks(
            failurePolicy={"rules": [{"action": "FailJob", "onPodConditions": [{"type": "Ready"}]}]}
        ),
        "spec.failurePolicy.rules[0].onPodConditions[0].type",
        "every pod's normal life cycle",
    ),
    "a shared volume with a reserved name": (
        with_tasks(volumes=[{"name": "dijob-bin"}]),
        "spec.volumes[0].name",
        "a container or volume that the operator adds",
    ),
    "a shared volume twice": (
        with_tasks(volumes=[{"name": "v"}, {"name": "v"}]),
        "spec.volumes[1].name",
        "twice",
    ),
    "a shared volume without a name": (
        with_tasks(volumes=[{"emptyDir": {}}]),
        "spec.volumes[0].name",
        "is missing",
    ),
    "a deadline of 0": (
        with_tasks(activeDeadlineSeconds=0),
        "spec.activeDeadlineSeconds",
        "at least 1",
    ),
    "a startup deadline of 0": (
        with_tasks(startupDeadlineSeconds=0),
        "spec.startupDeadlineSeconds",
        "at least 1",
    ),
    "an unknown priority": (with_tasks(priority="low"), "spec.priority", "'normal' or 'high'"),
    "a group that is not a label": (with_tasks(group="a b"), "spec.group", "becomes a label"),
    "two topologies": (
        with_tasks(topology="mesh", engineFields={"topology": "star"}),
        "spec.engineFields.topology",
        "is star, but spec.topology is mesh",
    ),
    "a volume twice": (
        with_tasks(
            {"template": {"spec": {"containers": [container()], "volumes": [{"name": "v"}]}}},
            volumes=[{"name": "v"}],
        ),
        "spec.tasks[0].template.spec.volumes[0].name",
        "also the name of a volume in spec.volumes",
    ),
}


@pytest.mark.parametrize(("made", "field", "words"), REFUSED.values(), ids=REFUSED)
def test_an_invalid_spec_with_tasks_names_the_field_and_the_reason(
    made: Body, field: str, words: str
) -> None:
    found = dict(rejection(made))
    assert words in found.get(field, f"no problem with {field}: {found}")


def test_a_rule_on_exit_codes_needs_restart_policy_never_only_in_its_task() -> None:
    never = {"spec": {"containers": [container()], "restartPolicy": "Never"}}
    assert parse_job(
        with_tasks({"template": never}, failurePolicy={"rules": [{**CODES, "task": "learner"}]})
    )


def test_every_field_of_a_task_is_known() -> None:
    assert {str(field.alias) for field in Task.model_fields.values()} == {
        "name",
        "type",
        "replicas",
        "minReplicas",
        "maxReplicas",
        "disruptionBudget",
        "runtime",
        "template",
    }
