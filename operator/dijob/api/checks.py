"""The validation rules of a DIJob beyond its schema.

The CRD contains most of these rules as CEL rules with the same messages, so that `kubectl apply`
fails immediately. The operator checks all of them again. An object can be older than a rule, and
some rules cannot be in the CRD, because they need the parsed command or exceed CEL's cost budget.
The problems are reported in the condition Invalid.
"""

import re
from collections.abc import Iterator
from typing import Final

from dijob import names
from dijob.api import job_names
from dijob.api.later_rules import later_problems
from dijob.api.model import DIJob
from dijob.api.parts import MessageQueue, Task
from dijob.api.problems import Problem
from dijob.api.spec import Spec
from dijob.api.template_checks import (
    OWN_NAME_MESSAGE,
    OWN_VOLUMES,
    command_problems,
    template_problems,
)
from dijob.names import Addressing, Engine, Launcher, Queue, Runtime, StallPolicy, TaskType

# {} is replaced with Succeeded or Failed. A job that has ended is immutable, because people and
# other objects refer to its outcome by the job's name (docs/decisions/016).
ENDED_MESSAGE: Final = (
    "the job has ended ({}): delete it and apply again (kubectl dijob restart NAME -f FILE does"
    " both), or use a new name"
)
NO_SIZE_MESSAGE: Final = (
    "one of replicas, minReplicas and maxReplicas is required, because it sets the number of pods:"
    " add one of them"
)
SHAPE_MESSAGE: Final = (
    "a job has either a template (with replicas, minReplicas or maxReplicas) or tasks (each with"
    " its own template)"
)
ONE_SHAPE_MESSAGE: Final = f"{SHAPE_MESSAGE}: remove one of the two"
NO_SHAPE_MESSAGE: Final = f"{SHAPE_MESSAGE}: add one of the two"
TASKS_BOUNDS_MESSAGE: Final = (
    "in a job with tasks, only the last task can be scaled, so minReplicas and maxReplicas belong"
    " to this task: use spec.tasks[].minReplicas and spec.tasks[].maxReplicas"
)
LAST_TASK_MESSAGE: Final = (
    "minReplicas and maxReplicas are only for the last task, because ranks are numbered across all"
    " tasks: remove them, or move the task that you want to scale to the end of the list"
)
TASK_BOUNDS_MESSAGE: Final = "minReplicas must not be greater than maxReplicas: change one of them"
TASK_SIZE_MESSAGE: Final = (
    "replicas must be between minReplicas and maxReplicas: change replicas too (its default is 1)"
)
SCALE_MESSAGE: Final = (
    "is the size of the last task; it must be between that task's minReplicas and maxReplicas, and"
    f" all tasks together can have at most {names.MAX_REPLICAS} replicas: choose another size, or"
    " change the task"
)
TWO_SIZES_MESSAGE: Final = (
    "spec.replicas and the last task's replicas were both changed, but to different values: change"
    " only one of them (both set the size of the last task)"
)
TASKS_BUDGET_MESSAGE: Final = (
    "is only for a job without tasks, because a pod that belongs to two budgets cannot be evicted"
    " at all: use spec.tasks[].disruptionBudget"
)
TASK_NAME_PATTERN: Final = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
TASK_NAME_MESSAGE: Final = (
    f"must match {TASK_NAME_PATTERN}, because the pods are named JOB-TASK-INDEX"
)
NO_TASK_NAME_MESSAGE: Final = "a task of type none needs a name: add one"
TASK_TWICE_MESSAGE: Final = (
    "two tasks have this name (the default name is the type): give each task a unique name"
)
TYPE_TWICE_MESSAGE: Final = (
    "a job can have at most one task of each of the types learner, collector and evaluator: merge"
    " the two tasks, or use type none"
)
NUM_MESSAGE: Final = (
    "the variable with this task's addresses would be DI_NUM_NODES, but DI_NUM_NODES already"
    " contains the number of ranks: choose another name for the task"
)
ORDINARY_MESSAGE: Final = (
    "is a condition of every pod's normal life cycle and does not indicate a failure: use another"
    " condition, such as DisruptionTarget"
)
EXIT_CODE_MESSAGE: Final = (
    "needs restartPolicy: Never in the template, because a container that restarts in its pod shows"
    " its exit code only briefly: set that policy, or use onPodConditions"
)
HOST_MESSAGE: Final = "is only for type redis: add `type: redis`, or remove the host"
HOMOGENEOUS: Final = tuple(runtime for runtime in Runtime if runtime.traits.homogeneous)
HOMOGENEOUS_MESSAGE: Final = (
    f"{' and '.join(HOMOGENEOUS)} need identical pods whose names differ only in a numeric"
    " suffix, and the pods of tasks do not meet this requirement: use a template instead of tasks,"
    " or another runtime"
)
TASK_RUNTIMES: Final = (Runtime.DITASK, Runtime.TORCH)
TASK_RUNTIME_MESSAGE: Final = (
    "must be ditask or torch, because the other runtimes need identical pods in the whole job"
)
ONE_WORLD_MESSAGE: Final = (
    "makes all ranks of the job one world, so a task cannot have its own runtime: remove"
    " spec.runtime, and set runtime: torch in the tasks that train together"
)
GROUP_PATTERN: Final = "([A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?)?"
GROUP_MESSAGE: Final = f"becomes a label of the pods, so it must match {GROUP_PATTERN}"
# The format is that of a Job's spec.managedBy: a DNS name, a slash, and a URL path.
_LABEL: Final = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
MANAGER_PATTERN: Final = rf"{_LABEL}([.]{_LABEL})*/[-A-Za-z0-9/._~%!$&()*+,;=:]+"
MANAGER_MESSAGE: Final = (
    "must be a domain and a path, such as kueue.x-k8s.io/multikueue: correct it, or remove the"
    " field if this operator should manage the job"
)
OWN_GROUP_MESSAGE: Final = (
    "is set, but with the engine {} the operator itself creates a group for the pods: remove this"
    " field, or use spec.scheduling.engine: None"
)
OWN_MARK_MESSAGE: Final = (
    "puts the pods into a group of your own, but with the engine {} the operator puts them into"
    " the job's group: remove this label or annotation, or use spec.scheduling.engine: None"
)
QUEUE_PATTERN: Final = "[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?"
QUEUE_MESSAGE: Final = f"is the name of a queue, so it must match {QUEUE_PATTERN}"
PREFERRED_MESSAGE: Final = (
    "is Preferred, but the engine Native supports only Required (it waits until one topology domain"
    " has enough capacity for all ranks): use Required, or remove spec.scheduling.topology"
)
STALL_POLICY_MESSAGE: Final = (
    "needs stallSeconds, the time without progress after which the policy applies: add"
    " stallSeconds, or remove stallPolicy"
)
STALL_LAUNCHER_MESSAGE: Final = (
    "needs the launcher, which reports the progress of the programs to the operator: remove"
    " `launcher: Off`, or remove stallSeconds"
)
STALL_LIMIT_MESSAGE: Final = (
    "is Restart, but backoffLimit is 0, and a restart after a stall counts against it: use Report,"
    " or raise backoffLimit"
)
# The longest peer list, in characters. It must fit into a pod's annotations (256 KiB in total)
# twice, or three times if the job has tasks. It must also fit once into an environment string (128
# KiB).
LIST_LENGTH: Final = 100_000
TASKS_LIST_LENGTH: Final = 75_000


