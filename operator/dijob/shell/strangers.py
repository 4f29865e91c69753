"""Pods of others that wait for a node: room that a job cannot use is of use to them.

The watches show the pods of DIJobs alone. What else waits is asked for only while a job waits for
room, and once for all jobs.
"""

import asyncio
import logging

from dijob import names
from dijob.core.observed.parse import pod
from dijob.shell.api import Api, ApiError
from dijob.shell.children import Children
from dijob.shell.clock import Clock
from dijob.shell.kinds import PODS

log = logging.getLogger(__name__)

LOOK_SECONDS = 15.0
# The API server answers from its cache, however many pods there are.
UNPLACED = {"fieldSelector": "spec.nodeName=,status.phase=Pending", "resourceVersion": "0"}


class Strangers:
    """`waiting`: whether a pod that belongs to no DIJob found no node at the last look."""

    def __init__(self, api: Api, children: Children, clock: Clock) -> None:
        self._api = api
        self._children = children
        self._clock = clock
        self.waiting = False

    async def run(self, namespaces: tuple[str, ...]) -> None:
        """Look again and again until cancelled; without namespaces, in all of them."""
        paths = [PODS.path(namespace) for namespace in namespaces or ("",)]
        while True:
            await asyncio.sleep(self._clock.spread(LOOK_SECONDS))
            try:
                self.waiting = await self.look(paths)
            except ApiError as error:
                log.warning("failed to list unscheduled pods: %s", error)

    async def look(self, paths: list[str]) -> bool:
        """Whether such a pod is there now; False if no job waits for room."""
        if not any(one.seeks_node for one in self._children.pods):
            return False
        selector = f"{names.MANAGED_BY}!={names.MANAGER}"
        for path in paths:
            found = await self._api.get(path, labelSelector=selector, **UNPLACED)
            if any(pod(body).lacks_room for body in found.get("items") or ()):
                return True
        return False
