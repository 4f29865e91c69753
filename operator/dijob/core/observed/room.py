"""Who waits for room."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Room:
    """What is known of the room that the scheduler has.

    `released` are the names of pods that were deleted so that a lower rank finds a node (from the
    operator's memory). `contended`: pods of this job seek a node, and of other jobs too.
    `strangers`: pods that belong to no job seek one.
    """

    released: frozenset[str] = frozenset()
    contended: bool = False
    strangers: bool = False

    @property
    def wanted(self) -> bool:
        """Whether room that a job gives back is of use to others."""
        return self.contended or self.strangers
