"""The priority class of a job's pods."""

from collections.abc import Mapping
from typing import Any

from dijob.api.model import DIJob
from dijob.core.options import Options


def priority_class(spec: Mapping[str, Any], job: DIJob, options: Options) -> str:
    """Return the priority class of a pod with this spec; "" means none. The template's own class
    takes precedence. Otherwise, it is the class for spec.priority, unless the template sets a
    priority. (The API server treats `priority: null` as absent, and so does this function.)
    """
    if own := spec.get("priorityClassName"):
        return str(own)
    named = options.priority_classes.get(job.spec.priority.value, "")
    return named if spec.get("priority") is None else ""
