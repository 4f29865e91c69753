"""A running cluster, for tests and the command line."""

import json
import os
import signal
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

from cluster import imagestore, kind, pods, state, teardown
from cluster.controlplane import ControlPlane, Endpoint
from cluster.errors import ClusterError
from cluster.namespace import enter
from cluster.node import Node
from cluster.pki import ADMIN
from cluster.process import log_tail, recorded, require, spawn, stop
from cluster.shell import run

EMBEDDED, CONTROL_PLANE, KIND = "embedded", "control-plane", "kind"
FILE = "cluster.json"


@dataclass(frozen=True)
class Cluster:
    """One cluster. If it is used as a context manager, the cluster is removed at the end of the
    block.
    """

    name: str
    mode: str  # EMBEDDED, CONTROL_PLANE or KIND
    state: Path
    binaries: Path  # has kubectl and helm
    nodes: tuple[str, ...]
    endpoint: Endpoint

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        self.down()

    @property
    def kubeconfig(self) -> Path:
        return self.state / "pki" / f"{ADMIN}.kubeconfig"

    @property
    def kubectl(self) -> Path:
        return self.binaries / "kubectl"

    @property
    def helm(self) -> Path:
        return self.binaries / "helm"

    @property
    def audit_log(self) -> Path:
        """The audit log at level Metadata: one JSON object per line for each request since `up`."""
        return self.state / "audit.log"

    @property
    def logs(self) -> Path:
        """The folder with the log of each program, NAME.log."""
        return self.state / "logs"

    @property
    def plane(self) -> ControlPlane:
        """The control plane in its namespace."""
        inside = () if self.endpoint.local else enter(require(self.state, "network"), mount=False)
        return ControlPlane(self.state, self.binaries, self.endpoint, inside)

    def env(self) -> dict[str, str]:
        """Environment for subprocesses: KUBECONFIG, and a PATH with this cluster's kubectl and
        helm.
        """
        path = f"{self.binaries}{os.pathsep}{os.environ.get('PATH', '/usr/bin:/bin')}"
        return {"KUBECONFIG": str(self.kubeconfig), "PATH": path}

    def run_kubectl(self, *arguments: str, stdin: str | None = None, timeout: float = 60) -> str:
        """Run kubectl as admin. Return its output; if kubectl fails, raise ClusterError with the
        output.
        """
        argv = [str(self.kubectl), f"--kubeconfig={self.kubeconfig}", *arguments]
        return run(argv, stdin=stdin, env={**os.environ, **self.env()}, timeout=timeout)

    def node(self, name: str) -> Node:
        """Return the embedded node with this name."""
        if self.mode != EMBEDDED or name not in self.nodes:
            known = ", ".join(self.nodes) if self.mode == EMBEDDED else f"none in mode {self.mode}"
            raise ClusterError(f"no node {name}; real nodes of {self.name}: {known}")
        return Node(
            ControlPlane(self.state, self.binaries, self.endpoint), self.nodes.index(name) + 1
        )

    def load(self, archives: Sequence[Path]) -> None:
        """Import image archives into all running nodes concurrently."""
        check_archives(archives)
        if self.mode == KIND:
            kind.load(self.name, archives)
            return
        targets = [self.node(name) for name in self.nodes if name not in self.stopped()]
        with ThreadPoolExecutor(len(targets)) as pool:
            for done in [
                pool.submit(node.load, archive) for archive in archives for node in targets
            ]:
                done.result()
        self.note_loaded(archives)

    def not_loaded(self, archives: Sequence[Path]) -> list[Path]:
        """Return the archives that are not loaded, or that have changed since they were loaded."""
        known = self._loaded()
        return [archive for archive in archives if imagestore.key(archive) not in known]

    def note_loaded(self, archives: Sequence[Path]) -> None:
        """Record that every node has these archives."""
        keys = self._loaded() | {imagestore.key(archive) for archive in archives}
        (self.state / "loaded.json").write_text(json.dumps(sorted(keys)))

    def _loaded(self) -> set[str]:
        path = self.state / "loaded.json"
        return set(json.loads(path.read_text())) if path.exists() else set()

    def stopped(self) -> set[str]:
        """Return the nodes that stop_node has stopped."""
        return {path.stem for path in (self.state / "stopped").glob("*")}

    def stop_node(self, name: str) -> None:
        """Power off a node: kubelet, containerd and all containers on it end at once."""
        if self.mode == KIND:
            kind.stop_node(self.name, name)
            return
        node = self.node(name)
        (self.state / "stopped").mkdir(exist_ok=True)
        (self.state / "stopped" / name).touch()
        node.power_off()

    def start_node(self, name: str) -> None:
        """Power on a node again, with the same name, address, disk and images."""
        if self.mode == KIND:
            kind.start_node(self.name, name)
            return
        node = self.node(name)
        if not node.not_running():
            return
        node.power_off()  # remove the remains
        node.connect(len(self.nodes))
        node.start_containerd()
        node.start_kubelet()
        (self.state / "stopped" / name).unlink(missing_ok=True)

    def pids(self, namespace: str, pod: str, container: str) -> list[int]:
        """Return the host pids of a container's processes, lowest first."""
        return pods.container_pids(
            self.run_kubectl, state.cgroup(self.state), (namespace, pod, container)
        )

    def kill_sandbox(self, namespace: str, pod: str) -> int:
        """Kill the sandbox process of a running pod. The pod keeps its uid and gets a new IP.
        Return the killed pid.
        """
        return pods.kill_sandbox(self.run_kubectl, state.cgroup(self.state), (namespace, pod))

    def components(self) -> tuple[str, ...]:
        """Return the names of all programs, e.g. etcd, kube-apiserver, kwok, node-1-kubelet."""
        return tuple(recorded(self.state))

    def stop_component(
        self, name: str, sig: signal.Signals = signal.SIGKILL, timeout: float = 20
    ) -> None:
        """End a program with a signal, and wait up to `timeout` seconds for it to end."""
        stop(require(self.state, name), sig, timeout)

    def signal_component(self, name: str, sig: signal.Signals) -> None:
        """Send a signal to a program, e.g. SIGSTOP to freeze the apiserver and SIGCONT to resume
        it.
        """
        os.kill(require(self.state, name).pid, sig)

    def start_component(self, name: str) -> None:
        """Start a program again with the same command."""
        process = recorded(self.state).get(name)
        if process is None:
            raise ClusterError(f"no program {name}; programs: {', '.join(self.components())}")
        if not process.alive:
            owner = next(
                (self.state / node for node in self.nodes if name.startswith(f"{node}-")),
                self.state,
            )
            spawn(self.state, name, process.argv, owner)

    def problems(self) -> list[str]:
        """Return the cluster's problems; [] if it is healthy. Stopped nodes are not a problem."""
        if self.mode == KIND:
            return kind.problems(self.name)
        resting = tuple(f"{name}-" for name in self.stopped())
        known = {
            name: p
            for name, p in recorded(self.state).items()
            if not name.startswith(resting or ("/",))
        }
        dead = [
            f"{name} has exited: {log_tail(self.state, name, 2)}"
            for name, p in known.items()
            if not p.alive
        ]
        if dead or not known:
            return dead or ["its start was never completed"]
        if reason := ControlPlane(self.state, self.binaries, self.endpoint).not_ready():
            return [reason]
        ready = self.ready_nodes()
        return [f"{node} is not Ready" for node in self.nodes if node not in ready | self.stopped()]

    def ready_nodes(self) -> set[str]:
        """Return the names of the nodes that are Ready."""
        path = (
            '{range .items[*]}{.metadata.name}={.status.conditions[?(@.type=="Ready")].status}'
            " {end}"
        )
        listed = self.run_kubectl("get", "nodes", "-o", f"jsonpath={path}").split()
        return {word.removesuffix("=True") for word in listed if word.endswith("=True")}

    def down(self) -> None:
        """Remove the cluster completely."""
        with state.exclusive(self.state):
            if self.mode == KIND:
                kind.down(self.name)
            teardown.remove(self.state)

    def save(self) -> None:
        """Write the file that `find` reads."""
        fields = {**asdict(self), "state": str(self.state), "binaries": str(self.binaries)}
        (self.state / FILE).write_text(json.dumps(fields))


def check_archives(archives: Sequence[Path]) -> None:
    """Raise ClusterError if an archive does not exist."""
    if absent := [str(path) for path in archives if not path.is_file()]:
        raise ClusterError(f"no such image archive: {', '.join(absent)}")


def find(name: str) -> Cluster | None:
    """Return the cluster with this name, healthy or not; None if there is none."""
    place = state.folder(name)
    try:
        fields = json.loads((place / FILE).read_text())
        listens = fields.pop("endpoint")
        endpoint = Endpoint(**{**listens, "ip_families": tuple(listens["ip_families"])})
        return Cluster(
            **{
                **fields,
                "state": place,
                "binaries": Path(fields["binaries"]),
                "nodes": tuple(fields["nodes"]),
                "endpoint": endpoint,
            }
        )
    except (OSError, ValueError, TypeError, KeyError):
        return None


def get(name: str) -> Cluster:
    """Return the cluster with this name. If there is none, the error explains how to start it."""
    found = find(name)
    if found is None:
        raise ClusterError(
            f"no cluster {name} in {state.root()}; start it with: python -m cluster up --name"
            f" {name}"
        )
    return found