def job_problems(job: DIJob) -> tuple[Problem, ...]:
    """Return all reasons why the job cannot run as written."""
    spec = job.spec
    # If the job has both tasks and a template, or neither, the other rules would report only
    # consequences of this mistake.
    if (spec.tasks is None) == (spec.template is None):
        return (Problem("spec", ONE_SHAPE_MESSAGE if spec.tasks else NO_SHAPE_MESSAGE),)
    found = [
        *_name_problems(job),
        *_size_problems(spec, served=bool(job.metadata.uid)),
        *_task_problems(job),
        *_list_size_problems(job),
        *_runtime_problems(spec),
        *_queue_problems(spec),
        *_group_problems(spec),
        *_manager_problems(spec),
        *_scheduling_problems(job),
        *_budget_problems(spec),
        *_volume_problems(spec),
        *_policy_problems(job),
        *_stall_problems(spec),
        *_setting_conflicts(job),
        # A job that has started gets a warning instead (warnings.py).
        *(() if job.status.start_time else later_problems(job)),
    ]
    for pod_set in job.pod_sets:
        wrong = list(template_problems(pod_set, spec))
        # The command is compared with the spec only if the containers are valid, because otherwise
        # it may be the command of the wrong container.
        if not any(
            problem.field.startswith(f"{pod_set.path}.spec.containers") for problem in wrong
        ):
            wrong += command_problems(pod_set, spec)
        found += wrong
    return tuple(found)


def _name_problems(job: DIJob) -> Iterator[Problem]:
    name = job.metadata.name
    if not job_names.is_allowed(name):
        near = job_names.nearest_allowed(name)
        such = f", such as {near}" if near else ""
        yield Problem("metadata.name", f"{name!r} {job_names.NAME_MESSAGE}{such}")


