"""A namespace whose operator connects to the apiserver without a proxy, for faults of the control
plane.
"""

from collections import Counter
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass

import aiohttp
from cluster import Cluster
from cluster.process import log_tail
from cluster.waiting import until_async

from faults.lab.audit import Audit
from faults.lab.channel import open_channel
from faults.lab.kube import Json, Kube, KubeError, dijob, jobs, make_namespace
from faults.lab.running import Operator
from faults.simulated_nodes.stage import Stage, kept_running

READY_SECONDS, RUN_SECONDS = 60.0, 240.0
API = "kube-apiserver"
# The components that cache objects from etcd and must be restarted when etcd is restored to an
# older state.
CACHES = ("kube-controller-manager", "kube-scheduler", "kwok")
RANKS = 4


@dataclass
class Served:
    """A namespace with an operator that connects to the apiserver directly."""

    plane: Cluster
    kube: Kube
    namespace: str
    operator: Operator
    audit: Audit
    codes: list[int]
    service: str

    async def apply(self, name: str) -> None:
        body = dijob(self.namespace, name, RANKS, service=self.service)
        await self.kube.create(jobs(self.namespace), body)

    async def status(self, name: str) -> Json:
        """Return the status of a job; {} if it does not exist, or if the apiserver is down."""
        try:
            return ((await self.kube.find(jobs(self.namespace, name))) or {}).get("status") or {}
        # The apiserver is down during most of these faults, so an error is expected here.
        except (aiohttp.ClientError, KubeError, OSError):
            return {}

    async def run(self, names: list[str], seconds: float = RUN_SECONDS) -> float:
        """Wait until the jobs run with all ranks, and return how many seconds this took."""

        async def missing() -> str:
            for name in names:
                status = await self.status(name)
                if (status.get("phase"), status.get("readyReplicas")) != ("Running", RANKS):
                    seen = f"{name}: {status.get('phase')}, {status.get('readyReplicas')} ready"
                    return f"{seen}: {status.get('message')}"
            return ""

        return await until_async("jobs run", missing, seconds, self.evidence)

    def evidence(self) -> str:
        """Return the last log lines of the operator and of the programs that it depends on."""
        tails = (f"--- {name}\n{log_tail(self.plane.state, name)}" for name in CACHES)
        return "\n".join((self.operator.evidence(), *tails))

    def twice(self) -> tuple[str, ...]:
        """Describe the pods that were created more than once, according to the audit log."""
        made = Counter(
            write.name
            for write in self.audit.each()
            if (write.verb, write.kind, write.namespace) == ("create", "pods", self.namespace)
            and write.code < 300
        )
        return tuple(
            f"{name} was created {count} times" for name, count in made.items() if count > 1
        )

    async def ready(self) -> None:
        """Wait until the apiserver serves DIJobs again."""

        async def missing() -> str:
            try:
                await self.kube.get(jobs(self.namespace))
            except (aiohttp.ClientError, KubeError, OSError) as error:
                return repr(error)
            return ""

        await until_async(
            "the apiserver", missing, READY_SECONDS, lambda: log_tail(self.plane.state, API)
        )

    async def etcd(self, path: str, body: Json) -> Json:
        """Call etcd through its JSON gateway."""
        url = f"http://127.0.0.1:{self.plane.endpoint.etcd_port}/v3/{path}"
        async with aiohttp.request("POST", url, json=body) as answer:
            found: Json = await answer.json()
            assert answer.status == 200, found
            return found


@asynccontextmanager
async def served(stage: Stage, name: str) -> AsyncIterator[Served]:
    """Run an operator for a new namespace in which job "a" runs."""
    namespace = f"{name}-{stage.seed}"
    await make_namespace(stage.kube, namespace)
    options: tuple[str, ...] = ()
    log = stage.own_folder() / "operator.log"
    async with AsyncExitStack() as stack:
        if stage.channel:
            way = open_channel(stage.kube.access, namespace)
            options = (await stack.enter_async_context(way)).options()
        operator = Operator(stage.plane.kubeconfig, log, (namespace,), options)
        await stack.enter_async_context(operator)
        # The operator may exit because of the fault. Its exit codes are part of the result.
        codes = await stack.enter_async_context(kept_running(operator))
        audit = Audit(stage.plane.audit_log)
        service = "Auto" if stage.channel else "Always"
        made = Served(stage.plane, stage.kube, namespace, operator, audit, codes, service)
        await made.apply("a")
        await made.run(["a"])
        yield made
    await stage.kube.delete(f"/api/v1/namespaces/{namespace}")
