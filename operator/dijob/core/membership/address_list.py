"""Finds and verifies the newest peer list by its revision and digest in the job's status.

Anyone who may patch pods can write their annotations. So the annotations are only copies, never the
source. A list is genuine if its digest is the one in the status. (A genuine list is active until
lastRenewal contains its revision; see list_state.py.) The operator rebuilds the list from the
addresses that the kubelets report. It uses a pod's copy only if the copy has the same digest. A
matching digest shows that the operator created the copy (docs/decisions/015).
"""

from collections.abc import Mapping
from dataclasses import replace
from itertools import chain

from dijob.api.status import ListProof, Renewal, Status
from dijob.core.addresses import NO_LIST, AddressList, ListCopy
from dijob.core.members import Gang, compact_ranks, parse_ranks
from dijob.core.observed.views import Observed, Pod

# The placeholder for a rank that has succeeded. The rank's own address may belong to another job by
# now. If that address belongs to no pod, NNG hangs silently. A connection to the placeholder is
# refused, and NNG retries it indefinitely without harm. No DI-engine process listens here, because
# DI-engine listens on the pod's own address (ding/entry/cli_parsers/k8s_parser.py).
PLACEHOLDER = "127.0.0.2"
# Used as the text of a pod's list if the addresses in the list are not known.
UNKNOWN = "?"


def proof_of(made: AddressList) -> ListProof:
    """Return the fields that the status stores about a list, in addition to the revision."""
    finished = compact_ranks(
        rank for rank, address in enumerate(made.addresses) if address == PLACEHOLDER
    )
    return ListProof(size=len(made.addresses), digest=made.digest, finished=finished)


def newest_list(gang: Gang, pods: Mapping[int, Pod], status: Status) -> AddressList:
    """Return the newest list. It has no addresses if no known addresses match the digest."""
    number, proof = status.list_number, status.address_list
    if proof is not None:
        copies = (AddressList(number, pod.copy.address_list.text) for pod in pods.values())
        for found in chain([_rebuild_list(gang, pods, number, proof)], copies):
            if found.text and found.digest == proof.digest:
                return found
    return AddressList(number)


def _rebuild_list(
    gang: Gang, pods: Mapping[int, Pod], number: int, proof: ListProof
) -> AddressList:
    """Rebuild the list from the addresses that the kubelets report. If a rank has no address, the
    result has no addresses at all.
    """
    finished, found = parse_ranks(proof.finished), []
    for rank in range(proof.size):
        ip = pods[rank].ip if rank in pods else ""
        address = PLACEHOLDER if rank in finished else gang.address(rank, ip)
        if not address:
            return AddressList(number)
        found.append(address)
    return AddressList.of(number, found)


def recover_revision(gang: Gang, observed: Observed, status: Status) -> Status:
    """Return the status. If it lacks the revision and the digest, restore them from the pods.

    A status that was written by an older operator has no digest, and a status can also be deleted.
    The copy with the highest revision is accepted if the kubelets report exactly its addresses,
    because the operator would now create the same list. If this operator has published a higher
    revision to one of the pods, the copy is not accepted. The next list then gets a revision
    above the published one.
    """
    pods = observed.pods
    published = max((observed.published.get(pod.uid, 0) for pod in pods.values()), default=0)
    if published > status.list_number:
        status = status.model_copy(update={"list_number": published, "address_list": None})
    if status.address_list is not None or not any(pod.has_started for pod in pods.values()):
        return status
    held = max((pod.copy.address_list for pod in pods.values()), key=lambda one: one.number)
    if held.number < max(status.list_number, 1) or len(held.addresses) < gang.minimum:
        return status
    proof = proof_of(held)
    if not parse_ranks(proof.finished) <= parse_ranks(status.succeeded_ranks):
        return status
    if _rebuild_list(gang, pods, held.number, proof) != held:
        return status
    return status.model_copy(update={"list_number": held.number, "address_list": proof})


