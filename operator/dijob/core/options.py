"""What the operator was started with."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from dijob.api.model import DIJob
from dijob.api.problems import Problem
from dijob.names import Priority

# The last line of Redis under the BSD licence.
REDIS_IMAGE = "redis:7.2-alpine"


@dataclass(frozen=True)
class Options:
    """What the operator was started with.

    `gate_image` serves images that have no sh; "" is the user's own image. `cluster_domain` ends
    the names of services. `priority_classes` are the names of the priority classes that
    spec.priority stands for; one that is missing, or "", is none. `redis_image` has a redis-server
    in its PATH, and `redis_resources` are those of its container.
    """

    gate_image: str = ""
    cluster_domain: str = "cluster.local"
    priority_classes: Mapping[str, str] = field(default_factory=dict)
    redis_image: str = REDIS_IMAGE
    redis_resources: Mapping[str, Any] = field(default_factory=dict)


def notes(job: DIJob, options: Options) -> tuple[Problem, ...]:
    """Problems of the job with the operator's settings: a priority without a class."""
    priority = job.spec.priority
    if priority is Priority.NORMAL or options.priority_classes.get(priority.value):
        return ()
    said = (
        f"is {priority}, and the operator knows no priority class for it, so the pods have none:"
        " set the chart's value"
    )
    return (
        Problem(
            "spec.priority",
            f"{said} priorityClasses.{priority}, or priorityClassName in the template",
        ),
    )
