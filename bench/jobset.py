"""JobSet as an entrant: its controller with its webhooks, on loopback, from a checkout of its
source in which the program has been built (docs/performance.md says how).
"""

import asyncio
import json
import os
import tempfile
import time
from base64 import b64encode
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import aiohttp
import trustme
import yaml
from cluster import Cluster
from cluster.shell import until_established
from cluster.waiting import until_async
from faults.bulk import for_all
from faults.kube import Json, Kube, pods
from faults.running import Usage, free_port, usage_of
from floor import Kind
from measured import Shape, Starts

CRD = "jobsets.jobset.x-k8s.io"
AGENT = "jobset/"
OWNER = "jobset.sigs.k8s.io/jobset-name"
# Of its client: that of the apiserver's other clients here.
QPS = BURST = 500


def jobsets(namespace: str) -> str:
    """The path of a namespace's JobSets."""
    return f"/apis/jobset.x-k8s.io/v1alpha2/namespaces/{namespace}/jobsets"


def jobset(name: str, ranks: int) -> Json:
    """One job of so many pods: the bare pod, and names by which they find each other."""
    pod = Kind.BARE.pod(name, 0, ranks)
    template = {"metadata": {"labels": pod["metadata"]["labels"]}, "spec": pod["spec"]}
    job = {"parallelism": ranks, "completions": ranks, "backoffLimit": 0, "template": template}
    replicated = {"name": "rank", "replicas": 1, "template": {"spec": job}}
    return {
        "apiVersion": "jobset.x-k8s.io/v1alpha2",
        "kind": "JobSet",
        "metadata": {"name": name},
        "spec": {"network": {"enableDNSHostnames": True}, "replicatedJobs": [replicated]},
    }


async def start_jobsets(kube: Kube, namespace: str, shape: Shape) -> Starts:
    """Create the JobSets, and return once every pod runs."""
    version = (await kube.get(pods(namespace)))["metadata"]["resourceVersion"]
    starts, running = Starts(), defaultdict[str, set[str]](set)

    async def create(number: int) -> None:
        starts.created[f"job{number}"] = time.monotonic()
        await kube.create(jobsets(namespace), jobset(f"job{number}", shape.ranks))

    creating = asyncio.create_task(for_all(range(shape.jobs), create))
    while len(starts.ran) < shape.jobs:  # a server may end a watch at any time
        async for event in kube.events(pods(namespace), version):
            body = event["object"]
            version, job = body["metadata"]["resourceVersion"], body["metadata"]["labels"][OWNER]
            if body["status"].get("phase") == "Running":
                running[job].add(body["metadata"]["name"])
                if len(running[job]) == shape.ranks:
                    starts.ran.setdefault(job, time.monotonic())
            if len(starts.ran) == shape.jobs:
                break
    await creating
    return starts


@dataclass
class Controller:
    """JobSet's controller as a process; as a context manager it is gone at the end, and its
    webhooks with it. `binary` is bin/manager in the checkout.
    """

    binary: Path
    cluster: Cluster
    folder: Path = field(default_factory=lambda: Path(tempfile.mkdtemp(prefix="dijob-jobset-")))
    hooks: int = field(default_factory=free_port)
    health: int = field(default_factory=free_port)
    _process: asyncio.subprocess.Process | None = None

    @property
    def components(self) -> Path:
        return self.binary.parents[1] / "config/components"

    async def __aenter__(self) -> Self:
        crd = next((self.components / "crd/bases").glob("*.yaml"))
        self.cluster.run_kubectl("apply", "--server-side", "-f", str(crd))
        until_established(self.cluster.run_kubectl, CRD)
        authority = trustme.CA()
        self._certify(authority)
        self._process = await asyncio.create_subprocess_exec(
            str(self.binary),
            f"--config={self._configure()}",
            env={**os.environ, "KUBECONFIG": str(self.cluster.kubeconfig)},
            stdout=(log := (self.folder / "log").open("w")),
            stderr=log,
        )
        await until_async("JobSet's controller is ready", self._missing, 60, self.tail)
        self._kubectl("apply", self._webhooks(b64encode(authority.cert_pem.bytes()).decode()))
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._kubectl("delete", self._webhooks(""))
        if self._process is not None and self._process.returncode is None:
            self._process.kill()
            await self._process.wait()

    def usage(self) -> Usage:
        """What the process has used so far."""
        assert self._process is not None
        return usage_of(self._process.pid)

    def tail(self) -> str:
        """The end of its log, for evidence."""
        return "\n".join((self.folder / "log").read_text().splitlines()[-25:])

    def _certify(self, authority: trustme.CA) -> None:
        made = authority.issue_cert("127.0.0.1", common_name="jobset")
        made.private_key_pem.write_to_path(str(self.folder / "tls.key"))
        made.cert_chain_pems[0].write_to_path(str(self.folder / "tls.crt"))

    def _configure(self) -> Path:
        said = {
            "apiVersion": "config.jobset.x-k8s.io/v1alpha1",
            "kind": "Configuration",
            "leaderElection": {"leaderElect": False},
            "internalCertManagement": {"enable": False},
            "webhook": {"host": "127.0.0.1", "port": self.hooks, "certDir": str(self.folder)},
            "health": {"healthProbeBindAddress": f"127.0.0.1:{self.health}"},
            "metrics": {"bindAddress": "0"},
            "clientConnection": {"qps": QPS, "burst": BURST},
        }
        path = self.folder / "config.yaml"
        path.write_text(yaml.safe_dump(said))
        return path

    async def _missing(self) -> str:
        assert self._process is not None
        if self._process.returncode is not None:
            raise AssertionError(f"it has exited with {self._process.returncode}: {self.tail()}")
        try:
            async with aiohttp.request("GET", f"http://127.0.0.1:{self.health}/readyz") as answer:
                return "" if answer.status == 200 else await answer.text()
        except aiohttp.ClientError as error:
            return str(error)

    def _webhooks(self, authority: str) -> list[Json]:
        """Its webhooks, with the patches of its own installation, on this process."""
        folder = self.components / "webhook"
        made: list[Json] = list(yaml.safe_load_all((folder / "manifests.yaml").read_text()))
        for each in made:
            kind = each["kind"].removesuffix("WebhookConfiguration").lower()
            each["metadata"]["name"] = f"jobset-{kind}"
            for patch in yaml.safe_load((folder / f"patches/{kind}-patch.yaml").read_text()):
                _patch(each, patch)
            for hook in each["webhooks"]:
                path = hook["clientConfig"]["service"]["path"]
                url = f"https://127.0.0.1:{self.hooks}{path}"
                hook["clientConfig"] = {"url": url, "caBundle": authority}
        return made

    def _kubectl(self, verb: str, objects: list[Json]) -> None:
        told = json.dumps({"apiVersion": "v1", "kind": "List", "items": objects})
        self.cluster.run_kubectl(verb, "-f", "-", stdin=told)


def _patch(body: Json, patch: dict[str, Any]) -> None:
    """A JSON patch that replaces one webhook."""
    _, field_, index = patch["path"].split("/")
    if (patch["op"], field_) != ("replace", "webhooks"):
        raise ValueError(f"not known of JobSet's installation: {patch['op']} {patch['path']}")
    body["webhooks"][int(index)] = patch["value"]
