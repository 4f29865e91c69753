"""What is known about the capacity of the cluster, and who waits for it."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Room:
    """What is known about the capacity of the cluster.

    `released` are the names of pods that were deleted to free a node for a lower rank (from the
    operator's memory). `contended`: pods of this job and of other jobs wait for a node.
    `foreign_pods`: pods that belong to no job wait for one.
    """

    released: frozenset[str] = frozenset()
    contended: bool = False
    foreign_pods: bool = False

    @property
    def wanted(self) -> bool:
        """Whether other pods could use the capacity that a job releases."""
        return self.contended or self.foreign_pods
