"""The stage of the scenarios: the control plane, Kueue, the operator, and the queues of two teams.

Each team has a ClusterQueue for three CPUs, and a job's rank needs one CPU. The ClusterQueues form
a cohort, so a team can borrow the other's unused quota.
"""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml
from cluster import Cluster
from cluster.waiting import until
from manifests import dijob
from planes import ROOT

from queues.controller import GROUP, KueueProcess
from queues.kills import Killer

Body = dict[str, Any]
API = f"{GROUP}/v1beta2"
TEAMS = ("team-a", "team-b")
EXIT = "test.dijob/exit"
JOB = "diengine.opendilab.org/job"
QUOTA = 3
# Kubernetes has another kind with this name (scheduling.k8s.io).
WORKLOADS = f"workloads.{GROUP}"
LABEL = f"{GROUP}/queue-name"
PRIORITY = f"{GROUP}/priority-class"
# How long a transition may take on a busy machine.
SECONDS = 120.0


def queue_objects() -> list[Body]:
    """Return the queues, the flavors and the priority classes."""
    made: list[Body] = [
        thing("ResourceFlavor", "default", {"nodeLabels": {"type": "kwok"}}),
        {**thing("WorkloadPriorityClass", "low"), "value": 10},
        {**thing("WorkloadPriorityClass", "high"), "value": 1000},
    ]
    for team in TEAMS:
        quota = {"name": "cpu", "nominalQuota": QUOTA}
        spec = {
            "cohortName": "all",
            "namespaceSelector": {},
            "preemption": {
                "withinClusterQueue": "LowerPriority",
                "reclaimWithinCohort": "Any",
            },
            "resourceGroups": [
                {
                    "coveredResources": ["cpu"],
                    "flavors": [{"name": "default", "resources": [quota]}],
                }
            ],
        }
        made.append(thing("ClusterQueue", team, spec))
        made.append(thing("LocalQueue", team, {"clusterQueue": team}))
    return made


def thing(kind: str, name: str, spec: Body | None = None) -> Body:
    body: Body = {"apiVersion": API, "kind": kind, "metadata": {"name": name}}
    return {**body, "spec": spec} if spec is not None else body


def queued_job(
    name: str, ranks: int, team: str = "team-a", priority: str = "", **spec: Any
) -> Body:
    """Return a DIJob whose ranks need one CPU each."""
    main = {
        "image": "example/x",
        "command": ["sh", "-c"],
        "args": ["ditask -m a.main"],
        "resources": {"requests": {"cpu": "1"}},
    }
    made = dijob(name, main, replicas=ranks, **spec)
    made["metadata"]["labels"] = {LABEL: team, **({PRIORITY: priority} if priority else {})}
    return made


