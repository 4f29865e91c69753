"""The DIJobs of all tests, as users write them: no code is shared with the operator."""

from typing import Any

Body = dict[str, Any]

GROUP = "diengine.opendilab.org"
API_VERSION = f"{GROUP}/v2alpha1"
CRD = f"dijobs.{GROUP}"
MAIN = "di-container"


def dijob(name: str, main: Body, pod: Body | None = None, **spec: Any) -> Body:
    """A DIJob. `main` goes into its main container, `pod` into the pod's spec, the rest into its
    own.
    """
    template = {"spec": {"containers": [{"name": MAIN, **main}], **(pod or {})}}
    return {
        "apiVersion": API_VERSION,
        "kind": "DIJob",
        "metadata": {"name": name},
        "spec": {"template": template, **spec},
    }
