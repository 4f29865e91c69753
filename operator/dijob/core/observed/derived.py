"""Fingerprints of the annotations on a pod that are derived from its peer list.

The operator compares them to find pods whose annotations somebody has edited. A fingerprint is kept
instead of the value, because topology.json alone is 40 KB in a job with 1,500 ranks.
"""

import hashlib
from collections.abc import Mapping
from functools import lru_cache

from dijob import names

# Prefixes of the keys of the annotations that are derived from a peer list.
MADE_OF_LIST = (
    names.ANNOTATION_LIST_NUMBER,
    names.ANNOTATION_NUM_NODES,
    names.ANNOTATION_WORLD_SIZE,
    names.ANNOTATION_TOPOLOGY,
    names.ANNOTATION_TASK_NODES,
    *{annotation for runtime in names.Runtime for annotation in runtime.traits.annotations},
)


def list_fingerprints(annotations: Mapping[str, str]) -> frozenset[tuple[str, str]]:
    """Return the fingerprints of the annotations that are derived from a peer list: pairs of a key
    and a hash of its value.
    """
    return fingerprints_of(
        tuple(
            sorted(
                (key, value) for key, value in annotations.items() if key.startswith(MADE_OF_LIST)
            )
        )
    )


@lru_cache(maxsize=256)
def fingerprints_of(annotations: tuple[tuple[str, str], ...]) -> frozenset[tuple[str, str]]:
    """Return the fingerprints. The result is cached, because topology.json is the same on each of
    up to 1,500 pods.
    """
    return frozenset(
        (key, hashlib.blake2b(value.encode(), digest_size=8).hexdigest())
        for key, value in annotations
    )
