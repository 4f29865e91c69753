"""The ranks and who connects to whom, as the page draws it. Pure."""

from collections import Counter
from collections.abc import Collection
from typing import Any, Final

from dijob.api.model import DIJob
from dijob.api.problems import SpecError
from dijob.cli.topology.expected import SERVER, World, world_of
from dijob.client import Job
from dijob.core.members import Gang, count, expand, gang_of, say

# Lines of more ranks than this are a grey area on a screen.
MOST_DRAWN: Final = 48
# Each worker of a mesh has a listener for each rank: more is not worked out for a picture.
_MOST_PROCESSES: Final = 400


def graph(job: Job, ready: Collection[int]) -> dict[str, Any]:
    """Pairs of ranks with their connections: `up` where both ends are Ready."""
    try:
        model = job.model
    except SpecError as error:
        return _none(f"the job cannot be read: {error}")
    gang = gang_of(model)
    if gang.size > MOST_DRAWN or gang.size * gang.workers > _MOST_PROCESSES:
        return _none(f"connections of {count(gang.size, 'rank')} are not drawn")
    if job.finished:
        return _none("")
    world = world_of(model)
    pairs = _pairs(world)
    up = {pair for pair in pairs if all(end == SERVER or end in ready for end in pair)}
    return {
        "shape": world.shape,
        "edges": [[*pair, number, pair in up] for pair, number in sorted(pairs.items())],
        "total": world.total,
        "up": sum(pairs[pair] for pair in up),
        "note": world.note,
        "atLeast": world.at_least,
    }


def _none(note: str) -> dict[str, Any]:
    return {"shape": "", "edges": [], "total": 0, "up": 0, "note": note, "atLeast": False}


def _pairs(world: World) -> Counter[tuple[int, int]]:
    found = Counter[tuple[int, int]]()
    for each in world.dials:
        found[each.rank, each.to.rank] += len(each.workers)
    return found


def restarts(model: DIJob) -> list[str]:
    """For each rank, who starts again when it is lost, as a sentence; [] for jobs whose lines are
    not drawn.
    """
    gang = gang_of(model)
    if gang.size > MOST_DRAWN:
        return []
    return [_restart(gang, rank) for rank in range(gang.size)]


def _restart(gang: Gang, rank: int) -> str:
    if gang.renews_all_on_loss and gang.size > 1:
        return "all ranks start again with it"
    others = gang.dialers(rank)
    verb = "starts" if len(others) == 1 else "start"
    return f"{say(others)} {verb} again with it" if others else "no other rank starts again"


def renewed(job: Job) -> frozenset[int]:
    """The ranks that a loss has start again, while the list that died has no successor yet."""
    last = job.status.last_renewal
    if last is None or last.list_number != job.status.list_number:
        return frozenset()
    return expand(last.ranks) if last.ranks else frozenset(job.ranks)