def _size_problems(spec: Spec, *, served: bool) -> Iterator[Problem]:
    least, most, wish = spec.min_replicas, spec.max_replicas, spec.replicas
    if spec.tasks:
        for field, value in (("minReplicas", least), ("maxReplicas", most)):
            if value is not None:
                yield Problem(f"spec.{field}", TASKS_BOUNDS_MESSAGE)
        # In the cluster, `replicas` may be out of bounds, because the bounds can change later.
        # `scale` then returns a size within the bounds.
        if wish not in (None, spec.scale) and not served:
            yield Problem("spec.replicas", f"is {wish}, but {SCALE_MESSAGE}")
        yield from _task_size_problems(spec.tasks)
        if spec.desired > names.MAX_REPLICAS:
            yield Problem(
                "spec.tasks",
                f"have {spec.desired} replicas in total; the maximum is {names.MAX_REPLICAS}",
            )
        return
    if least is None and most is None and wish is None:
        yield Problem("spec", NO_SIZE_MESSAGE)
    if least is not None and most is not None and least > most:
        yield Problem(
            "spec.minReplicas", f"is {least}, but maxReplicas is {most}: change one of them"
        )
        # `replicas` is not checked in this case, because no value could satisfy both bounds.
        return
    if wish is not None and least is not None and wish < least:
        yield Problem(
            "spec.replicas", f"is {wish}, but minReplicas is {least}: change both in the same edit"
        )
    if wish is not None and most is not None and wish > most:
        yield Problem(
            "spec.replicas", f"is {wish}, but maxReplicas is {most}: change both in the same edit"
        )


def _task_size_problems(tasks: tuple[Task, ...]) -> Iterator[Problem]:
    for at, task in enumerate(tasks):
        place, least, most = f"spec.tasks[{at}]", task.min_replicas, task.max_replicas
        if task is not tasks[-1]:
            for field, value in (("minReplicas", least), ("maxReplicas", most)):
                if value is not None:
                    yield Problem(f"{place}.{field}", LAST_TASK_MESSAGE)
        elif least is not None and most is not None and least > most:
            yield Problem(f"{place}.minReplicas", f"is {least}: {TASK_BOUNDS_MESSAGE}")
        elif not (least or 1) <= task.replicas <= (most or names.MAX_REPLICAS):
            yield Problem(f"{place}.replicas", f"is {task.replicas}: {TASK_SIZE_MESSAGE}")


def _task_problems(job: DIJob) -> Iterator[Problem]:
    """Yield problems with the names and types of tasks.

    DI-orchestrator 1.1 has the same rules for types (pkg/utils/validator.go).
    """
    tasks, seen, types = job.spec.tasks or (), set[str](), set[TaskType]()
    for at, task in enumerate(tasks):
        # An autoscaler does not know how long the pods' names will be. If an autoscaler makes a
        # running job too large, the API server rejects the pods whose names are too long, and the
        # other ranks keep running.
        size = task.replicas if job.status.desired else job.pod_sets[at].replicas
        largest = max(size, task.max_replicas or 1)
        place, name = f"spec.tasks[{at}]", task.name or task.type.value
        if not task.name and task.type is TaskType.NONE:
            yield Problem(f"{place}.name", NO_TASK_NAME_MESSAGE)
        elif name in seen:
            yield Problem(f"{place}.name", f"is {name!r}: {TASK_TWICE_MESSAGE}")
        elif not re.fullmatch(TASK_NAME_PATTERN, name):
            yield Problem(f"{place}.name", f"{name!r} {TASK_NAME_MESSAGE}")
        elif len(name) > (room := job_names.room_for_task(job.metadata.name, largest)):
            most = max(0, room)
            yield Problem(
                f"{place}.name",
                f"has {len(name)} characters, but there is room for only {most}:"
                f" {job_names.TASK_LENGTH_MESSAGE}",
            )
        # The only name that this rule rejects is num. The variable with the addresses of such a
        # task would be DI_NUM_NODES, but DI_NUM_NODES already contains the number of ranks.
        if names.nodes_variable(name) in names.RESERVED_ENV:
            yield Problem(f"{place}.name", NUM_MESSAGE)
        if task.type in types and task.type is not TaskType.NONE:
            yield Problem(f"{place}.type", f"is {task.type}: {TYPE_TWICE_MESSAGE}")
        seen.add(name)
        types.add(task.type)


