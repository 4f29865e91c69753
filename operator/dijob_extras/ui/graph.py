"""Computes which connections between ranks the page draws. No I/O."""

from collections import Counter
from collections.abc import Collection
from typing import Any, Final

from dijob.api.model import DIJob
from dijob.api.problems import SpecError
from dijob.cli.topology.expected import SERVER, ExpectedWorld, world_of
from dijob.client import Job
from dijob.core.members import Gang, format_count, format_ranks, gang_of, parse_ranks

# If there were more ranks, the lines between them would cover the screen.
MOST_DRAWN: Final = 48
# In a mesh, the number of connections grows with the square of the number of processes. A limit
# keeps the page responsive.
_MOST_PROCESSES: Final = 400


def build_graph(job: Job, ready: Collection[int]) -> dict[str, Any]:
    """Return the pairs of ranks that connect to each other. A pair is up if both are Ready.

    The real sockets are not inspected: that would require an exec in each pod for each update.
    """
    try:
        model = job.model
    except SpecError as error:
        return _empty_graph(f"the spec is invalid: {error}")
    gang = gang_of(model)
    if gang.size > MOST_DRAWN or gang.size * gang.workers > _MOST_PROCESSES:
        return _empty_graph(
            f"connections of a job with {format_count(gang.size, 'rank')} are not drawn"
        )
    if job.finished:
        return _empty_graph("")
    world = world_of(model)
    pairs = _count_connections(world)
    # The Redis server is not a rank. Its readiness is unknown here, so it is assumed to be Ready.
    up = {pair for pair in pairs if all(end == SERVER or end in ready for end in pair)}
    return {
        "shape": world.shape,
        "edges": [[*pair, number, pair in up] for pair, number in sorted(pairs.items())],
        "total": world.total,
        "up": sum(pairs[pair] for pair in up),
        "note": world.note,
        "atLeast": world.at_least,
    }


def _empty_graph(note: str) -> dict[str, Any]:
    return {"shape": "", "edges": [], "total": 0, "up": 0, "note": note, "atLeast": False}


def _count_connections(world: ExpectedWorld) -> Counter[tuple[int, int]]:
    found = Counter[tuple[int, int]]()
    for each in world.dials:
        found[each.rank, each.to.rank] += len(each.workers)
    return found


def describe_restarts(model: DIJob) -> list[str]:
    """Return a sentence for each rank: which other ranks restart if it is lost.

    The list is empty if the job has more than MOST_DRAWN ranks.
    """
    gang = gang_of(model)
    if gang.size > MOST_DRAWN:
        return []
    return [_describe_restart(gang, rank) for rank in range(gang.size)]


def _describe_restart(gang: Gang, rank: int) -> str:
    if gang.renews_all_on_loss and gang.size > 1:
        return "all ranks restart with it"
    others = gang.dialers(rank)
    verb = "restarts" if len(others) == 1 else "restart"
    return f"{format_ranks(others)} {verb} with it" if others else "no other rank restarts"


def rerendezvous_ranks(job: Job) -> frozenset[int]:
    """Return the ranks of a re-rendezvous in progress. During a re-rendezvous, the peer list is
    stale, and the next one has not been published.

    An empty `lastRenewal.ranks` means all ranks.
    """
    last = job.status.last_renewal
    if last is None or last.list_number != job.status.list_number:
        return frozenset()
    return parse_ranks(last.ranks) if last.ranks else frozenset(job.ranks)
