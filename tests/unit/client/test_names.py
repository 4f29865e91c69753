"""A name from the user reaches the apiserver as the name of one object, or not at all."""

import re
from typing import Any, cast

import pytest
from dijob.client import BadName, NotFound
from dijob.client.connection import ClientConnection, ClientRequest
from dijob.client.resources import DIJOBS, PODS, Kinds, Resource

NO_NAMES = ["", ".", "..", "a/../", "../b", "a/b", "a%2fb"]


@pytest.mark.parametrize("name", NO_NAMES)
def test_an_invalid_name_has_no_path(name: str) -> None:
    with pytest.raises(BadName, match="is not a valid object name"):
        DIJOBS.path_of("default", name)
    with pytest.raises(BadName):
        PODS.path_of(name or "/", "test")


@pytest.mark.parametrize(
    ("found", "path"),
    [
        (PODS.path_of("ns", "test-0", "log"), "/api/v1/namespaces/ns/pods/test-0/log"),
        (PODS.path_of("ns", "a?watch=1 #b"), "/api/v1/namespaces/ns/pods/a%3Fwatch%3D1%20%23b"),
        (PODS.path(), "/api/v1/pods"),
        (Resource("x/v1", "nodes", namespaced=False).path_of("ns", "n"), "/apis/x/v1/nodes/n"),
    ],
)
def test_paths(found: str, path: str) -> None:
    assert found == path


@pytest.mark.parametrize(
    ("kind", "words"),
    [("Dijob", "did you mean DIJob?"), ("Other", "check that its CRD is installed")],
)
async def test_a_misspelled_kind_is_reported(kind: str, words: str) -> None:
    """The error for `kind: Dijob` once asked for the CRD, which is installed."""

    class Api:
        async def json(self, call: ClientRequest) -> Any:
            return {"resources": [{"name": "dijobs", "kind": "DIJob", "namespaced": True}]}

    with pytest.raises(NotFound, match=re.escape(words)):
        await Kinds(cast("ClientConnection", Api())).of({"apiVersion": "x.y/v1", "kind": kind})
