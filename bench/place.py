"""The control plane of a benchmark, and its clean-up between runs."""

import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

from cluster import Cluster
from cluster.waiting import until_async
from faults.lab.kube import Kube, KubeError, jobs, pods, services
from faults.lab.running import Operator
from floor import size_of
from jobset import jobsets
from planes import control_plane

NAME = "bench"
LIMIT_SECONDS = 600


class Place(NamedTuple):
    """A control plane, and a client of it."""

    cluster: Cluster
    kube: Kube


@contextmanager
def own_plane() -> Iterator[Cluster]:
    """Start a control plane with 50 simulated nodes, and stop it at the end, even after Ctrl-C or
    SIGTERM.
    """
    # Python does not run `finally` blocks on SIGTERM, so turn the signal into an exception.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    with control_plane(NAME, nodes=50, quiet=False, loopback_pods=True) as cluster:
        yield cluster


async def size_in(kube: Kube, namespace: str) -> int:
    """Return the size in bytes of a running pod of this namespace."""
    return size_of((await kube.items(pods(namespace) + "?limit=1"))[0])


async def clear(kube: Kube, namespace: str) -> None:
    """Delete the objects of a run, and wait until the pods are gone."""
    for path in (jobs(namespace), jobsets(namespace), services(namespace), pods(namespace)):

        async def cut(path: str = path) -> str:
            # The deletion of thousands takes longer than the timeout of the client, or of the
            # apiserver (504). The next call continues with the rest.
            try:
                await kube.call("DELETE", path)
            except (TimeoutError, KubeError) as error:
                gone = isinstance(error, KubeError) and error.status == 404
                return "" if gone else repr(error)
            return ""

        await until_async(f"{path} deleted", cut, LIMIT_SECONDS)

    async def left() -> str:
        count = len(await kube.items(pods(namespace) + "?limit=50"))
        return f"{count} pods or more" if count else ""

    await until_async("pods gone", left, LIMIT_SECONDS)
    await kube.delete(f"/api/v1/namespaces/{namespace}")


async def until_listed(operator: Operator) -> None:
    """Wait until an operator has listed pods and services."""

    async def missing() -> str:
        lists = await operator.metric("dijob_relists_total")
        return "" if lists >= 2 else f"{lists:g} of 2"

    await until_async("the operator's lists", missing, 60, operator.evidence)


async def until_served(kube: Kube) -> None:
    """Wait until the apiserver has listed DIJobs without an error for about two seconds. The
    storage of a new CRD is set up more than once, and lists fail in between.
    """
    listed = 0

    async def missing() -> str:
        nonlocal listed
        try:
            await kube.get(jobs("default"))
        except KubeError as error:
            listed = 0
            return str(error)
        listed += 1
        return "" if listed >= 20 else "not for long enough"

    await until_async("DIJobs are served", missing, 60)
