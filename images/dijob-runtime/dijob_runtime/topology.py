"""Determines which process connects to which. The rule is the same as in
operator/dijob/topology.py, which names the rule's source. The operator's module cannot be used
here, because this package runs in the user's image with Python 3.7.
"""

from __future__ import annotations


def connects_to(topology: str, position: int) -> range:
    """Return the positions (ranks, or processes of a pod) to which this position connects."""
    return range({"mesh": position, "star": min(position, 1)}.get(topology, 0))


def are_connected(topology: str, one: int, other: int) -> bool:
    """Return whether one of two positions connects to the other."""
    return one in connects_to(topology, other) or other in connects_to(topology, one)
