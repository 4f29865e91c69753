"""JobSet as an entrant of the benchmark, for comparison with an established project.

Its controller and webhooks run on the loopback interface. Both come from a checkout of JobSet's
source in which the program has been built (docs/performance.md explains how).
"""

import asyncio
import json
import os
import tempfile
from base64 import b64encode
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp
import trustme
import yaml
from cluster import Cluster
from cluster.shell import until_established
from cluster.waiting import until_async
from faults.lab.bulk import for_all
from faults.lab.kube import Json, Kube, pods
from faults.lab.running import Usage, usage_of
from floor import Kind
from measured import Shape, Starts
from ports import free_port

CRD = "jobsets.jobset.x-k8s.io"
AGENT = "jobset/"
OWNER = "jobset.sigs.k8s.io/jobset-name"
# Requests per second that JobSet's client may send. This is its own default; it is set explicitly
# so that the benchmark can print it.
QPS = BURST = 500


def jobsets(namespace: str) -> str:
    """Return the API path of a namespace's JobSets."""
    return f"/apis/jobset.x-k8s.io/v1alpha2/namespaces/{namespace}/jobsets"


def jobset(name: str, ranks: int) -> Json:
    """Return a JobSet of one job with `ranks` bare pods, which find each other by DNS names."""
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
    """Create the JobSets, and return when all pods run."""
    version = (await kube.get(pods(namespace)))["metadata"]["resourceVersion"]
    starts = Starts()

    async def create(number: int) -> None:
        starts.creates(f"job{number}")
        await kube.create(jobsets(namespace), jobset(f"job{number}", shape.ranks))

    async with asyncio.TaskGroup() as creating:
        creating.create_task(for_all(range(shape.jobs), create))
        async for event in kube.follow(pods(namespace), version):
            meta, status = event["object"]["metadata"], event["object"]["status"]
            if status.get("phase") == "Running":
                starts.pod_runs(meta["labels"][OWNER], meta["name"], shape.ranks)
            if len(starts.ran) == shape.jobs:
                break
    return starts


@asynccontextmanager
async def controller(binary: Path, cluster: Cluster) -> AsyncIterator["Controller"]:
    """Run JobSet's controller with its webhooks until the context ends. `binary` is bin/manager in
    the checkout.
    """
    components, authority = binary.parents[1] / "config/components", trustme.CA()
    # The manifests come from the same checkout as the program, so that the versions agree.
    crd = next((components / "crd/bases").glob("*.yaml"))
    cluster.run_kubectl("apply", "--server-side", "-f", str(crd))
    until_established(cluster.run_kubectl, CRD)
    with tempfile.TemporaryDirectory(prefix="dijob-jobset-") as folder:
        made = Controller(Path(folder), components)
        made.certify(authority)
        with made.log.open("w") as log:
            process = await asyncio.create_subprocess_exec(
                *(str(binary), f"--config={made.configure()}"),
                env={**os.environ, "KUBECONFIG": str(cluster.kubeconfig)},
                stdout=log,
                stderr=log,
            )
        try:
            made.process = process
            await until_async("JobSet's controller is ready", made.missing, 60, made.tail)
            hooks = made.webhooks(b64encode(authority.cert_pem.bytes()).decode())
            told = json.dumps({"apiVersion": "v1", "kind": "List", "items": hooks})
            cluster.run_kubectl("apply", "-f", "-", stdin=told)
            try:
                yield made
            finally:
                cluster.run_kubectl("delete", "-f", "-", stdin=told)
        finally:
            # The webhooks are deleted first, so that no call from the apiserver waits for them.
            if process.returncode is None:
                process.kill()
                await process.wait()


@dataclass
class Controller:
    """The process, its folder, and the manifests of its installation."""

    folder: Path
    components: Path
    hooks: int = field(default_factory=free_port)
    health: int = field(default_factory=free_port)
    process: asyncio.subprocess.Process | None = None

    @property
    def log(self) -> Path:
        return self.folder / "log"

    def usage(self) -> Usage:
        """Return the CPU and memory that the process has used so far."""
        assert self.process is not None
        return usage_of(self.process.pid)

    def tail(self) -> str:
        """Return the end of its log, for error messages."""
        return "\n".join(self.log.read_text().splitlines()[-25:])

    def certify(self, authority: trustme.CA) -> None:
        """Write the certificate of its webhooks into the folder."""
        made = authority.issue_cert("127.0.0.1", common_name="jobset")
        made.private_key_pem.write_to_path(str(self.folder / "tls.key"))
        made.cert_chain_pems[0].write_to_path(str(self.folder / "tls.crt"))

    def configure(self) -> Path:
        """Write its configuration file, and return the path."""
        said = {
            "apiVersion": "config.jobset.x-k8s.io/v1alpha1",
            "kind": "Configuration",
            # The Lease of a killed controller would delay the next one.
            "leaderElection": {"leaderElect": False},
            # The benchmark provides the certificates instead.
            "internalCertManagement": {"enable": False},
            "webhook": {"host": "127.0.0.1", "port": self.hooks, "certDir": str(self.folder)},
            "health": {"healthProbeBindAddress": f"127.0.0.1:{self.health}"},
            "metrics": {"bindAddress": "0"},
            "clientConnection": {"qps": QPS, "burst": BURST},
        }
        path = self.folder / "config.yaml"
        path.write_text(yaml.safe_dump(said))
        return path

    async def missing(self) -> str:
        """Return why the controller is not ready; "" if it is."""
        assert self.process is not None
        if self.process.returncode is not None:
            raise AssertionError(f"it has exited with {self.process.returncode}: {self.tail()}")
        try:
            async with aiohttp.ClientSession() as http:
                async with http.get(f"http://127.0.0.1:{self.health}/readyz") as answer:
                    if answer.status != 200:
                        return await answer.text()
                # The controller reports ready before it serves its webhooks.
                for url in self._hook_urls():
                    async with http.get(url, ssl=False) as answer:
                        # Any other error status means that the path is served: a GET is not a valid
                        # review.
                        if answer.status == 404:
                            return f"{url} is not served"
        except aiohttp.ClientError as error:
            return str(error)
        return ""

    def _hook_urls(self) -> list[str]:
        hooks = [hook for each in self.webhooks("") for hook in each["webhooks"]]
        return [hook["clientConfig"]["url"] for hook in hooks]

    def webhooks(self, authority: str) -> list[Json]:
        """Return JobSet's webhook configurations, changed so that they call this process.

        The configurations include the patches of JobSet's own installation.
        """
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
                # A URL instead of a service: the controller runs outside of the cluster's network.
                hook["clientConfig"] = {"url": url, "caBundle": authority}
        return made


def _patch(body: Json, patch: dict[str, Any]) -> None:
    """Apply a JSON patch that replaces one webhook. Raise ValueError for any other patch."""
    _, field_, index = patch["path"].split("/")
    if (patch["op"], field_) != ("replace", "webhooks"):
        raise ValueError(
            f"unexpected patch in JobSet's installation: {patch['op']} {patch['path']}"
        )
    body["webhooks"][int(index)] = patch["value"]
