"""Builds messages about several ranks: each cause once, and short enough for a condition.

If a message is too long, its causes are shortened, because the status of the pods has them in full.
The ranks appear nowhere else, so they are never cut off.
"""

from collections.abc import Callable, Iterable

from dijob.api.printed import one_line
from dijob.core.members import Gang, format_ranks
from dijob.core.observed.rejections import replace_name

MESSAGE_LIMIT = 1024
# Space reserved for the part of a condition's message that is neither ranks nor causes.
REST_LIMIT = 200
# A cause is never cut to fewer characters than this, because a shorter text would explain nothing.
# LEAST_GROUP is the minimum length of a cause together with its ranks.
LEAST_CAUSE = 24
LEAST_GROUP = LEAST_CAUSE + len("rank 0: ; ")
# A list of ranks that is longer than this is replaced by the number of ranks, the lowest rank and
# the highest rank.
RANKS_LIMIT = 160
MORE_CAUSES = "for other reasons"

Groups = list[tuple[list[int], str]]


def shorten_message(text: str, limit: int = MESSAGE_LIMIT) -> str:
    """Return a message for a status or an event: one safe line of at most `limit` characters, which
    ends with " ..." if it was cut.
    """
    text = one_line(text)
    return text if len(text) <= limit else text[: limit - 4] + " ..."


def group_causes(gang: Gang, ranks: Iterable[int], why: Callable[[int], str]) -> str:
    """Return each cause once, with all its ranks. Messages that differ only in the pod's name count
    as one cause, for which the first rank's message is used.
    """
    causes: dict[str, tuple[list[int], str]] = {}
    for rank in ranks:
        cause = why(rank)
        nameless = replace_name(cause, gang.member(rank).name, "") if gang.job in cause else cause
        causes.setdefault(nameless, ([], cause))[0].append(rank)
    limit = MESSAGE_LIMIT - REST_LIMIT
    return _join_groups(_fit_causes(_limit_groups(list(causes.values()), limit), limit))


def _limit_groups(groups: Groups, limit: int) -> Groups:
    """Return the groups, with the last ones merged if there is no room for all causes."""
    for most in range(min(len(groups), limit // LEAST_GROUP), 1, -1):
        found = _merge_groups(groups, most)
        if _room_for_causes(found, limit) >= most * LEAST_CAUSE:
            return found
    return groups


def _merge_groups(groups: Groups, most: int) -> Groups:
    """Return at most `most` groups. The last one has the ranks of all remaining groups."""
    if len(groups) <= most:
        return groups
    first, others = groups[: most - 1], groups[most - 1 :]
    return [*first, ([rank for ranks, _ in others for rank in ranks], MORE_CAUSES)]


def _fit_causes(groups: Groups, limit: int) -> Groups:
    """Return the groups, with the causes shortened to fit into the space that remains after the
    ranks are named. Short causes stay complete, and the others share the remaining space equally.
    """
    room, shares = _room_for_causes(groups, limit), dict[int, int]()
    for at in sorted(range(len(groups)), key=lambda at: len(groups[at][1])):
        shares[at] = max(room // (len(groups) - len(shares)), LEAST_CAUSE)
        room -= min(len(groups[at][1]), shares[at])
    return [(ranks, shorten_message(cause, shares[at])) for at, (ranks, cause) in enumerate(groups)]


def _room_for_causes(groups: Groups, limit: int) -> int:
    """Return how many characters are left for the causes."""
    return limit - len(_join_groups(groups)) + sum(len(cause) for _, cause in groups)


def _join_groups(groups: Groups) -> str:
    return "; ".join(f"{_name_group(ranks, cause)}: {cause}" for ranks, cause in groups)


def _name_group(ranks: list[int], cause: str) -> str:
    """Return the subject of a cause. "its" in the cause is the rank's, so it needs a singular."""
    each = len(ranks) > 1 and cause.startswith(("it ", "its "))
    return f"{'each of ' if each else ''}{_name_ranks(ranks)}"


def _name_ranks(ranks: list[int]) -> str:
    named = format_ranks(ranks)
    if len(named) <= RANKS_LIMIT:
        return named
    return f"{len(ranks)} ranks from {min(ranks)} to {max(ranks)}"
