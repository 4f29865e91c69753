"""A namespace for one test in a running cluster: apply, read, wait with a timeout, and explain a
failed wait.
"""

import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import count
from typing import Any

import yaml
from cluster import Cluster, ClusterError
from cluster.waiting import until
from kubernetes import client, config

Body = dict[str, Any]

HOME = "dijob-system"
OPERATORS = "app.kubernetes.io/name=dijob,app.kubernetes.io/component=operator"
MAIN = "di-container"
GATE = "dijob-gate"
MANAGED = "app.kubernetes.io/managed-by=dijob-operator"
JOB_LABEL = "diengine.opendilab.org/job"
RANK_LABEL = "diengine.opendilab.org/rank"
POLL_SECONDS = 0.2
_CONTAINERS = (
    "{range .status['initContainerStatuses','containerStatuses'][*]}{.name}={.state} {end}"
)
_STATES = _CONTAINERS + r"{.metadata.annotations.diengine\.opendilab\.org/node-ips}"
_NAMES = ("get", "pods", "-o", "name")
_numbers = count(1)


@dataclass(frozen=True)
class Api:
    """Reads for polling, which take a few milliseconds each. (kubectl would start a process.)"""

    # The type hints are wrong for raw responses.
    core: Any
    custom: Any

    @staticmethod
    def of(cluster: Cluster) -> "Api":
        connection = config.new_client_from_config(str(cluster.kubeconfig))
        return Api(client.CoreV1Api(connection), client.CustomObjectsApi(connection))

    def pods(self, namespace: str, selector: str) -> list[Body]:
        """Return the pods of a label selector as JSON."""
        answer = self.core.list_namespaced_pod(
            namespace, label_selector=selector, _preload_content=False
        )
        return list(json.loads(answer.data)["items"])

    def job(self, namespace: str, name: str) -> Body:
        """The DIJob; {} if there is none."""
        try:
            found: Body = self.custom.get_namespaced_custom_object(
                "diengine.opendilab.org", "v2alpha1", namespace, "dijobs", name
            )
        except client.ApiException as error:
            if error.status == 404:
                return {}
            raise
        return found

    def logs(self, namespace: str, pod: str, previous: bool = False) -> str:
        """Return the log of a pod's main container, or of its previous run; "" if there is none."""
        try:
            answer = self.core.read_namespaced_pod_log(
                pod, namespace, container=MAIN, previous=previous, _preload_content=False
            )
        except client.ApiException as error:
            # The pod does not exist, has no node, or its container has not started.
            if error.status in (400, 404):
                return ""
            raise
        return str(answer.data.decode(errors="replace"))


