"""How long a pod stays on a node that is lost (docs/decisions/041)."""

from dijob import names
from dijob.api.model import DIJob
from dijob.core.options import Options
from dijob.core.render.fields import Manifest, more, objects


def fit(spec: Manifest, job: DIJob, options: Options) -> None:
    """Bound the time that the pod tolerates a lost node, if its template does not.

    Without these, the API server adds 300 s for each (the admission plugin
    DefaultTolerationSeconds, whose test of what the template has is the same).
    """
    own = job.spec.lost_node_seconds
    seconds = options.lost_node_seconds if own is None else own
    given = objects(spec.get("tolerations"))
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
    spec["tolerations"] = more(spec.get("tolerations"), *ours)
