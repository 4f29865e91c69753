"""Advice for rejected pods whose API error is misleading: it names containers that the operator has
added, so the author of the job cannot find them in the template.
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
    """Return the API error about the pod of a rank, preceded by advice if it names a container of
    the operator.
    """
    return f"{FOLLOW}: {message}" if OURS.search(message) else message


def about_redis(message: str) -> str:
    """Return the API error about the pod of the job's Redis server, preceded by advice if it is
    about resources, which no field of the job sets.
    """
    return f"{REDIS}: {message}" if RESOURCES.search(message) else message
