"""The table of bad input for tasks, policies, deadlines and suspend."""

import copy
import json
from typing import Any

from apiserver.plane import Body, job
from apiserver.rows import EditRefused, Refused, Reported, patch
from dijob.names import Runtime


def tasks_job(name: str, *tasks: Body, **spec: Any) -> Body:
    """Return a job of one learner and two collectors, or with other `tasks`."""
    made = job(name)
    template = made["spec"].pop("template")
    usual = ({"type": "learner"}, {"type": "collector", "replicas": 2})
    made["spec"] = {
        "tasks": [{"template": copy.deepcopy(template), **task} for task in tasks or usual],
        **spec,
    }
    return made


def _change(path: str, value: Any) -> tuple[str, ...]:
    change = [{"op": "replace", "path": f"/spec/tasks/{path}", "value": value}]
    return ("patch", "dijob", "{}", "--type=json", "-p", json.dumps(change))


NEITHER = job("bad")
NEITHER["spec"].pop("template")
CODES: Body = {"action": "FailJob", "onExitCodes": {"values": [3]}}
ENV: Body = {
    "spec": {
        "containers": [{"name": "a", "image": "i", "env": [{"name": "DI_RANK", "value": "1"}]}]
    }
}

ELASTIC: tuple[Body, ...] = (
    {"type": "learner"},
    {"type": "collector", "replicas": 2, "minReplicas": 2, "maxReplicas": 4},
)

