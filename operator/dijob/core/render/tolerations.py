"""Sets how long a pod stays on a lost node before Kubernetes evicts it (docs/decisions/041)."""

from dijob import names
from dijob.api.model import DIJob
from dijob.core.options import Options
from dijob.core.render.fields import Manifest, extend_list, objects_in


def limit_toleration(spec: Manifest, job: DIJob, options: Options) -> None:
    """Limit how long the pod tolerates a lost node, unless its template does.

    Without these tolerations, the API server adds 300 s for each taint (admission plugin
    DefaultTolerationSeconds, which checks the template in the same way).
    """
    own = job.spec.lost_node_seconds
    seconds = options.lost_node_seconds if own is None else own
    given = objects_in(spec.get("tolerations"))
    bounded = {
        one.get("key") or "" for one in given if (one.get("effect") or "NoExecute") == "NoExecute"
    }
    ours = (
        {
            "key": taint,
            "operator": "Exists",
            "effect": "NoExecute",
            "tolerationSeconds": seconds,
        }
        for taint in (names.TAINT_NOT_READY, names.TAINT_UNREACHABLE)
        if not bounded & {taint, ""}
    )
    spec["tolerations"] = extend_list(spec.get("tolerations"), *ours)