def _list_size_problems(job: DIJob) -> Iterator[Problem]:
    """Yield a problem if a peer list of names does not fit into a pod.

    A list of 1,500 IPs always fits, but a list of 1,500 names of the maximum length does not.
    """
    size, room = job.spec.maximum, TASKS_LIST_LENGTH if job.spec.tasks else LIST_LENGTH
    task = max(
        (f"-{pod_set.name}" for pod_set in job.pod_sets if pod_set.name), key=len, default=""
    )
    each = len(f"{job.metadata.name}{task}-{size - 1}.{job.metadata.name},")
    if job.addressing is Addressing.HOSTNAME and size * each > room:
        most, named = room // each, job.spec.runtime.traits.requires_hostnames
        needs = f"{job.spec.runtime}, which needs names"
        value, remedy = (needs, "another runtime") if named else ("Hostname", "addressing: IP")
        yield Problem(
            "spec.runtime" if named else "spec.addressing",
            f"is {value}, but a peer list of {size} names with {each} characters each does not fit"
            f" into a pod: with this job name, at most {most} replicas fit; reduce the replicas,"
            f" shorten the name, or use {remedy}",
        )


def _runtime_problems(spec: Spec) -> Iterator[Problem]:
    if spec.runtime.traits.homogeneous and spec.tasks:
        yield Problem("spec.runtime", f"is {spec.runtime}: {HOMOGENEOUS_MESSAGE}")
        return
    for at, task in enumerate(spec.tasks or ()):
        if task.runtime is None:
            continue
        if task.runtime not in TASK_RUNTIMES:
            message = f"is {task.runtime}: it {TASK_RUNTIME_MESSAGE}"
            yield Problem(f"spec.tasks[{at}].runtime", message)
        elif spec.runtime is not Runtime.DITASK:
            message = f"is set, but spec.runtime: {spec.runtime} {ONE_WORLD_MESSAGE}"
            yield Problem(f"spec.tasks[{at}].runtime", message)


def _queue_problems(spec: Spec) -> Iterator[Problem]:
    queue = spec.message_queue or MessageQueue()
    if queue.type is not Queue.REDIS and queue.host:
        yield Problem("spec.messageQueue.host", HOST_MESSAGE)


def _setting_conflicts(job: DIJob) -> Iterator[Problem]:
    """Yield a problem if two sources have different values for a setting that all ranks share.

    All tasks form one world. So if no field of the spec sets the value, all commands must have the
    same value.
    """
    for field, option in (("parallel_workers", "--parallel-workers"), ("topology", "--topology")):
        here, below = job.spec.explicit(field), getattr(job.spec.engine_fields, field, None)
        if below is not None and here != below:
            alias = job.spec.place(field).removeprefix("spec.")
            yield Problem(
                f"spec.engineFields.{alias}",
                f"is {below}, but spec.{alias} is {here}: remove one of the two",
            )
        given = {
            value: pod_set
            for pod_set in job.pod_sets
            if (value := getattr(pod_set.command, field)) is not None
        }
        if job.spec.explicit(field) is None and len(given) > 1:
            options = " and ".join(
                f"{option} {value} in task {pod_set.name}" for value, pod_set in given.items()
            )
            yield Problem(
                job.spec.place(field),
                f"the commands have {options}, but all ranks must use the same value: make them"
                " equal",
            )


def _group_problems(spec: Spec) -> Iterator[Problem]:
    # Without this check, the apiserver would reject an invalid label later, when the operator
    # creates the pods.
    if not re.fullmatch(GROUP_PATTERN, spec.group):
        yield Problem("spec.group", f"{spec.group!r} {GROUP_MESSAGE}")


def _manager_problems(spec: Spec) -> Iterator[Problem]:
    if spec.managed_by is not None and not re.fullmatch(MANAGER_PATTERN, spec.managed_by):
        yield Problem("spec.managedBy", f"{spec.managed_by!r} {MANAGER_MESSAGE}")


def _scheduling_problems(job: DIJob) -> Iterator[Problem]:
    given, most = job.spec.scheduling, job.spec.maximum
    if given.min_available is not None and given.min_available > most:
        yield Problem(
            "spec.scheduling.minAvailable",
            f"is {given.min_available}, but the job has at most {most} ranks: change one of them",
        )
    if given.queue is not None and not re.fullmatch(QUEUE_PATTERN, given.queue):
        yield Problem("spec.scheduling.queue", f"{given.queue!r} {QUEUE_MESSAGE}")
    if given.engine is None:
        return
    yield from unsupported_fields(job, given.engine)
    for pod_set in job.pod_sets:
        groups = given.engine not in (Engine.NONE, Engine.KUEUE)
        if groups and pod_set.pod.get("schedulingGroup"):
            message = OWN_GROUP_MESSAGE.format(given.engine)
            yield Problem(f"{pod_set.path}.spec.schedulingGroup", message)
        for key in given.engine.traits.own_group:
            if key in pod_set.own_groups:
                message = OWN_MARK_MESSAGE.format(given.engine)
                yield Problem(f"{pod_set.path}.metadata", f"{key} {message}")