REFUSED: dict[str, Refused] = {
    "both shapes": Refused(
        tasks_job("bad", template=job("bad")["spec"]["template"]),
        ("spec.tasks", "remove one of the two"),
    ),
    "neither shape": Refused(NEITHER, ("spec.template", "add one of the two")),
    "a size above the last task's maximum": Refused(
        tasks_job("bad", *ELASTIC, replicas=5),
        ("spec.replicas", "between that task's minReplicas and maxReplicas"),
    ),
    "a size below the last task's minimum": Refused(
        tasks_job("bad", *ELASTIC, replicas=1),
        ("spec.replicas", "between that task's minReplicas and maxReplicas"),
    ),
    "too many replicas in total": Refused(
        tasks_job("bad", replicas=1500), ("spec.replicas", "at most 1500 replicas")
    ),
    "a minimum with tasks": Refused(
        tasks_job("bad", minReplicas=3), ("spec.tasks", "use spec.tasks[].minReplicas")
    ),
    "a minimum of another task": Refused(
        tasks_job("bad", {"type": "learner", "minReplicas": 1}, {"type": "collector"}),
        ("spec.tasks", "only for the last task"),
    ),
    "a minimum of a task above its maximum": Refused(
        tasks_job("bad", {"type": "collector", "minReplicas": 3, "maxReplicas": 2}),
        ("spec.tasks[0].minReplicas", "must not be greater than maxReplicas"),
    ),
    "replicas of a task above its maximum": Refused(
        tasks_job("bad", {"type": "collector", "replicas": 3, "maxReplicas": 2}),
        ("spec.tasks[0].replicas", "between minReplicas and maxReplicas"),
    ),
    "a budget of the whole job with tasks": Refused(
        tasks_job("bad", disruptionBudget={"maxUnavailable": 1}),
        ("spec.disruptionBudget", "use spec.tasks[].disruptionBudget"),
    ),
    "a budget without a number": Refused(
        tasks_job("bad", {"type": "learner", "disruptionBudget": {}}),
        ("spec.tasks[0].disruptionBudget.maxUnavailable", "Required"),
        lines=0,
    ),
    "a budget in percent": Refused(
        job("bad", disruptionBudget={"maxUnavailable": "50%"}),
        ("spec.disruptionBudget.maxUnavailable", "integer"),
        lines=0,
    ),
    "a negative budget": Refused(
        job("bad", disruptionBudget={"maxUnavailable": -1}),
        ("spec.disruptionBudget.maxUnavailable", "greater than or equal to 0"),
        lines=0,
    ),
    "two tasks of one name": Refused(
        tasks_job("bad", {"type": "learner", "name": "a"}, {"type": "evaluator", "name": "a"}),
        ("spec.tasks", "two tasks have this name"),
    ),
    "two tasks of one type": Refused(
        tasks_job("bad", {"type": "learner"}, {"type": "learner", "name": "b"}),
        ("spec.tasks", "at most one task of each"),
    ),
    "an unknown type": Refused(
        tasks_job("bad", {"type": "actor"}),
        ("spec.tasks[0].type", '"learner", "collector", "evaluator", "none"'),
        lines=0,
    ),
    "C16: a task whose pods' names would be too long": Refused(
        tasks_job("a" * 25, {"type": "none", "name": "t" * 35, "replicas": 11}),
        (
            "spec.tasks",
            "the name of a task may have at most 34 characters in this job",
            "63 characters",
        ),
    ),
    "a task of type none without a name": Refused(
        tasks_job("bad", {"type": "none"}), ("spec.tasks[0].name", "add one")
    ),
    "a task's name that is none": Refused(
        tasks_job("bad", {"type": "learner", "name": "A_b"}), ("spec.tasks[0].name", "must match")
    ),
    "slurm with tasks": Refused(
        tasks_job("bad", runtime="slurm"),
        ("spec.runtime", "slurm and oneflow need identical pods"),
    ),
    "a task of slurm": Refused(
        tasks_job("bad", {"type": "learner", "runtime": "slurm"}),
        ("spec.tasks[0].runtime", "must be ditask or torch"),
    ),
    "an unknown runtime of a task": Refused(
        tasks_job("bad", {"type": "learner", "runtime": "unknown"}),
        ("spec.tasks[0].runtime", "must be ditask or torch"),
    ),
    "a task with a runtime in a job of torch": Refused(
        tasks_job("bad", {"type": "learner", "runtime": "torch"}, runtime="torch"),
        ("spec.tasks", "tasks[].runtime: spec.runtime makes all ranks", "remove spec.runtime"),
    ),
    "a server without redis": Refused(
        job("bad", messageQueue={"host": "a"}),
        ("spec.messageQueue", "is only for type redis"),
    ),
    "an unknown runtime": Refused(
        job("bad", runtime="unknown"),
        ("spec.runtime", ", ".join(f'"{each}"' for each in Runtime)),
        lines=0,
    ),
    "no task": Refused(
        {**tasks_job("bad"), "spec": {"tasks": []}}, ("spec.tasks", "at least 1"), lines=0
    ),
    "a task without a template": Refused(
        {**tasks_job("bad"), "spec": {"tasks": [{"type": "learner"}]}},
        ("spec.tasks[0].template", "Required"),
        lines=0,
    ),
    "our variable in a task": Refused(
        tasks_job("bad", {"type": "learner", "template": ENV}),
        ("spec.tasks[0].template.spec.containers[0].env[0].name", "DI_RANK is set by the operator"),
    ),
    "a rule on exit codes under OnFailure": Refused(
        tasks_job("bad", failurePolicy={"rules": [CODES]}),
        ("spec.failurePolicy", "needs restartPolicy: Never"),
    ),
    "the same with a template": Refused(
        job("bad", failurePolicy={"rules": [CODES]}),
        ("spec.failurePolicy", "needs restartPolicy: Never"),
    ),
    "a rule about no task of the job": Refused(
        tasks_job("bad", failurePolicy={"rules": [{"action": "Ignore", "task": "evaluator"}]}),
        ("spec.failurePolicy", "name of one of the job's tasks"),
    ),
    "an unknown action": Refused(
        tasks_job("bad", failurePolicy={"rules": [{"action": "Panic"}]}),
        ("spec.failurePolicy.rules[0].action", '"FailJob", "RestartJob", "Restart", "Ignore"'),
        lines=0,
    ),
    "a success policy that names no task": Refused(
        tasks_job("bad", successPolicy="evaluator"),
        ("spec.successPolicy", "AllReplicas, Rank0 or the name"),
    ),
    "a deadline of 0": Refused(
        job("bad", activeDeadlineSeconds=0),
        ("spec.activeDeadlineSeconds", "greater than or equal to 1"),
    ),
    "a startup deadline of 0": Refused(
        job("bad", startupDeadlineSeconds=0),
        ("spec.startupDeadlineSeconds", "greater than or equal to 1"),
    ),
    "a negative time to live": Refused(
        job("bad", ttlSecondsAfterFinished=-1),
        ("spec.ttlSecondsAfterFinished", "greater than or equal to 0"),
    ),
    "an unknown priority": Refused(
        job("bad", priority="low"), ("spec.priority", '"normal", "high"'), lines=0
    ),
    "a group that is no label": Refused(job("bad", group="a b"), ("spec.group", "becomes a label")),
}

