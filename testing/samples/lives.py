"""How a kubelet reports a pod that ends, and how the operator parses it."""

from typing import Any

from dijob import names
from dijob.api.model import DIJob
from dijob.core.observed import parse
from dijob.core.observed.views import Pod

from samples.builders import Body, container, job, pod_body
from samples.statuses import main_status, terminated

MESH: Body = {"name": "proxy", "image": "p", "restartPolicy": "Always"}
INIT: Body = {"name": "init", "image": "i"}
SIDE: Body = {"name": "side", "image": "s"}


def status(*main: Body, init: tuple[Body, ...] = (), **fields: Any) -> Body:
    return {
        "phase": "Running",
        **fields,
        "containerStatuses": list(main),
        "initContainerStatuses": list(init),
    }


def disruption(reason: str) -> Body:
    return {"conditions": [{"type": "DisruptionTarget", "status": "True", "reason": reason}]}


def failed(code: int, reason: str = "", message: str = "", **fields: Any) -> Body:
    """Return the last status of a pod whose main container ended with `code`."""
    why: Body = {"reason": reason, "message": message} if reason else {}
    return status(main_status(state=terminated(code)), phase="Failed", **why, **fields)


TOO_MUCH = {
    "pod": "Pod ephemeral local storage usage exceeds the total limit of containers 1Gi. ",
    "container": 'Container di-container exceeded its local ephemeral storage limit "1Gi". ',
    "emptyDir": 'Usage of EmptyDir volume "scratch" exceeds the limit "1Gi". ',
}
LOW = "The node was low on resource: memory. Threshold quantity: 100Mi, available: 10Mi. "


def owner(policy: str) -> DIJob:
    return job(
        {"containers": [container(), SIDE], "initContainers": [INIT, MESH], "restartPolicy": policy}
    )


def seen(policy: str, shown: Body) -> Pod:
    """Return the parsed pod of a job with a peer list. Its address is still reported."""
    body = pod_body(1, owner(policy), **{"podIP": "10.0.0.1", **shown})
    body["metadata"]["annotations"] |= {
        names.ANNOTATION_IPS: "10.0.0.0,10.0.0.1,10.0.0.2",
        names.ANNOTATION_LIST_NUMBER: "1",
    }
    return parse.parse_pod(body)
