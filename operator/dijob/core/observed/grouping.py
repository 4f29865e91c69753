"""Messages about several ranks: each cause once, and short enough for a condition.

A message that is too long is cut in its causes, which the pods' own status has in full. The ranks
are nowhere else, so none of them is cut off.
"""

from collections.abc import Callable, Iterable

from dijob.api.printed import one_line
from dijob.core.members import Gang, say
from dijob.core.observed.refusals import renamed

MESSAGE_LIMIT = 1024
# What a condition may say besides the ranks and their causes.
REST_LIMIT = 200
# Fewer characters of a cause tell nothing. This many, with the ranks before them, are at least
# needed for each cause.
LEAST_CAUSE = 24
LEAST_GROUP = LEAST_CAUSE + len("rank 0: ; ")
# A longer list of single ranks is given by its ends.
RANKS_LIMIT = 160
MORE_CAUSES = "for other reasons"

Groups = list[tuple[list[int], str]]


def shorten(text: str, limit: int = MESSAGE_LIMIT) -> str:
    """Return a message for a status or an event: one safe line of at most `limit` characters, which
    ends with " ..." if it was cut.
    """
    text = one_line(text)
    return text if len(text) <= limit else text[: limit - 4] + " ..."


def grouped(gang: Gang, ranks: Iterable[int], why: Callable[[int], str]) -> str:
    """Return each cause once, in the words of the first rank that has it: the same words about pods
    of different names are one cause. All ranks are named.
    """
    causes: dict[str, tuple[list[int], str]] = {}
    for rank in ranks:
        cause = why(rank)
        nameless = renamed(cause, gang.member(rank).name, "") if gang.job in cause else cause
        causes.setdefault(nameless, ([], cause))[0].append(rank)
    limit = MESSAGE_LIMIT - REST_LIMIT
    return _joined(_fitting(_few(list(causes.values()), limit), limit))


def _few(groups: Groups, limit: int) -> Groups:
    """The groups, the last ones as one group if there is no room for the words of all."""
    for most in range(min(len(groups), limit // LEAST_GROUP), 1, -1):
        found = _merged(groups, most)
        if _room(found, limit) >= most * LEAST_CAUSE:
            return found
    return groups


def _merged(groups: Groups, most: int) -> Groups:
    """At most so many groups: the last one has the ranks of all that are left."""
    if len(groups) <= most:
        return groups
    first, others = groups[: most - 1], groups[most - 1 :]
    return [*first, ([rank for ranks, _ in others for rank in ranks], MORE_CAUSES)]


def _fitting(groups: Groups, limit: int) -> Groups:
    """The groups with their causes cut to the room that is left by the ranks: the short ones stay
    whole, the others get the same share.
    """
    room, shares = _room(groups, limit), dict[int, int]()
    for at in sorted(range(len(groups)), key=lambda at: len(groups[at][1])):
        shares[at] = max(room // (len(groups) - len(shares)), LEAST_CAUSE)
        room -= min(len(groups[at][1]), shares[at])
    return [(ranks, shorten(cause, shares[at])) for at, (ranks, cause) in enumerate(groups)]


def _room(groups: Groups, limit: int) -> int:
    """How many characters the causes can have."""
    return limit - len(_joined([(ranks, "") for ranks, _ in groups]))


def _joined(groups: Groups) -> str:
    return "; ".join(f"{_named(ranks)}: {cause}" for ranks, cause in groups)


def _named(ranks: list[int]) -> str:
    named = say(ranks)
    if len(named) <= RANKS_LIMIT:
        return named
    return f"{len(ranks)} ranks from {min(ranks)} to {max(ranks)}"
