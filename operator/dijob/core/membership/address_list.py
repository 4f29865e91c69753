"""The address list in force, and what proves it: the status has its number and digest first.

A pod's annotations can be written by whoever may patch pods. So they are copies, never the source: a list is in force
if it has the digest in the status. It is rebuilt from the addresses that the kubelets report; a copy counts where it
has that digest too, which shows that it is the list that the operator has made (docs/decisions/015).
"""

import hashlib
from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache
from itertools import chain

from dijob.api.status import AddressList, Status
from dijob.core.members import Gang, compact, expand
from dijob.core.observed.views import Observed, Pod, addresses

# Stands in a list for a rank that has succeeded: its own address may be another job's by now, or free, which NNG gives
# up on without a word and hangs. A refused connection it tries again for ever, and no DI-engine process listens here:
# they listen on the pod's own address (ding/entry/cli_parsers/k8s_parser.py).
NOBODY = "127.0.0.2"
# Stands for the list of a pod that runs with one of which nothing true is known.
UNKNOWN = "?"


def record(number: int, listed: str) -> AddressList:
    """What the status keeps of a list (comma-separated, in rank order) with this number."""
    each = addresses(listed)
    finished = compact(rank for rank, address in enumerate(each) if address == NOBODY)
    return AddressList(size=len(each), digest=digest(number, listed), finished=finished)


@lru_cache(maxsize=256)
def digest(number: int, listed: str) -> str:
    """128 bits of SHA-256 of a number and its list, as hex."""
    return hashlib.sha256(f"{number} {listed}".encode()).hexdigest()[:32]


def in_force(gang: Gang, pods: Mapping[int, Pod], status: Status) -> str:
    """The newest list, comma-separated; "" where there is none, or nothing that is known now has its digest."""
    kept = status.address_list
    if kept is None:
        return ""
    for one in chain([_rebuilt(gang, pods, kept)], (pod.ips for pod in pods.values())):
        if one and digest(status.epoch, one) == kept.digest:
            return one
    return ""


def _rebuilt(gang: Gang, pods: Mapping[int, Pod], kept: AddressList) -> str:
    """The list from what the kubelets say; "" where a rank of it has no address."""
    finished, found = expand(kept.finished), []
    for rank in range(kept.size):
        ip = pods[rank].ip if rank in pods else ""
        address = NOBODY if rank in finished else gang.address(rank, ip)
        if not address:
            return ""
        found.append(address)
    return ",".join(found)


def adopted(gang: Gang, observed: Observed, status: Status) -> Status:
    """The status, with the number or the list that it lacks where the pods run with one all the same.

    A status of a former version has no digest, and a status can be wiped. The copy on the pods with the highest number
    is taken where the kubelets report the very same addresses: then it is what would be made now. Numbers that this
    operator itself has given out are never used again.
    """
    pods = observed.pods
    given = max((observed.given.get(pod.uid, 0) for pod in pods.values()), default=0)
    if given > status.epoch:
        status = status.model_copy(update={"epoch": given, "address_list": None})
    if status.address_list is not None or not any(pod.begun for pod in pods.values()):
        return status
    newest = max(pods.values(), key=lambda pod: pod.epoch)
    each = addresses(newest.ips)
    if newest.epoch < max(status.epoch, 1) or len(each) < gang.minimum:
        return status
    finished = compact(rank for rank, address in enumerate(each) if address == NOBODY)
    if not expand(finished) <= expand(status.succeeded_ranks):
        return status
    if _rebuilt(gang, pods, AddressList(size=len(each), finished=finished)) != newest.ips:
        return status
    return status.model_copy(update={"epoch": newest.epoch, "address_list": record(newest.epoch, newest.ips)})


def believed(pod: Pod, listed: str, given: int, status: Status) -> Pod:
    """The pod with what its annotations claim put right, `forged` where something was.

    `given` is the number of the newest list that this operator has written on the pod, 0 where it does not know.
    """
    newest = status.epoch
    has = _number_of(pod, listed, given, newest)
    ips = "" if not has else listed if has == newest and listed else pod.ips or UNKNOWN
    renew_from = pod.renew_from if _may_renew(pod, status) else 0
    forged = (has, ips, renew_from) != (pod.epoch, pod.ips, pod.renew_from)
    renewed = min(pod.renewed, newest)
    if not forged and renewed == pod.renewed:
        return pod  # of 1,500 pods each copy counts
    return replace(pod, epoch=has, ips=ips, renew_from=renew_from, renewed=renewed, forged=forged)


def _number_of(pod: Pod, listed: str, given: int, newest: int) -> int:
    """The number of the list that the pod really has, 0 for none, whatever it claims.

    Where a claim is known to be false and nothing else is known: nothing has been started without a list, and what runs
    is taken to have the newest one, so that it is written again and nothing else happens.
    """
    if listed and (pod.epoch, pod.ips) == (newest, listed):
        return newest
    if given and not (pod.ips and given < pod.epoch < newest):
        return given
    if not (pod.ips or pod.epoch):
        return 0
    if pod.ips and 0 < pod.epoch < newest:
        return pod.epoch
    return newest if pod.begun else 0


def _may_renew(pod: Pod, status: Status) -> bool:
    """Whether the operator can have told this pod to start its process again with that list."""
    last = status.last_renewal
    if pod.renew_from == 0:
        return True
    if last is None or pod.renew_from > status.epoch:
        return False
    ranks = expand(last.ranks)
    return pod.renew_from <= last.epoch or not ranks or pod.rank in ranks


def unaccounted(gang: Gang, pods: Mapping[int, Pod], status: Status) -> tuple[int, ...]:
    """The ranks of the newest list that have neither succeeded nor a pod that is known.

    Before such a pod is called lost it is asked for by its name: somebody may have taken our label off, and then no
    watch shows it any more.
    """
    if status.address_list is None:
        return ()
    size, known = min(status.address_list.size, gang.size), expand(status.succeeded_ranks)
    if status.last_renewal is not None and status.last_renewal.epoch == status.epoch:
        known |= expand(status.last_renewal.ranks)  # lost already, or made anew by the operator itself
    return tuple(rank for rank in range(size) if rank not in pods and rank not in known)


def all_believed(
    gang: Gang, pods: Mapping[int, Pod], given: Mapping[str, int], status: Status
) -> tuple[dict[int, Pod], str]:
    """The pods by rank as `believed`, and the list in force."""
    listed = in_force(gang, pods, status)
    return {rank: believed(pod, listed, given.get(pod.uid, 0), status) for rank, pod in pods.items()}, listed
