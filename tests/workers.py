"""Names for what several of xdist's workers have at a time."""

import os


def own(name: str) -> str:
    """The name, with the worker's behind it where there are workers: each has a cluster of its
    own.
    """
    return "-".join([name, *filter(None, [os.environ.get("PYTEST_XDIST_WORKER")])])