def verify_pod(pod: Pod, newest: AddressList, published: int, status: Status) -> Pod:
    """Return the pod with the false claims in its annotations corrected, and `tampered` set if
    there were any.

    `published` is the newest revision that this operator has written to the pod; 0 if unknown.
    """
    # A program can forge the launcher's termination message, with a revision that never existed.
    if pod.containers.ended_for > newest.number:
        pod = replace(pod, containers=replace(pod.containers, ended_for=0))
    if pod.made.channel_key and pod.copy.address_list == NO_LIST:
        return replace(pod, copy=_inferred_copy(pod, status))
    claimed, held = pod.copy, NO_LIST
    if number := _number_of(pod, newest, published):
        proven = number == newest.number and newest.text
        held = newest if proven else AddressList(number, claimed.address_list.text or UNKNOWN)
    renew_from = claimed.renew_from if _may_renew(pod, status) else 0
    tampered = (held, renew_from) != (claimed.address_list, claimed.renew_from)
    if not tampered:
        return pod  # Avoids a copy, because a job can have 1,500 pods.
    copy = replace(claimed, address_list=held, renew_from=renew_from, tampered=tampered)
    return replace(pod, copy=copy)


def _number_of(pod: Pod, newest: AddressList, given: int) -> int:
    """Return the revision that the pod really has, whatever its annotations claim; 0 if it has no
    list.

    No program starts without a list. So if a claim is false and nothing else is known, a running
    pod is assumed to have the newest list. The operator then writes the list again, and does
    nothing else.
    """
    claimed = pod.copy.address_list
    if newest.text and claimed == newest:
        return newest.number
    if given and not (claimed.text and given < claimed.number < newest.number):
        return given
    if claimed == NO_LIST:
        return 0
    if claimed.text and 0 < claimed.number < newest.number:
        return claimed.number
    return newest.number if pod.has_started else 0


def _may_renew(pod: Pod, status: Status) -> bool:
    """Whether the operator itself could have written the pod's `renew-from`.

    This is so if `renew-from` is absent or not newer than the last loss, or if the pod's rank had
    to restart.
    """
    last, renew_from = status.last_renewal, pod.copy.renew_from
    if renew_from == 0:
        return True
    if last is None or renew_from > status.list_number:
        return False
    return renew_from <= last.list_number or _had_to_restart(pod, last)


def _had_to_restart(pod: Pod, last: Renewal) -> bool:
    """Whether the pod's rank is one of those that had to restart because of the last loss."""
    ranks = parse_ranks(last.ranks)
    return not ranks or pod.rank in ranks


def _inferred_copy(pod: Pod, status: Status) -> ListCopy:
    """Return what the status implies about a pod whose launcher has no list, or has not reported
    its list to this operator.

    If the rank had to restart, its program is assumed to have the stale list. If the program has
    exited because of a newer revision, the previous operator must have requested that restart.
    """
    last, copy, ended_for = status.last_renewal, pod.copy, pod.containers.ended_for
    if last is None or not (pod.has_started and _had_to_restart(pod, last)):
        return copy
    if last.list_number < ended_for <= status.list_number:
        return replace(copy, renew_from=ended_for)
    if not (pod.containers.restarts or pod.containers.ended):
        # The program still uses the pod's own address, so this entry of its list is known. The
        # other entries are not.
        own = ",".join([*[UNKNOWN] * pod.rank, pod.ip])
        return replace(copy, address_list=AddressList(last.list_number, own))
    is_stale = last.list_number == status.list_number
    return replace(copy, address_list=AddressList(last.list_number, UNKNOWN)) if is_stale else copy


def unaccounted_ranks(gang: Gang, pods: Mapping[int, Pod], status: Status) -> tuple[int, ...]:
    """Return the ranks of the newest list that have not succeeded and have no known pod.

    Before such a rank is treated as lost, the controller looks up the rank's pod by its name.
    Somebody may have removed the label by which the watch selects the pod.
    """
    if status.address_list is None:
        return ()
    size, known = min(status.address_list.size, gang.size), parse_ranks(status.succeeded_ranks)
    if status.last_renewal is not None and status.last_renewal.list_number == status.list_number:
        # Exclude the ranks of lastRenewal: they are already lost, or their pods are being
        # re-created.
        known |= parse_ranks(status.last_renewal.ranks)
    return tuple(rank for rank in range(size) if rank not in pods and rank not in known)


def all_verified(
    gang: Gang, pods: Mapping[int, Pod], given: Mapping[str, int], status: Status
) -> tuple[dict[int, Pod], AddressList]:
    """Return the verified pods by rank, and the newest list."""
    listed = newest_list(gang, pods, status)
    return {
        rank: verify_pod(pod, listed, given.get(pod.uid, 0), status) for rank, pod in pods.items()
    }, listed
