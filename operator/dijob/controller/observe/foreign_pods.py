"""Finds unscheduled pods that do not belong to DIJobs.

A job that cannot start releases the capacity of its scheduled pods only if other pods could use it.
The watches show only pods of DIJobs. Other pods are listed only while a job is waiting for
capacity. All jobs share the result (docs/decisions/007).
"""

import asyncio
import logging

from dijob import names
from dijob.controller.cache.children import Children
from dijob.core.observed.parse import parse_pod
from dijob.kube.api import Api, RequestError
from dijob.kube.kinds import PODS
from dijob.process.clock import Clock

log = logging.getLogger(__name__)

LOOK_SECONDS = 15.0
# With resourceVersion 0, the apiserver responds from its cache, so the list is cheap with any
# number of pods. A slightly outdated response is good enough here.
UNPLACED = {"fieldSelector": "spec.nodeName=,status.phase=Pending", "resourceVersion": "0"}


class ForeignPods:
    """`waiting` is true if the last check found an unscheduled pod that belongs to no DIJob."""

    def __init__(self, api: Api, children: Children, clock: Clock) -> None:
        self._api = api
        self._children = children
        self._clock = clock
        self.waiting = False

    async def run(self, namespaces: tuple[str, ...]) -> None:
        """Check periodically until canceled. If no namespaces are given, check all namespaces."""
        paths = [PODS.path(namespace) for namespace in namespaces or ("",)]
        while True:
            await asyncio.sleep(self._clock.spread(LOOK_SECONDS))
            try:
                self.waiting = await self.look(paths)
            except RequestError as error:
                log.warning("failed to list unscheduled pods: %s", error)

    async def look(self, paths: list[str]) -> bool:
        """Return whether there is an unscheduled pod that belongs to no DIJob. If no job is waiting
        for capacity, return False without a request.
        """
        if not any(one.seeks_node for one in self._children.pods):
            return False
        selector = f"{names.MANAGED_BY}!={names.MANAGER}"
        for path in paths:
            found = await self._api.get(path, labelSelector=selector, **UNPLACED)
            if any(parse_pod(body).lacks_room for body in found.get("items") or ()):
                return True
        return False
