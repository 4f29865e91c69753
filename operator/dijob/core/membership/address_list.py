"""The newest address list, and what proves it: the status has its number and digest first.

A pod's annotations can be written by whoever may patch pods. So they are copies, never the source:
a list is genuine if it has the digest in the status (and in force until lastRenewal names it,
list_state.py). It is rebuilt from the addresses that the kubelets report; a copy counts where it
has that digest too, which shows that it is the list that the operator has made
(docs/decisions/015).
"""

from collections.abc import Mapping
from dataclasses import replace
from itertools import chain

from dijob.api.status import ListProof, Status
from dijob.core.addresses import NO_LIST, AddressList
from dijob.core.members import Gang, compact, expand
from dijob.core.observed.views import Observed, Pod

# Stands in a list for a rank that has succeeded. Its own address may be another job's by now, or
# nobody's, where NNG hangs without a word. A refused connection is tried again for ever, and no
# DI-engine process listens here: they listen on the pod's own address
# (ding/entry/cli_parsers/k8s_parser.py).
NOBODY = "127.0.0.2"
# Stands for the list of a pod that has one whose addresses are not known.
UNKNOWN = "?"


def proof_of(made: AddressList) -> ListProof:
    """What the status keeps of a list, besides its number."""
    finished = compact(rank for rank, address in enumerate(made.addresses) if address == NOBODY)
    return ListProof(size=len(made.addresses), digest=made.digest, finished=finished)


def newest(gang: Gang, pods: Mapping[int, Pod], status: Status) -> AddressList:
    """The newest list; without addresses where nothing that is known now has its digest."""
    number, proof = status.list_number, status.address_list
    if proof is not None:
        copies = (AddressList(number, pod.copy.address_list.text) for pod in pods.values())
        for found in chain([_rebuilt(gang, pods, number, proof)], copies):
            if found.text and found.digest == proof.digest:
                return found
    return AddressList(number)


def _rebuilt(gang: Gang, pods: Mapping[int, Pod], number: int, proof: ListProof) -> AddressList:
    """The list from what the kubelets say; without addresses where a rank of it has none."""
    finished, found = expand(proof.finished), []
    for rank in range(proof.size):
        ip = pods[rank].ip if rank in pods else ""
        address = NOBODY if rank in finished else gang.address(rank, ip)
        if not address:
            return AddressList(number)
        found.append(address)
    return AddressList.of(number, found)


def recovered(gang: Gang, observed: Observed, status: Status) -> Status:
    """The status, with the number or the list that it lacks where the pods run with one all the
    same.

    A status of a former version has no digest, and a status can be wiped. The copy on the pods with
    the highest number is taken where the kubelets report the very same addresses: then it is what
    would be made now. Numbers that this operator itself has given out are never used again.
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
    if not expand(proof.finished) <= expand(status.succeeded_ranks):
        return status
    if _rebuilt(gang, pods, held.number, proof) != held:
        return status
    return status.model_copy(update={"list_number": held.number, "address_list": proof})


def verified(pod: Pod, newest: AddressList, published: int, status: Status) -> Pod:
    """The pod with what its annotations claim put right, `tampered` where something was.

    `published` is the number of the newest list that this operator has written on the pod, 0 where
    it does not know.
    """
    claimed, held = pod.copy, NO_LIST
    if number := _number_of(pod, newest, published):
        proven = number == newest.number and newest.text
        held = newest if proven else AddressList(number, claimed.address_list.text or UNKNOWN)
    renew_from = claimed.renew_from if _may_renew(pod, status) else 0
    tampered = (held, renew_from) != (claimed.address_list, claimed.renew_from)
    # A program can write the launcher's words as well, with a number that never was.
    ended_for = pod.containers.ended_for if pod.containers.ended_for <= newest.number else 0
    if not tampered and ended_for == pod.containers.ended_for:
        return pod  # of 1,500 pods each copy counts
    copy = replace(claimed, address_list=held, renew_from=renew_from, tampered=tampered)
    return replace(pod, copy=copy, containers=replace(pod.containers, ended_for=ended_for))


def _number_of(pod: Pod, newest: AddressList, given: int) -> int:
    """The number of the list that the pod really has, 0 for none, whatever it claims.

    Where a claim is known to be false and nothing else is known: nothing has been started without a
    list, and what runs is taken to have the newest one, so that it is written again and nothing
    else happens.
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
    """Whether the operator itself can have written the pod's `renew-from`: its rank was renewed."""
    last, renew_from = status.last_renewal, pod.copy.renew_from
    if renew_from == 0:
        return True
    if last is None or renew_from > status.list_number:
        return False
    ranks = expand(last.ranks)
    return renew_from <= last.list_number or not ranks or pod.rank in ranks


def unaccounted(gang: Gang, pods: Mapping[int, Pod], status: Status) -> tuple[int, ...]:
    """The ranks of the newest list that have neither succeeded nor a pod that is known.

    Before such a pod is called lost it is asked for by its name: somebody may have taken our label
    off, and then no watch shows it any more.
    """
    if status.address_list is None:
        return ()
    size, known = min(status.address_list.size, gang.size), expand(status.succeeded_ranks)
    if status.last_renewal is not None and status.last_renewal.list_number == status.list_number:
        # Lost already, or re-created by the operator itself.
        known |= expand(status.last_renewal.ranks)
    return tuple(rank for rank in range(size) if rank not in pods and rank not in known)


def all_verified(
    gang: Gang, pods: Mapping[int, Pod], given: Mapping[str, int], status: Status
) -> tuple[dict[int, Pod], AddressList]:
    """The pods by rank as `verified`, and the newest list."""
    listed = newest(gang, pods, status)
    return {
        rank: verified(pod, listed, given.get(pod.uid, 0), status) for rank, pod in pods.items()
    }, listed