@dataclass(frozen=True)
class Space:
    """A namespace in a cluster, with its jobs."""

    cluster: Cluster
    api: Api
    name: str
    started: float = field(default_factory=time.monotonic)

    def command(self, *arguments: str) -> list[str]:
        """Return a kubectl command line for this namespace, to run it as a process."""
        return [
            str(self.cluster.kubectl),
            f"--kubeconfig={self.cluster.kubeconfig}",
            "-n",
            self.name,
            *arguments,
        ]

    def kubectl(self, *arguments: str, stdin: str | None = None, timeout: float = 60) -> str:
        """Run kubectl in this namespace. Raises ClusterError with its output if it fails."""
        return self.cluster.run_kubectl("-n", self.name, *arguments, stdin=stdin, timeout=timeout)

    def apply(self, *objects: Body) -> None:
        """Apply objects, as a user does with a file."""
        self.kubectl("apply", "-f", "-", stdin=yaml.safe_dump_all(objects))

    def job(self, name: str) -> Body:
        """The DIJob; {} if there is none."""
        return self.api.job(self.name, name)

    def status(self, name: str) -> Body:
        """Return the status of the DIJob, or {} if there is none yet."""
        found: Body = self.job(name).get("status") or {}
        return found

    def condition(self, name: str, type_: str) -> Body:
        """Return a condition of the DIJob, or {} if there is none of that type."""
        return next((c for c in self.status(name).get("conditions", ()) if c["type"] == type_), {})

    def pods(self, job: str) -> list[Body]:
        """Return the job's pods in rank order, including those that are being deleted."""
        found = self.api.pods(self.name, f"{JOB_LABEL}={job}")
        return sorted(found, key=lambda pod: int(pod["metadata"]["labels"][RANK_LABEL]))

    def names(self, job: str) -> list[str]:
        """Return the names of the job's pods in rank order."""
        return [pod["metadata"]["name"] for pod in self.pods(job)]

    def until_left(self, job: str, *names: str) -> float:
        """Poll until exactly these pods of a job are left. Return how many seconds it took."""

        def problem() -> str:
            left = self.names(job)
            return "" if left == list(names) else f"there are {left}"

        return self.until(f"of {job} only {names or 'nothing'} is left", problem, 180)

    def ips(self, job: str) -> list[str]:
        """Return the pods' addresses in rank order, as the apiserver has them."""
        return [pod["status"].get("podIP", "") for pod in self.pods(job)]

    def uids(self, job: str) -> set[str]:
        """Return the pods' uids, which change if a pod is re-created."""
        return {pod["metadata"]["uid"] for pod in self.pods(job)}

    def logs(self, pod: str) -> str:
        """Return the log of the main container, or "" before it has started."""
        return self.api.logs(self.name, pod)

    def printed(self, pod: str) -> str:
        """Return what the program in the main container has printed. The log can also contain lines
        of the launcher, for example about a slow start on a busy machine.
        """
        lines = self.logs(pod).splitlines(keepends=True)
        return "".join(line for line in lines if not line.startswith("dijob: "))

    def all_logs(self, pod: str) -> str:
        """Return the log of the main container with that of its previous run."""
        return self.api.logs(self.name, pod, previous=True) + self.logs(pod)

    def execute(self, pod: str, *command: str, stdin: str | None = None) -> str:
        """Run a command in the main container, and return its output."""
        flags = ("-i",) if stdin is not None else ()
        return self.kubectl("exec", *flags, pod, "-c", MAIN, "--", *command, stdin=stdin)

    def touch(self, pod: str, file: str) -> None:
        """Create a file in the main container. The program that waits for it may end before the
        command, which is then killed.
        """
        try:
            self.execute(pod, "touch", file)
        except ClusterError as error:
            if "exit code 137" not in str(error):
                raise

    def until(self, what: str, problem: Callable[[], str], seconds: float) -> float:
        """Poll until problem() is "", and return how many seconds it took. Raises NotWithin with
        the state after the timeout.
        """
        return until(what, problem, seconds, self.evidence, POLL_SECONDS)

    def until_true(self, job: str, condition: str, seconds: float = 180) -> float:
        """Poll until a condition of the DIJob is True."""

        def problem() -> str:
            return (
                ""
                if self.condition(job, condition).get("status") == "True"
                else str(self.condition(job, condition))
            )

        return self.until(f"{self.name}/{job} is {condition}", problem, seconds)

    @staticmethod
    def seconds_since(stamp: str) -> float:
        """Return the seconds since a time in the apiserver's format."""
        return (datetime.now(UTC) - datetime.fromisoformat(stamp)).total_seconds()

    def until_gone(self, what: str, still: Callable[[], list[str]], seconds: float) -> float:
        """Poll until still() returns an empty list."""
        return self.until(f"{what} gone", lambda: " ".join(still()), seconds)

    def children(self) -> list[str]:
        """Return the names of all objects that the operator has created for jobs here."""
        return self.kubectl("get", "pods,services", "-l", MANAGED, "-o", "name").split()

    def evidence(self) -> str:
        """Return the state for a failure message. Short and informative parts come first, because
        long outputs are cut at their end.
        """
        names = self._try(*_NAMES, "-n", self.name).split()
        log = self._try("-n", HOME, "logs", "deployment/dijob", "--tail=30")
        events = self._try("-n", self.name, "get", "events", "--sort-by=.lastTimestamp")
        jobs = self._try("-n", self.name, "get", "dij", "-o", "yaml")
        parts = [
            (
                "--- kubectl get"
                f" pods\n{self._try('-n', self.name, 'get', 'pods', '-o', 'wide')[-3000:]}"
            ),
            *(f"--- {name}, its containers\n{self._containers(name)}" for name in names),
            f"--- the operator's log\n{log[-4000:]}",
            f"--- events\n{events[-4000:]}",
            *(f"--- {name}\n{self._told_by(name)}" for name in names),
            f"--- kubectl get dij -o yaml\n{jobs[-6000:]}",
        ]
        return "\n".join(parts)

    def _containers(self, pod: str) -> str:
        """Return the containers' states with the pod's peer list, and the ends of the logs of the
        gate and of the main container.
        """
        states = self._try("-n", self.name, "get", pod, "-o", f"jsonpath={_STATES}")
        gate = self._try("-n", self.name, "logs", pod, "-c", GATE, "--tail=2")
        program = self._try("-n", self.name, "logs", pod, "--tail=3")
        return f"{states[-1500:]}\nthe gate: {gate[-500:]}\nthe program: {program[-800:]}"

    def _told_by(self, pod: str) -> str:
        """Return a pod's state, and the ends of the logs of its main container and of its previous
        run.
        """
        state = self._try("-n", self.name, "get", pod, "-o", "jsonpath={.status}")
        logs = ("-n", self.name, "logs", pod, "--tail=12")
        return (
            f"{state[-3000:]}\n{self._try(*logs)[-2000:]}\nbefore:"
            f" {self._try(*logs, '--previous')[-2000:]}"
        )

    def _try(self, *command: str) -> str:
        try:
            return self.cluster.run_kubectl(*command)
        except ClusterError as error:
            return str(error)


