"""The store of the Workloads that the operator creates for Kueue.

The Workloads have a separate store, because a cluster may lack Kueue's API, or may begin to serve
it later. Until then, only jobs with a queue have to wait.
"""

import asyncio
import logging

from dijob.controller.cache.informer import Informer
from dijob.core.observed.queue_views import Workload
from dijob.core.observed.workloads import parse_workload
from dijob.kube.api import Api, RequestError, Stream
from dijob.kube.kinds import SELECTOR, WORKLOADS
from dijob.process.clock import SYSTEM, Clock

log = logging.getLogger(__name__)

# Interval at which the operator checks whether the cluster serves Workloads yet.
UNSERVED_SECONDS = 60.0


class Workloads(Informer[Workload]):
    """The Workloads. `served` says whether the cluster served Workloads at the last attempt to list
    them, and `problem` is the API error of that attempt.
    """

    def __init__(self, namespaces: tuple[str, ...] = (), clock: Clock = SYSTEM) -> None:
        paths = (WORKLOADS.path(name) for name in namespaces or ("",))
        streams = tuple(Stream(path, SELECTOR) for path in paths)
        super().__init__(WORKLOADS.plural, streams, parse_workload, clock)
        for reflector in self.reflectors:
            reflector.raises = (401, 403, 404)
        self.served = True
        self.problem = ""

    async def run(self, api: Api) -> None:
        """List and watch until canceled. If the cluster does not serve Workloads, or the operator
        has no permission to read them, try again once a minute.
        """
        while True:
            runs = [asyncio.create_task(one.run(api)) for one in self.reflectors]
            try:
                await asyncio.gather(*runs)
            except RequestError as error:
                self.served, self.problem = not error.not_found, str(error)
                log.warning("cannot watch %s, trying again in 60 s: %s", self.kind, error)
            finally:
                for run in runs:
                    run.cancel()
                await asyncio.gather(*runs, return_exceptions=True)
            for reflector in self.reflectors:
                reflector.synced.clear()
            await asyncio.sleep(UNSERVED_SECONDS)
