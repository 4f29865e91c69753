"""How the apiserver reports that another object has the name, and that the operator detects it."""

from collections.abc import AsyncIterator

import pytest
from apiserver.plane import NAMESPACE, Plane
from dijob.kube.api import Api, RequestError

pytestmark = pytest.mark.apiserver

PODS = f"/api/v1/namespaces/{NAMESPACE}/pods"
JOBS = f"/apis/diengine.opendilab.org/v2alpha1/namespaces/{NAMESPACE}/dijobs"
OTHER = "00000000-0000-0000-0000-000000000000"


@pytest.fixture
async def api(plane: Plane) -> AsyncIterator[Api]:
    connected = await Api.connect(str(plane.cluster.kubeconfig))
    yield connected
    await connected.close()


@pytest.fixture
async def pod(api: Api) -> AsyncIterator[str]:
    """Yield the path of a pod without a node."""
    spec = {"containers": [{"name": "c", "image": "none"}], "schedulerName": "nobody"}
    made = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "namesake"}, "spec": spec}
    uid = (await api.create(PODS, made))["metadata"]["uid"]
    yield f"{PODS}/namesake"
    await api.delete(f"{PODS}/namesake", uid, grace=0)


async def test_a_patch_of_a_pod_with_another_uid_is_a_conflict(api: Api, pod: str) -> None:
    with pytest.raises(RequestError) as caught:
        await api.patch(pod, {"metadata": {"uid": OTHER, "annotations": {"a": "b"}}})
    assert (caught.value.status, caught.value.conflict) == (422, True), caught.value


async def test_a_deletion_of_a_pod_with_another_uid_is_a_conflict(api: Api, pod: str) -> None:
    with pytest.raises(RequestError) as caught:
        await api.delete(pod, OTHER)
    assert (caught.value.status, caught.value.conflict) == (409, True), caught.value


async def test_an_invalid_patch_of_a_pod_is_not_a_conflict(api: Api, pod: str) -> None:
    with pytest.raises(RequestError) as caught:
        await api.patch(pod, {"spec": {"activeDeadlineSeconds": -1}})
    assert (caught.value.status, caught.value.conflict) == (422, False), caught.value


@pytest.mark.parametrize(
    ("part", "meta"),
    [
        pytest.param("", {"uid": OTHER}, id="spec"),
        # The apiserver ignores the uid here, so only the version shows it.
        pytest.param("/status", {"uid": OTHER, "resourceVersion": "1"}, id="status"),
    ],
)
async def test_a_patch_of_another_job_is_a_conflict(
    api: Api, untouched: str, part: str, meta: dict[str, str]
) -> None:
    with pytest.raises(RequestError) as caught:
        await api.patch(
            f"{JOBS}/{untouched}{part}", {"metadata": meta, "status": {"listNumber": 3}}
        )
    assert caught.value.conflict, caught.value