@contextmanager
def opened(cluster: Cluster, api: Api, title: str) -> Iterator[Space]:
    """Yield a new namespace named after a test. At the end it is deleted, without waiting."""
    words = "".join(c if c.isalnum() else "-" for c in title.lower()).strip("-")
    # A unique name: an earlier run's namespace may still be terminating.
    name = f"{words[:40].strip('-')}-{int(time.time()) % 100_000}-{next(_numbers)}"
    cluster.run_kubectl("create", "namespace", name)
    space = Space(cluster, api, name)
    try:
        space.until("the default service account", lambda: _account_missing(space), 120)
        yield space
    finally:
        # Delete the jobs first: the operator would replace pods while the namespace is deleted.
        space.kubectl("delete", "dijobs", "--all", "--wait=false")
        cluster.run_kubectl("delete", "namespace", name, "--wait=false")


def waits_for_list(pod: Body) -> bool:
    """Return whether a pod waits for its peer list: its gate runs, or, in a pod without a gate, the
    launcher in its main container. Such a container is not Ready before its program starts.
    """
    inits = pod["status"].get("initContainerStatuses") or ()
    states = {one["name"]: one["state"] for one in inits}
    if any(one["name"] == GATE for one in pod["spec"].get("initContainers") or ()):
        return "running" in states.get(GATE, {})
    mains = pod["status"].get("containerStatuses") or ()
    return any("running" in one["state"] and not one["ready"] for one in mains)


@contextmanager
def without_operator(cluster: Cluster) -> Iterator[None]:
    """Stop the operator during the block. Afterwards it is ready again."""
    scale = ("-n", HOME, "scale", "deployment/dijob")
    cluster.run_kubectl(*scale, "--replicas=0")
    try:
        gone = (
            "-n",
            HOME,
            "wait",
            "pod",
            "-l",
            "app.kubernetes.io/name=dijob",
            "--for=delete",
            "--timeout=180s",
        )
        cluster.run_kubectl(*gone, timeout=190)
        yield
    finally:
        cluster.run_kubectl(*scale, "--replicas=1")
        cluster.run_kubectl(
            "-n", HOME, "rollout", "status", "deployment/dijob", "--timeout=180s", timeout=190
        )


def _account_missing(space: Space) -> str:
    names = space.kubectl("get", "serviceaccounts", "-o", "name")
    return "" if "default" in names else "it is not there"


def measured(name: str, value: object) -> None:
    """Print a measured figure. The mark MEASURED makes it easy to find in the output."""
    print(f"MEASURED {name}: {value}")
