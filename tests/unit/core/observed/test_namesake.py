"""The owner of an object whose name the operator needs."""

from typing import Any

import pytest
from dijob import names
from dijob.core.observed.parse import classify_namesake, parse_child
from dijob.core.observed.views import RejectionCause
from samples.builders import UID, Body


def owned(kind: str = names.KIND, name: str = "job", uid: str = UID, **meta: Any) -> Body:
    owner = {
        "apiVersion": names.API_VERSION,
        "kind": kind,
        "name": name,
        "uid": uid,
        "controller": True,
    }
    return {"metadata": {"name": "job-0", "namespace": "ns", "ownerReferences": [owner], **meta}}


NAMESAKES: dict[str, tuple[Body, RejectionCause | None]] = {
    "ours": (owned(), None),
    "ours, ending": (owned(deletionTimestamp="now"), RejectionCause.TERMINATING),
    "of a deleted job of the same name": (owned(uid="old"), RejectionCause.TERMINATING),
    "of another job": (owned(name="other", uid="x"), RejectionCause.TAKEN),
    "with our uid, of another kind": (owned(kind="Nothing"), RejectionCause.TAKEN),
    "of another kind": (owned(kind="ReplicaSet", uid="x"), RejectionCause.TAKEN),
    "without an owner": ({"metadata": {"name": "job-0"}}, RejectionCause.TAKEN),
    "without an owner, ending": (
        {"metadata": {"name": "job-0", "deletionTimestamp": "now"}},
        RejectionCause.TERMINATING,
    ),
}


@pytest.mark.parametrize(("body", "why"), NAMESAKES.values(), ids=NAMESAKES)
def test_the_owner_of_an_object_with_a_needed_name(body: Body, why: RejectionCause | None) -> None:
    assert classify_namesake(body, "job", UID) is why


def test_a_service_is_recognized_by_its_owner() -> None:
    body = owned(uid="u1", resourceVersion="5") | {"spec": {}}
    body["metadata"]["uid"] = "s1"
    found = parse_child(body)
    assert (found.name, found.uid, found.owner, found.version) == ("job-0", "s1", "ns/job/u1", "5")
