"""The size of a job. etcd stores at most about 1.5 MB for an object with its status."""

import json
from collections.abc import Mapping
from typing import Any, Final

# A job above this size may leave no room for a status. A status has at most some 100 KB.
LARGE_BYTES: Final = 1024 * 1024
TOO_LARGE_MESSAGE: Final = (
    "the job is too large: the API server cannot store its status next to the spec (a job with its"
    " status may have about 1.5 MB). Move long arguments and variables into a ConfigMap, mount it"
    " as a volume or use envFrom, and create the job again"
)


def size_of(body: Mapping[str, Any]) -> int:
    """Return the size of an object as JSON, in bytes."""
    return len(json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode())
