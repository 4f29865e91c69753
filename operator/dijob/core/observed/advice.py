"""What to do about a rejected pod if the API error leads to the wrong place: it names containers
that the author of the job has not written.
"""

import re

from dijob import names

OURS = re.compile(rf"\b(?:{names.LAUNCHER_CONTAINER}|{names.GATE_CONTAINER})\b")
FOLLOW = (
    f"set it for the main container: {names.GATE_CONTAINER} and {names.LAUNCHER_CONTAINER} copy its"
    " resources and securityContext"
)
# The wording of quotas and limit ranges.
RESOURCES = re.compile(r"\bquota\b|\b(?:usage|ratio) per \b")
REDIS = (
    "ask an administrator to set the chart value redis.resources, or set messageQueue.host to a"
    " server of your own"
)


def about_rank(message: str) -> str:
    """The API error about the pod of a rank, after what to do if it names the operator's
    containers.
    """
    return f"{FOLLOW}: {message}" if OURS.search(message) else message


def about_redis(message: str) -> str:
    """The API error about the pod of the job's Redis server, after what to do about resources that
    no field of the job sets.
    """
    return f"{REDIS}: {message}" if RESOURCES.search(message) else message