@dataclass
class Stage:
    """What a scenario uses. `names` lists the names of the jobs that the scenario has created."""

    cluster: Cluster
    kueue: KueueProcess
    folder: Path
    names: list[str] = field(default_factory=list)
    # The kubeconfig of the operator (None: that of the cluster).
    kubeconfig: Path | None = None
    # Called repeatedly during a wait.
    meanwhile: Callable[[], None] = lambda: None
    _operator: subprocess.Popen[bytes] | None = None

    def start_operator(self) -> None:
        """Start the operator if it is not running."""
        if self._operator is not None:
            return
        argv = [
            sys.executable,
            "-m",
            "dijob",
            f"--kubeconfig={self.kubeconfig or self.cluster.kubeconfig}",
            "--health-port=0",
            "--kueue",
            '--redis-resources={"requests":{"cpu":"1"}}',
        ]
        env = {**os.environ, "PYTHONPATH": str(ROOT / "operator")}
        with (self.folder / "operator.log").open("ab") as log:
            self._operator = subprocess.Popen(argv, env=env, stdout=log, stderr=log)

    def kill_operator(self) -> None:
        """Kill the operator (kill -9)."""
        if self._operator is not None:
            self._operator.send_signal(signal.SIGKILL)
            self._operator.wait()
            self._operator = None

    @contextmanager
    def killed_by(self, victim: str) -> Iterator[Killer]:
        """Send the API requests of the operator or of Kueue through a proxy that can kill the
        sender.
        """
        of_operator = victim == "the operator"
        end, restart = (
            (self.kill_operator, self.start_operator)
            if of_operator
            else (self.kueue.kill, self.kueue.start)
        )
        killer = Killer(self.cluster.kubeconfig, self.folder / "proxy", end, restart)
        with killer.running():
            end()
            program: Stage | KueueProcess = self if of_operator else self.kueue
            program.kubeconfig = killer.kubeconfig
            restart()
            try:
                yield killer
            finally:
                end()
                program.kubeconfig = None
                restart()

    def apply(self, *bodies: Body) -> None:
        """Create or change objects."""
        self.names += [one["metadata"]["name"] for one in bodies if one["kind"] == "DIJob"]
        self.kubectl("apply", "-f", "-", stdin=yaml.safe_dump_all(bodies))

    def kubectl(self, *arguments: str, stdin: str | None = None) -> str:
        """Run kubectl, and return its output."""
        return self.cluster.run_kubectl(*arguments, stdin=stdin)

    def get(self, kind: str, name: str) -> Body:
        """Return an object; {} if it does not exist."""
        text = self.kubectl("get", kind, name, "-o", "json", "--ignore-not-found")
        found: Body = json.loads(text) if text else {}
        return found

    def edit(self, name: str, **spec: Any) -> None:
        """Merge fields into the spec of a job."""
        patch = json.dumps({"spec": spec})
        self.kubectl("patch", "dijob", name, "--type=merge", "-p", patch)

    def write_status(self, kind: str, name: str, **status: Any) -> None:
        """Merge fields into the status of an object, as a controller does."""
        patch = json.dumps({"status": status})
        self.kubectl("patch", kind, name, "--subresource=status", "--type=merge", "-p", patch)

    def workload(self, job: str) -> Body:
        """Return the Workload of a job; {} if there is none."""
        return next(iter(self.workloads(job)), {})

    def workloads(self, job: str) -> list[Body]:
        """Return the Workloads of a job; a job that grows has two."""
        text = self.kubectl("get", WORKLOADS, "-l", f"{JOB}={job}", "-o", "json")
        found: list[Body] = json.loads(text)["items"]
        return found

    def reserved(self) -> int:
        """Return how many CPUs all jobs have reserved."""
        listed = json.loads(self.kubectl("get", "clusterqueues", "-o", "json"))["items"]
        return sum(
            int(resource["total"])
            for queue in listed
            for flavor in (queue.get("status") or {}).get("flavorsReservation") or ()
            for resource in flavor["resources"]
            if resource["name"] == "cpu"
        )

    def pods(self, job: str) -> dict[str, Body]:
        """Return the pods of a job by name."""
        listed = json.loads(self.kubectl("get", "pods", "-l", f"{JOB}={job}", "-o", "json"))
        return {one["metadata"]["name"]: one for one in listed["items"]}

    def running(self, job: str) -> int:
        """Return the number of pods of a job that have a node and have not ended."""
        ended = ("Succeeded", "Failed")
        return sum(
            bool(one["spec"].get("nodeName")) and one["status"].get("phase") not in ended
            for one in self.pods(job).values()
        )

    def exit(self, *pods: str) -> None:
        """Make the programs in these pods exit with 0."""
        self.kubectl("annotate", "pod", *pods, f"{EXIT}=0")

    def phase(self, job: str, phase: str, seconds: float = SECONDS) -> float:
        """Wait until a job has this phase. Return the seconds that it took."""

        def missing() -> str:
            self.meanwhile()
            now = (self.get("dijob", job).get("status") or {}).get("phase")
            return "" if now == phase else f"it is {now}"

        return until(f"{job} is {phase}", missing, seconds, lambda: self.evidence(job))

    def says(self, job: str, type_: str, *words: str, seconds: float = SECONDS) -> str:
        """Wait until all these words are in the reason or message of a condition. Return the
        message.
        """
        seen: list[str] = [""]

        def missing() -> str:
            status = self.get("dijob", job).get("status") or {}
            found: Body = next((c for c in status.get("conditions", ()) if c["type"] == type_), {})
            seen[0] = found.get("message", "")
            text = f"{found.get('reason')} {seen[0]}"
            return "" if all(word in text for word in words) else text

        until(f"{type_} of {job} has {words}", missing, seconds, lambda: self.evidence(job))
        return seen[0]

    def until(self, what: str, true: Callable[[], object], seconds: float = SECONDS) -> float:
        """Wait for a condition. Return the seconds that it took."""

        def missing() -> str:
            self.meanwhile()
            return "" if true() else "not yet"

        return until(what, missing, seconds, self.evidence)

    def evidence(self, *jobs: str) -> str:
        """Return the state, for the message of a failed scenario."""
        names = jobs or tuple(self.names)
        parts = [
            json.dumps(
                {
                    "job": {
                        key: value
                        for key, value in (self.get("dijob", name).get("status") or {}).items()
                        if key in ("phase", "message")
                    },
                    "workload": self.workload(name).get("status"),
                }
            )[:1500]
            for name in names
        ]
        log = (self.folder / "operator.log").read_text()[-800:]
        return "\n".join([*parts, log, self.kueue.tail()[-1500:]])

    def clear(self) -> None:
        """Delete the jobs and the objects that belong to them."""
        for name in self.names:
            self.kubectl("delete", "dijob", name, "--ignore-not-found", "--wait=true")
            # The garbage collector may not know the kind of the job yet.
            self.kubectl("delete", WORKLOADS, "-l", f"{JOB}={name}", "--wait=true")
            more = ("--grace-period=0", "--force", "--wait=true")
            self.kubectl("delete", "pods", "-l", f"{JOB}={name}", *more)
        self.names.clear()
