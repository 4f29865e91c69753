"""A namespace of one test's own in a running cluster: apply, read, wait with a bound, and say why a
wait failed.
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
    """Reads for polling: a few milliseconds each, where kubectl takes a process of its own."""

    # Their annotations are wrong where the answer is not made into an object.
    core: Any
    custom: Any

    @staticmethod
    def of(cluster: Cluster) -> "Api":
        connection = config.new_client_from_config(str(cluster.kubeconfig))
        return Api(client.CoreV1Api(connection), client.CustomObjectsApi(connection))

    def pods(self, namespace: str, selector: str) -> list[Body]:
        """The pods that a label selector finds, as JSON."""
        answer = self.core.list_namespaced_pod(
            namespace, label_selector=selector, _preload_content=False
        )
        return list(json.loads(answer.data)["items"])

    def job(self, namespace: str, name: str) -> Body:
        """The DIJob; {} where there is none."""
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
        """What a pod's main container has printed, or did before its last restart; "" where it has
        not started.
        """
        try:
            answer = self.core.read_namespaced_pod_log(
                pod, namespace, container=MAIN, previous=previous, _preload_content=False
            )
        except client.ApiException as error:
            # No such pod, no node yet, no container that has started.
            if error.status in (400, 404):
                return ""
            raise
        return str(answer.data.decode(errors="replace"))


@dataclass(frozen=True)
class Space:
    """A namespace, the cluster around it, and the jobs in it."""

    cluster: Cluster
    api: Api
    name: str
    started: float = field(default_factory=time.monotonic)

    def command(self, *arguments: str) -> list[str]:
        """kubectl in this namespace as a command line, for what goes on while a test acts."""
        return [
            str(self.cluster.kubectl),
            f"--kubeconfig={self.cluster.kubeconfig}",
            "-n",
            self.name,
            *arguments,
        ]

    def kubectl(self, *arguments: str, stdin: str | None = None, timeout: float = 60) -> str:
        """kubectl in this namespace; ClusterError with its words where it fails."""
        return self.cluster.run_kubectl("-n", self.name, *arguments, stdin=stdin, timeout=timeout)

    def apply(self, *objects: Body) -> None:
        """`kubectl apply` of objects as a user has them in a file."""
        self.kubectl("apply", "-f", "-", stdin=yaml.safe_dump_all(objects))

    def job(self, name: str) -> Body:
        """The DIJob; {} where there is none."""
        return self.api.job(self.name, name)

    def status(self, name: str) -> Body:
        """The status of the DIJob; {} where there is none yet."""
        found: Body = self.job(name).get("status") or {}
        return found

    def condition(self, name: str, type_: str) -> Body:
        """One condition of a DIJob; {} where it has none of that type."""
        return next((c for c in self.status(name).get("conditions", ()) if c["type"] == type_), {})

    def pods(self, job: str) -> list[Body]:
        """The job's pods in rank order, also those that are being deleted."""
        found = self.api.pods(self.name, f"{JOB_LABEL}={job}")
        return sorted(found, key=lambda pod: int(pod["metadata"]["labels"][RANK_LABEL]))

    def names(self, job: str) -> list[str]:
        """The names of the job's pods in rank order."""
        return [pod["metadata"]["name"] for pod in self.pods(job)]

    def until_left(self, job: str, *names: str) -> float:
        """Poll until exactly these pods of a job are left; the seconds that it took."""

        def problem() -> str:
            left = self.names(job)
            return "" if left == list(names) else f"there are {left}"

        return self.until(f"of {job} only {names or 'nothing'} is left", problem, 60)

    def ips(self, job: str) -> list[str]:
        """The pods' addresses in rank order, as the apiserver has them."""
        return [pod["status"].get("podIP", "") for pod in self.pods(job)]

    def uids(self, job: str) -> set[str]:
        """The pods' uids: the same as long as none was made anew."""
        return {pod["metadata"]["uid"] for pod in self.pods(job)}

    def logs(self, pod: str) -> str:
        """What the main container has printed; "" before it has started."""
        return self.api.logs(self.name, pod)

    def all_logs(self, pod: str) -> str:
        """The same, with what it printed before its last restart."""
        return self.api.logs(self.name, pod, previous=True) + self.logs(pod)

    def execute(self, pod: str, *command: str, stdin: str | None = None) -> str:
        """Run a command in the main container: its output."""
        flags = ("-i",) if stdin is not None else ()
        return self.kubectl("exec", *flags, pod, "-c", MAIN, "--", *command, stdin=stdin)

    def until(self, what: str, problem: Callable[[], str], seconds: float) -> float:
        """Poll until problem() is ""; the seconds that it took. NotWithin with evidence after
        the bound.
        """
        return until(what, problem, seconds, self.evidence, POLL_SECONDS)

    def until_true(self, job: str, condition: str, seconds: float = 60) -> float:
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
        """Seconds since a time as the apiserver writes it."""
        return (datetime.now(UTC) - datetime.fromisoformat(stamp)).total_seconds()

    def until_gone(self, what: str, still: Callable[[], list[str]], seconds: float) -> float:
        """Poll until nothing is left of what still() lists."""
        return self.until(f"{what} gone", lambda: " ".join(still()), seconds)

    def children(self) -> list[str]:
        """Names of everything that operators make for jobs here."""
        return self.kubectl("get", "pods,services", "-l", MANAGED, "-o", "name").split()

    def evidence(self) -> str:
        """What a person would look at. The short and telling parts come first: long outputs are cut
        at their end.
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
        """What each container is at, the gate's last words, and the list that the pod was given."""
        states = self._try("-n", self.name, "get", pod, "-o", f"jsonpath={_STATES}")
        gate = self._try("-n", self.name, "logs", pod, "-c", GATE, "--tail=2")
        return f"{states[-1500:]}\nthe gate: {gate[-500:]}"

    def _told_by(self, pod: str) -> str:
        """A pod's state, and the end of what its main container has printed, now and before its
        last restart.
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
    """A new namespace named after a test, deleted at the end (its pods end on their own time)."""
    words = "".join(c if c.isalnum() else "-" for c in title.lower()).strip("-")
    # Unlike any that an earlier run left terminating.
    name = f"{words[:40].strip('-')}-{int(time.time()) % 100_000}-{next(_numbers)}"
    cluster.run_kubectl("create", "namespace", name)
    space = Space(cluster, api, name)
    try:
        space.until("the default service account", lambda: _account_missing(space), 30)
        yield space
    finally:
        # Jobs first: the operator would mend them while their namespace falls apart.
        space.kubectl("delete", "dijobs", "--all", "--wait=false")
        cluster.run_kubectl("delete", "namespace", name, "--wait=false")


@contextmanager
def without_operator(cluster: Cluster) -> Iterator[None]:
    """No operator runs inside the block; it is back and ready after it."""
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
            "--timeout=60s",
        )
        cluster.run_kubectl(*gone, timeout=70)
        yield
    finally:
        cluster.run_kubectl(*scale, "--replicas=1")
        cluster.run_kubectl(
            "-n", HOME, "rollout", "status", "deployment/dijob", "--timeout=60s", timeout=70
        )


def _account_missing(space: Space) -> str:
    names = space.kubectl("get", "serviceaccounts", "-o", "name")
    return "" if "default" in names else "it is not there"


def measured(name: str, value: object) -> None:
    """Print a figure in the form that the README's table is read from."""
    print(f"MEASURED {name}: {value}")