_TASK = "/spec/tasks/1/template/spec/containers/0"
MISSPELT = [
    {"op": "move", "from": f"{_TASK}/image", "path": f"{_TASK}/imge"},
]

BOTH_SIZES = [
    {"op": "replace", "path": "/spec/tasks/1/replicas", "value": 3},
    {"op": "add", "path": "/spec/replicas", "value": 4},
]

# For a running job with tasks.
EDITS: dict[str, EditRefused] = {
    "kubectl scale beyond the size of a job": EditRefused(
        ("scale", "dijob", "{}", "--replicas=1500"), ("spec.replicas", "at most 1500 replicas")
    ),
    "both sizes of the last task": EditRefused(
        ("patch", "dijob", "{}", "--type=json", "-p", json.dumps(BOTH_SIZES)),
        ("spec.replicas", "change only one of them"),
    ),
    "another task's replicas": EditRefused(
        _change("0/replicas", 2), ("spec.tasks", "only the last task's replicas")
    ),
    "a task's type": EditRefused(
        _change("0/type", "evaluator"), ("spec.tasks", "names, types, runtimes and order cannot")
    ),
    "a task's name": EditRefused(
        (
            "patch",
            "dijob",
            "{}",
            "--type=json",
            "-p",
            '[{"op": "add", "path": "/spec/tasks/0/name", "value": "other"}]',
        ),
        ("spec.tasks", "names, types, runtimes and order cannot"),
    ),
    "a task's runtime": EditRefused(
        (
            "patch",
            "dijob",
            "{}",
            "--type=json",
            "-p",
            '[{"op": "add", "path": "/spec/tasks/0/runtime", "value": "torch"}]',
        ),
        ("spec.tasks", "names, types, runtimes and order cannot"),
    ),
    "a task's image": EditRefused(
        _change("1/template/spec/containers/0/image", "other"),
        ("spec.tasks", "their templates cannot", "suspend the job"),
    ),
    "a misspelled field of a task's template": EditRefused(
        ("patch", "dijob", "{}", "--type=json", "-p", json.dumps(MISSPELT)),
        ("spec.tasks", "their templates cannot", "suspend the job"),
    ),
    "the volumes": EditRefused(
        patch(volumes=[{"name": "v", "emptyDir": {}}]), ("spec.volumes", "cannot be changed")
    ),
    "the group": EditRefused(patch(group="other"), ("spec.group", "cannot be changed")),
    "the priority": EditRefused(patch(priority="high"), ("spec.priority", "cannot be changed")),
    "engineFields": EditRefused(
        patch(engineFields={"topology": "star"}), ("spec.engineFields", "cannot be changed")
    ),
}

# For a suspended job with its own Redis server.
EDITS_OF_SUSPENDED: dict[str, EditRefused] = {
    "another port": EditRefused(
        patch(messageQueue={"port": 7000}),
        ("spec.messageQueue.port", "cannot be changed", "create a job with a different name"),
    ),
    "another port, and no longer suspended": EditRefused(
        patch(messageQueue={"port": 7000}, suspend=False),
        ("spec.messageQueue.port", "cannot be changed"),
    ),
}
ALLOWED_OF_SUSPENDED: dict[str, tuple[str, ...]] = {
    "the port that it has": patch(messageQueue={"port": 6379}),
    "a port with another server": patch(messageQueue={"host": "redis", "port": 7000}),
    "another queue": patch(messageQueue={"type": "nng", "host": None, "port": None}),
}

REPORTED: dict[str, Reported] = {
    "a priority without a class": Reported(
        job("bad", priority="high"),
        "SpecWarning",
        "True",
        ("spec.priority", "priorityClasses.high"),
        pods=2,
    ),
    "workers that differ between tasks": Reported(
        tasks_job(
            "bad",
            *(
                {
                    "type": kind,
                    "template": {
                        "spec": {"containers": [{"name": "a", "image": "i", "command": command}]}
                    },
                }
                for kind, command in (
                    ("learner", ["ditask", "--parallel-workers", "2"]),
                    ("collector", ["ditask", "--parallel-workers", "3"]),
                )
            ),
        ),
        "Invalid",
        "True",
        ("spec.parallelWorkers", "in task learner", "in task collector", "make them equal"),
    ),
}
