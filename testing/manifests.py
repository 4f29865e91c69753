"""DIJobs for all tests, built as users write them, without the operator's code."""

from typing import Any

Body = dict[str, Any]

GROUP = "diengine.opendilab.org"
API_VERSION = f"{GROUP}/v2alpha1"
CRD = f"dijobs.{GROUP}"
MAIN = "di-container"


def dijob(name: str, main: Body, pod: Body | None = None, **spec: Any) -> Body:
    """Return a DIJob. `main` is merged into the main container, `pod` into the pod spec, and `spec`
    into the job's spec.
    """
    template = {"spec": {"containers": [{"name": MAIN, **main}], **(pod or {})}}
    return {
        "apiVersion": API_VERSION,
        "kind": "DIJob",
        "metadata": {"name": name},
        "spec": {"template": template, **spec},
    }
