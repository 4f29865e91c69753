"""The annotations of a pod that follow from its address list, by their fingerprints."""

import hashlib
from collections.abc import Mapping
from functools import lru_cache

from dijob import names

# What the keys of the annotations begin with that are made of a list, besides the list itself.
MADE_OF_LIST = (
    names.ANNOTATION_LIST_NUMBER,
    names.ANNOTATION_NUM_NODES,
    names.ANNOTATION_WORLD_SIZE,
    names.ANNOTATION_TOPOLOGY,
    names.ANNOTATION_TASK_NODES,
    *{annotation for runtime in names.Runtime for annotation in runtime.traits.annotations},
)


def list_fingerprints(annotations: Mapping[str, str]) -> frozenset[tuple[str, str]]:
    """Fingerprints of those annotations that are made of a list: keys, each with a hash of its
    value.
    """
    return fingerprints(
        tuple(
            sorted(
                (key, value) for key, value in annotations.items() if key.startswith(MADE_OF_LIST)
            )
        )
    )


@lru_cache(maxsize=256)
def fingerprints(annotations: tuple[tuple[str, str], ...]) -> frozenset[tuple[str, str]]:
    """Remembered: topology.json of 1,500 ranks has 40 KB, and stands on each of 1,500 pods."""
    return frozenset(
        (key, hashlib.blake2b(value.encode(), digest_size=8).hexdigest())
        for key, value in annotations
    )
