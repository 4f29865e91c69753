"""A real control plane with pretended nodes, our CRD and a running operator, as the tests of the
API see it.
"""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import yaml
from chart.lab import Lab, Said
from cluster import Cluster
from cluster.waiting import PAUSE_SECONDS, until_true
from manifests import dijob
from planes import ROOT
from space import JOB_LABEL, Api

Body = dict[str, Any]
# Where kubectl looks when it is told nothing.
NAMESPACE = "default"


@dataclass(frozen=True)
class Plane:
    """kubectl against the control plane, and polls that end with the evidence."""

    cluster: Cluster
    log: Path  # the operator's
    port: int = 0  # of the operator's metrics

    @cached_property
    def api(self) -> Api:
        """For polls: a kubectl costs 0.16 s of CPU, and the tests of this stage would start
        2,000.
        """
        return Api.of(self.cluster)

    @cached_property
    def lab(self) -> Lab:
        return Lab(self.cluster.binaries, self.cluster.kubeconfig)

    def ask(self, *arguments: str, stdin: str = "") -> Said:
        """Run kubectl; a refusal is an answer, not an error."""
        return self.lab.try_kubectl(*arguments, stdin=stdin)

    def kubectl(self, *arguments: str, stdin: str = "") -> str:
        """kubectl's output; an AssertionError with its words when it fails."""
        return self.lab.kubectl(*arguments, stdin=stdin)

    def try_apply(self, body: Mapping[str, Any]) -> Said:
        """kubectl apply of a manifest that may be refused."""
        return self.ask("apply", "-f", "-", stdin=yaml.safe_dump(body))

    def apply(self, *bodies: Body) -> None:
        """kubectl apply of manifests."""
        self.lab.apply(*bodies)

    def get(self, kind: str, name: str) -> Body | None:
        """The object, None where there is none."""
        if kind in ("dij", "dijob", "dijobs"):
            return self.api.job(NAMESPACE, name) or None
        text = self.kubectl("get", kind, name, "-o", "json", "--ignore-not-found")
        found: Body | None = json.loads(text) if text else None
        return found

    def pods(self, job: str) -> dict[str, Body]:
        """The pods of a job by name."""
        # A list says what they are, they do not.
        listed = self.api.pods(NAMESPACE, f"{JOB_LABEL}={job}")
        return {pod["metadata"]["name"]: {"kind": "Pod", **pod} for pod in listed}

    def uids(self, job: str) -> dict[str, str]:
        """The uids of a job's pods by the pods' names."""
        return {name: pod["metadata"]["uid"] for name, pod in self.pods(job).items()}

    def condition(self, job: str, kind: str) -> Body:
        """The condition of a job, {} where it is not there."""
        status = (self.get("dijob", job) or {}).get("status", {})
        found = (one for one in status.get("conditions", ()) if one["type"] == kind)
        return next(found, {})

    def until(
        self,
        what: str,
        true: Callable[[], object],
        evidence: Callable[[], object],
        seconds: float = 30,
    ) -> None:
        """Poll; on failure the evidence and the end of the operator's log are in the message."""

        def shown() -> str:
            return f"seen: {evidence()}; operator: {self.log.read_text()[-2000:]}"

        until_true(what, true, seconds, shown, PAUSE_SECONDS)

    def until_condition(
        self, job: str, kind: str, status: str, *words: str, seconds: float = 30
    ) -> None:
        """Until the condition has that status and all the words are in its reason or message."""

        def true() -> bool:
            now = self.condition(job, kind)
            text = f"{now.get('reason')} {now.get('message')}"
            return now.get("status") == status and all(word in text for word in words)

        what = f"condition {kind}={status} of {job} with {words}"
        self.until(what, true, lambda: (self.get("dijob", job) or {}).get("status"), seconds)

    def remove(self, *things: str) -> None:
        """Delete objects (`kind/name`), and wait until they and the pods of the jobs among them are
        gone.
        """
        self.kubectl("delete", *things, "--ignore-not-found", "--wait=true", "--timeout=30s")
        for name in [
            thing.removeprefix("dijob/") for thing in things if thing.startswith("dijob/")
        ]:
            self.until_no_pods(name)

    def until_no_pods(self, name: str) -> None:
        """Until the garbage collector has taken the pods of a deleted job.

        Its first deletion after the CRD was made can take a minute: it looks for new kinds every 30
        s only.
        """
        what = f"the pods of {name} are gone"
        self.until(what, lambda: not self.pods(name), lambda: list(self.pods(name)), seconds=100)


@contextmanager
def operator(
    kubeconfig: Path,
    log: Path,
    *namespaces: str,
    lease: str = "",
    port: int = 0,
    flags: tuple[str, ...] = (),
) -> Iterator[subprocess.Popen[bytes]]:
    """The operator of these namespaces (none: of all) as a process, with others of that Lease ("":
    alone), with its metrics on `port`. `flags` are more of its flags.
    """
    scope = [word for namespace in namespaces for word in ("--namespace", namespace)]
    told = [f"--kubeconfig={kubeconfig}", f"--health-port={port}", *scope, *flags]
    argv = [sys.executable, "-m", "dijob", *told, *([f"--lease={lease}"] if lease else [])]
    env = {**os.environ, "PYTHONPATH": str(ROOT / "operator")}
    with log.open("ab") as out:
        process = subprocess.Popen(argv, env=env, stdout=out, stderr=out)
        try:
            yield process
        finally:
            process.terminate()
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait(5)


def job(name: str, **spec: Any) -> Body:
    """A DIJob of two pods that runs on pretended nodes."""
    main = {"image": "example/x", "command": ["sh", "-c"], "args": ["ditask -m a.main"]}
    if not {"replicas", "minReplicas", "maxReplicas"} & spec.keys():
        spec |= {"minReplicas": 2, "maxReplicas": 2}
    return dijob(name, main, **{"service": "Always", **spec})


def changed(body: Body, path: str, value: Any) -> Body:
    """A copy of the manifest with one field (dotted path, numbers for list entries) set."""
    copy: Body = json.loads(json.dumps(body))
    place: Any = copy
    *parents, last = [int(part) if part.isdigit() else part for part in path.split(".")]
    for part in parents:
        place = place[part] if isinstance(part, int) else place.setdefault(part, {})
    place[last] = value
    return copy
