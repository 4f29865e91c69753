"""The operator is killed between two patches of a re-rendezvous, on real pods. The next operator
completes it.
"""

import asyncio
from pathlib import Path

import pytest
from dijob import names
from faults.lab.exchange import Asked, Kill
from faults.lab.kube import Access
from faults.lab.proxy import Proxy
from faults.lab.running import Operator
from identity import identities, running, until_healed
from sockets import mesh, until_edges
from space import Space, without_operator

pytestmark = pytest.mark.e2e


def patch_of_pod(asked: Asked) -> bool:
    """Whether a request patches a pod. A re-rendezvous of rank 1 of 4 stores the loss in the status
    and creates the new pod; then it patches four pods. (This operator has no channel, although the
    pods were created by one that has.)
    """
    return asked.method == "PATCH" and "/pods/world-" in asked.path


def unlisted(space: Space) -> str:
    """Return the pods that have no list as an annotation."""
    pods = [pod["metadata"] for pod in space.pods("world")]
    return " ".join(
        one["name"] for one in pods if names.ANNOTATION_IPS not in one.get("annotations", {})
    )


@pytest.mark.parametrize("patch", [1, pytest.param(3, marks=pytest.mark.long)])
async def test_a_kill_between_patches_of_a_re_rendezvous(
    space: Space, tmp_path: Path, patch: int
) -> None:
    before = await asyncio.to_thread(running, space, replicas=4)
    with without_operator(space.cluster):
        async with Proxy(Access.of(space.cluster.kubeconfig), tmp_path) as proxy:
            operator = Operator(proxy.kubeconfig, tmp_path / "operator.log", (space.name,))
            async with operator:
                # It has no channel, so it first writes the list to the pods that run.
                await asyncio.to_thread(space.until, "annotations", lambda: unlisted(space), 60)
                kill = Kill(patch, after=True, end=operator.end, about=patch_of_pod)
                proxy.kill_at(kill)
                space.kubectl("delete", "pod", "world-1", "--wait=false")
                await asyncio.wait_for(kill.done.wait(), 60)
                await operator.kill()
                proxy.revive()
                await operator.start()
                renewed = {"world-1", "world-2", "world-3"}
                await asyncio.to_thread(until_healed, space, "world", before, renewed, 2)
    await asyncio.to_thread(until_edges, space, "world", mesh(space.ips("world"), 1), (50515,))
    after = identities(space, "world")
    assert {name for name in before if after[name][0] == before[name][0]} == {
        "world-0",
        "world-2",
        "world-3",
    }
    status = space.status("world")
    assert (status.get("restarts", 0), status["renewals"], status["listNumber"]) == (0, 1, 2)
