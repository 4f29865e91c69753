"""A group of four ranks that one entrant has started, in its own namespace."""

import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Protocol

from cluster import Cluster, ClusterError
from kubernetes.client import ApiException
from space import Api, Body, Space

from compared.entrant import LOST_NODE, Entrant, objects
from compared.program import CONNECTED, Program, Work
from compared.record import Connected, Trained, parse, parse_dqn

NAME = "world"


class Group(Protocol):
    """Ranks that can be started and lost. `lines` returns what current processes have printed."""

    def start(self) -> None: ...
    def lines(self) -> list[Connected]: ...
    def lose(self, rank: int) -> None: ...
    def settled(self) -> None: ...
    def state(self) -> str: ...
    def remove(self) -> None: ...


class Pods:
    """A group of an entrant on Kubernetes."""

    def __init__(self, cluster: Cluster, entrant: Entrant, program: Program = CONNECTED) -> None:
        self.entrant, self.program, self.lost = entrant, program, ""
        self.folder = Path(tempfile.mkdtemp(prefix="dijob-peers-"))
        self.folder.chmod(0o777)
        name = f"peers-{entrant.kind}-{time.time_ns() // 1_000_000 % 100_000_000}"
        self.space = Space(cluster, Api.of(cluster), name)
        cluster.run_kubectl("create", "namespace", name)
        self.space.until("the default service account", self._no_account, 30)

    def start(self) -> None:
        """Apply the job. Its ConfigMap is in the same file, as in a user's manifest."""
        self.space.apply(*objects(self.entrant, Work(NAME, self.program, str(self.folder))))

    def lines(self) -> list[Connected]:
        return list(self._ranks().values())

    def lose(self, rank: int) -> None:
        """Delete the pod of a rank."""
        name = next(pod for pod, line in self._ranks().items() if line.rank == rank)
        self.lose_pod(name)

    def lose_pod(self, name: str) -> None:
        self.space.kubectl("delete", "pod", name, "--wait=false")

    def lose_node(self) -> None:
        """Cut the power of LOST_NODE. Its pods can no longer be queried."""
        self.lost = LOST_NODE
        self.space.cluster.stop_node(LOST_NODE)

    def restore_node(self) -> None:
        """Start LOST_NODE again, and wait until it is Ready."""
        cluster = self.space.cluster
        cluster.start_node(LOST_NODE)
        self.space.until("it is Ready", lambda: _missing(cluster), 120)
        self.lost = ""

    def settled(self) -> None:
        """Wait until all pods are Ready, so that the entrant has seen that the job runs."""
        self.space.kubectl("wait", "pods", "--all", "--for=condition=Ready", "--timeout=60s")

    def nodes(self) -> dict[int, str]:
        """Return the nodes of the ranks."""
        nodes = {pod["metadata"]["name"]: pod["spec"].get("nodeName", "") for pod in self._pods()}
        return {line.rank: nodes[name] for name, line in self._ranks().items()}

    def state(self) -> str:
        """Return the state of the pods in a line."""
        return ", ".join(sorted(map(_described, self._pods())))

    def remove(self) -> None:
        """Delete the job, and wait until its pods are gone."""
        # The CRD is gone if the entrant could not be installed.
        with suppress(ClusterError):
            self.space.kubectl("delete", self.entrant.kind, "--all", "--timeout=60s", timeout=70)
        self.space.until_gone("all pods", lambda: list(map(_described, self._pods())), 120)
        self.space.cluster.run_kubectl("delete", "namespace", self.space.name, "--wait=false")
        shutil.rmtree(self.folder)

    def _pods(self) -> list[Body]:
        return self.space.api.pods(self.space.name, "")

    def trained(self) -> dict[str, Trained]:
        """Return what each current pod of the DQN has printed."""
        logs = ((name, parse_dqn(log)) for name, log in self._logs(timestamps=True))
        return {name: said for name, said in logs if said}

    def _ranks(self) -> dict[str, Connected]:
        """Return what each current pod has printed last."""
        logs = ((name, parse(log)) for name, log in self._logs())
        return {name: line for name, line in logs if line}

    def _logs(self, **how: object) -> Iterator[tuple[str, str]]:
        """Yield the logs of the current containers of all pods."""
        for pod in self._pods():
            there = pod["spec"].get("nodeName") not in ("", self.lost)
            if there and "deletionTimestamp" not in pod["metadata"]:
                name, (main,) = pod["metadata"]["name"], pod["spec"]["containers"]
                yield name, self._log(name, container=main["name"], **how)

    def _log(self, pod: str, **how: object) -> str:
        """Return a log, or "" before its container has started."""
        core = self.space.api.core
        try:
            said = core.read_namespaced_pod_log(
                pod, self.space.name, _preload_content=False, _request_timeout=10, **how
            )
        except ApiException as error:
            if error.status in (400, 404):
                return ""
            raise
        return str(said.data.decode(errors="replace"))

    def _no_account(self) -> str:
        said = self.space.kubectl("get", "serviceaccounts", "-o", "name")
        return "" if "default" in said else "it is not there"


def _missing(cluster: Cluster) -> str:
    return "" if LOST_NODE in cluster.ready_nodes() else f"{LOST_NODE} is not Ready"


def _described(pod: Body) -> str:
    """Return a pod's name, phase and restarts, and the rank that DI-orchestrator gave it."""
    restarts = sum(s["restartCount"] for s in pod["status"].get("containerStatuses") or ())
    rank = (pod["metadata"].get("annotations") or {}).get("diengine/rank")
    words = [pod["status"].get("phase", "?"), *([f"{restarts} restarts"] if restarts else [])]
    words += [f"rank {rank}"] if rank else []
    words += ["being deleted"] if "deletionTimestamp" in pod["metadata"] else []
    return f"{pod['metadata']['name']} ({', '.join(words)})"
