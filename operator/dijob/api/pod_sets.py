"""The pod sets of a job: one for its template, or one for each of its tasks.

Most code works on ranks and does not distinguish the two forms of a job. This module converts both
forms into pod sets.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from typing import Any

from dijob import names
from dijob.api.command import Command
from dijob.api.numbers import parse_natural
from dijob.api.parts import Template
from dijob.api.spec import Spec
from dijob.names import Engine, Runtime, TaskType


@dataclass(frozen=True)
class PodSet:
    """Pods that are created from one template (the term is Kueue's).

    `path` is the template's path in the job, and `first` is the lowest rank. `name` is the name of
    the task, or "" if the job has no tasks. If `own_runtime` is set (from tasks[].runtime), the
    pods form their own world of that runtime, separate from the job's other pods.
    """

    path: str
    template: Template
    replicas: int
    first: int = 0
    name: str = ""
    type: TaskType = TaskType.NONE
    own_runtime: Runtime | None = None

    @property
    def pod(self) -> Mapping[str, Any]:
        """The pod's spec as the user wrote it, without validation."""
        return self.template.spec or {}

    @cached_property
    def main_container(self) -> Mapping[str, Any]:
        """The container that runs the job: the one named di-container, else the first, else {}."""
        # The name is DI-orchestrator's convention. A template with one container does not need it.
        found = containers_in(self.pod) or [{}]
        return next((one for one in found if one.get("name") == names.MAIN_CONTAINER), found[0])

    @property
    def main_path(self) -> str:
        """The path of the main container, such as `spec.template.spec.containers[0]`."""
        # The index counts every entry, including those of a wrong type, because it refers to the
        # user's file.
        given = self.pod.get("containers")
        found = enumerate(given if isinstance(given, list) else ())
        at = next((at for at, one in found if one is self.main_container), 0)
        return f"{self.path}.spec.containers[{at}]"

    @cached_property
    def own_groups(self) -> tuple[str, ...]:
        """The labels and annotations in the user's template that put the pods into a group of a
        scheduler other than kube-scheduler.
        """
        meta = self.template.metadata
        given = {**(meta.labels or {}), **(meta.annotations or {})}
        known = (key for engine in Engine for key in engine.traits.own_group)
        return tuple(key for key in known if key in given)

    @property
    def has_command(self) -> bool:
        """Whether the main container has a command. Otherwise the image's entry point runs."""
        command = self.main_container.get("command")
        return isinstance(command, list) and bool(command)

    @property
    def gpus(self) -> int:
        """The number of GPUs of the main container, from limits such as nvidia.com/gpu."""
        # Kubernetes rejects a container that has GPUs only in its requests.
        resources = self.main_container.get("resources")
        limits = resources.get("limits") if isinstance(resources, Mapping) else None
        given = (limits or {}).items() if isinstance(limits, Mapping) else ()
        return sum(
            parse_natural(str(count)) or 0 for name, count in given if str(name).endswith("/gpu")
        )

    @cached_property
    def command(self) -> Command:
        """The facts that can be read from the main container's command line."""
        return Command.of(self.main_container)


def pod_sets(spec: Spec) -> tuple[PodSet, ...]:
    """Return the pod sets of a spec in rank order."""
    if not spec.tasks:
        return (PodSet("spec.template", spec.template or Template(), spec.desired),)
    sizes = [*(task.replicas for task in spec.tasks[:-1]), spec.scale]
    firsts = accumulate(sizes, initial=0)
    return tuple(
        PodSet(
            f"spec.tasks[{at}].template",
            task.template,
            sizes[at],
            first=first,
            name=task.name or task.type.value,
            type=task.type,
            own_runtime=None if task.runtime is Runtime.DITASK else task.runtime,
        )
        for at, (task, first) in enumerate(zip(spec.tasks, firsts, strict=False))
    )


def containers_in(
    spec: Mapping[str, Any] | None, key: str = "containers"
) -> list[Mapping[str, Any]]:
    """Return the containers (or initContainers) of a raw pod spec.

    The spec has not been validated by the apiserver yet, so entries of the wrong type are left out.
    The apiserver rejects them when the pod is created.
    """
    return entries_at(spec or {}, key)


def entries_at(part: Mapping[str, Any], key: str) -> list[Mapping[str, Any]]:
    """Return the objects in the list at this key, or [] if there is no list."""
    value = part.get(key)
    return [one for one in value if isinstance(one, Mapping)] if isinstance(value, list) else []
