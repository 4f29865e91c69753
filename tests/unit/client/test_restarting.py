"""The restart of a job: other objects in its file, and ConfigMaps that it owns."""

from pathlib import Path
from typing import Any

import pytest
from dijob.client import AsyncClient, Refused
from dijob.client.restarting import split_manifests
from manifests import dijob
from unit.client.kubelets import Kubelets, kubelets
from unit.client.stores import Store, owners

Body = dict[str, Any]


def config_map(name: str, text: str, kind: str = "ConfigMap", **meta: Any) -> Body:
    return {
        "apiVersion": "v1",
        "kind": kind,
        "metadata": {"name": name, **meta},
        "data": {"a": text},
    }


KEPT = config_map("code", "old", namespace="ns", uid="c", ownerReferences=[{"uid": "u"}])
WRITTEN = config_map("code", "old", namespace="ns")
NEW = config_map("code", "new")
ELSEWHERE = config_map("code", "new", namespace="other")
SECRET = config_map("code", "new", kind="Secret")
OTHER = config_map("other", "new")


@pytest.mark.parametrize(
    ("beside", "kept", "first", "anew"),
    [
        pytest.param([], [KEPT], [], [WRITTEN], id="kept unchanged"),
        pytest.param([NEW, OTHER], [KEPT], [OTHER], [NEW], id="replaced by that of the file"),
        pytest.param([NEW], [], [NEW], [], id="not owned before"),
        pytest.param([ELSEWHERE], [KEPT], [ELSEWHERE], [WRITTEN], id="of another namespace"),
        pytest.param([SECRET], [KEPT], [SECRET], [WRITTEN], id="of another kind"),
    ],
)
def test_config_maps_that_are_recreated_with_the_job(
    beside: list[Body], kept: list[Body], first: list[Body], anew: list[Body]
) -> None:
    assert split_manifests(beside, kept) == (first, anew)


def mounting() -> Body:
    """Return the job with its code on a volume."""
    main = {"image": "y", "command": ["a"]}
    volumes = [{"name": "c", "configMap": {"name": "code"}}]
    return dijob("test", main, {"volumes": volumes}, replicas=1)


def running(made: Kubelets) -> None:
    body = mounting()
    body["metadata"] |= {"namespace": "default", "uid": "old", "resourceVersion": "1"}
    made.job = body


def owned() -> Body:
    return config_map("code", "old", namespace="default", ownerReferences=[{"uid": "old"}])


async def test_code_in_the_file_is_owned_by_the_new_job(tmp_path: Path) -> None:
    store = Store(owned())
    async with (
        kubelets(tmp_path, store.routes) as (made, kubeconfig),
        AsyncClient(kubeconfig) as client,
    ):
        running(made)
        await client.restart("test", mounting(), beside=[NEW, OTHER], timeout=10)
    assert {name: body["data"]["a"] for name, body in store.bodies.items()} == {
        "code": "new",
        "other": "new",
    }
    assert owners(store.bodies["code"]) == ["new-uid"]
    assert owners(store.bodies["other"]) == []


async def test_rejected_code_does_not_delete_the_job(tmp_path: Path) -> None:
    store = Store(owned())
    store.refused = True
    async with (
        kubelets(tmp_path, store.routes) as (made, kubeconfig),
        AsyncClient(kubeconfig) as client,
    ):
        running(made)
        with pytest.raises(Refused, match="too long"):
            await client.restart("test", mounting(), beside=[NEW], timeout=10)
        assert made.job is not None
        assert made.job["metadata"]["uid"] == "old"
    assert store.bodies["code"]["data"] == {"a": "old"}