def unsupported_fields(job: DIJob, engine: Engine) -> Iterator[Problem]:
    """Yield the fields of spec.scheduling that an engine does not use. The engine is the job's own,
    or the operator's default.
    """
    given, traits = job.spec.scheduling, engine.traits
    if given.queue and not traits.queue:
        others = ", ".join(one for one in Engine if one.traits.queue)
        yield Problem(
            "spec.scheduling.queue",
            f"is {given.queue}, but the engine {engine} does not use this field: remove it, or use"
            f" one of the engines {others}",
        )
    if not given.topology or given.topology.mode in traits.topology:
        return
    if traits.topology:
        yield Problem("spec.scheduling.topology.mode", PREFERRED_MESSAGE)
        return
    others = ", ".join(
        one
        for one in Engine
        if one is not Engine.NONE and given.topology.mode in one.traits.topology
    )
    yield Problem(
        "spec.scheduling.topology",
        f"is set, but the engine {engine} does not use this field: remove it, or use one of the"
        f" engines {others}",
    )


def _budget_problems(spec: Spec) -> Iterator[Problem]:
    if spec.tasks and spec.disruption_budget:
        yield Problem("spec.disruptionBudget", TASKS_BUDGET_MESSAGE)


def _stall_problems(spec: Spec) -> Iterator[Problem]:
    if spec.stall_policy is not None and spec.stall_seconds is None:
        yield Problem("spec.stallPolicy", STALL_POLICY_MESSAGE)
    if spec.stall_seconds is not None and spec.launcher is Launcher.OFF:
        yield Problem("spec.stallSeconds", STALL_LAUNCHER_MESSAGE)
    if spec.stall_policy is StallPolicy.RESTART and not spec.backoff_limit:
        yield Problem("spec.stallPolicy", STALL_LIMIT_MESSAGE)


def _volume_problems(spec: Spec) -> Iterator[Problem]:
    # Without this check, the apiserver would reject invalid volumes later, when the operator
    # creates the pods.
    seen = set[str]()
    for at, volume in enumerate(spec.volumes or ()):
        name = volume.get("name")
        if not isinstance(name, str) or not name:
            yield Problem(
                f"spec.volumes[{at}].name",
                "is missing or not a string: name the volume, so that containers can mount it",
            )
        elif name in OWN_VOLUMES:
            yield Problem(f"spec.volumes[{at}].name", f"{name} {OWN_NAME_MESSAGE}")
        elif name in seen:
            yield Problem(
                f"spec.volumes[{at}].name", f"{name} is used twice: rename or remove one volume"
            )
        seen.add(str(name))


def _policy_problems(job: DIJob) -> Iterator[Problem]:
    """Yield problems with tasks, conditions and exit codes in the policies.

    A rule that never matches would otherwise go unnoticed until a rank fails.
    """
    known = [pod_set.name for pod_set in job.pod_sets if pod_set.name]
    policy = job.spec.success_policy
    if policy not in (names.ALL_REPLICAS, names.RANK_0, *known):
        allowed = ", ".join((names.ALL_REPLICAS, names.RANK_0, *known))
        yield Problem(
            "spec.successPolicy",
            f"is {policy!r}, which is not a task of this job; it must be one of {allowed}",
        )
    for at, rule in enumerate(job.spec.failure_policy.rules):
        place = f"spec.failurePolicy.rules[{at}]"
        if rule.task and rule.task not in known:
            yield Problem(
                f"{place}.task",
                f"is {rule.task!r}, which is not a task of this job ({', '.join(known) or 'none'})",
            )
        for number, condition in enumerate(rule.on_pod_conditions or ()):
            if condition.type in names.ORDINARY_CONDITIONS:
                yield Problem(
                    f"{place}.onPodConditions[{number}].type",
                    f"{condition.type} {ORDINARY_MESSAGE}",
                )
        # The pod sets to which the rule applies.
        meant = [pod_set for pod_set in job.pod_sets if rule.task in ("", pod_set.name)]
        if rule.on_exit_codes and any(
            pod_set.pod.get("restartPolicy") != "Never" for pod_set in meant
        ):
            yield Problem(f"{place}.onExitCodes", EXIT_CODE_MESSAGE)
