"""A real control plane with simulated nodes, our CRD and a running operator."""

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
# The namespace that kubectl uses by default.
NAMESPACE = "default"
# This bound only guards against hanging: most waits take a second or two on an idle machine. It is
# less than a minute, because the operator's audit, once a minute, would hide a failed watch.
GUARD_SECONDS = 50.0


@dataclass(frozen=True)
class Plane:
    """kubectl for the control plane, and polls that show the state if they fail."""

    cluster: Cluster
    log: Path  # the operator's log
    port: int = 0  # of the operator's metrics

    @cached_property
    def api(self) -> Api:
        """An API client for polls. These tests would start 2,000 kubectl processes with 0.16 s of
        CPU each.
        """
        return Api.of(self.cluster)

    @cached_property
    def lab(self) -> Lab:
        return Lab(self.cluster.binaries, self.cluster.kubeconfig)

    def ask(self, *arguments: str, stdin: str = "") -> Said:
        """Run kubectl, and return its output even if it fails."""
        _keep_other_tests_objects(arguments)
        return self.lab.try_kubectl(*arguments, stdin=stdin)

    def kubectl(self, *arguments: str, stdin: str = "") -> str:
        """Return kubectl's output. If kubectl fails, raise an AssertionError with the output."""
        _keep_other_tests_objects(arguments)
        return self.lab.kubectl(*arguments, stdin=stdin)

    def try_apply(self, body: Mapping[str, Any]) -> Said:
        """Apply a manifest that may be rejected."""
        return self.ask("apply", "-f", "-", stdin=yaml.safe_dump(body))

    def apply(self, *bodies: Body) -> None:
        """Apply manifests."""
        self.lab.apply(*bodies)

    def get(self, kind: str, name: str) -> Body | None:
        """Return an object, or None if it does not exist."""
        if kind in ("dij", "dijob", "dijobs"):
            return self.api.job(NAMESPACE, name) or None
        text = self.kubectl("get", kind, name, "-o", "json", "--ignore-not-found")
        found: Body | None = json.loads(text) if text else None
        return found

    def pods(self, job: str) -> dict[str, Body]:
        """Return the pods of a job by name."""
        # The kind is in the list, not in its items.
        listed = self.api.pods(NAMESPACE, f"{JOB_LABEL}={job}")
        return {pod["metadata"]["name"]: {"kind": "Pod", **pod} for pod in listed}

    def uids(self, job: str) -> dict[str, str]:
        """Return the uids of a job's pods by name."""
        return {name: pod["metadata"]["uid"] for name, pod in self.pods(job).items()}

    def condition(self, job: str, kind: str) -> Body:
        """Return a condition of a job, or {} if there is none."""
        status = (self.get("dijob", job) or {}).get("status", {})
        found = (one for one in status.get("conditions", ()) if one["type"] == kind)
        return next(found, {})

    def make_namespace(self, name: str, labels: Mapping[str, str] | None = None) -> None:
        """Create a namespace with its labels in one request, because admission plugins may know an
        older version of it. Wait for its service account, without which pods are rejected.
        """
        meta = {"name": name, "labels": dict(labels or {})}
        self.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": meta})
        account = ("-n", name, "get", "serviceaccount", "default", "-o", "name")
        self.until(
            f"pods can be created in {name}",
            lambda: self.kubectl(*account, "--ignore-not-found"),
            lambda: None,
        )

    def until(
        self,
        what: str,
        true: Callable[[], object],
        evidence: Callable[[], object],
        seconds: float = GUARD_SECONDS,
    ) -> None:
        """Poll a condition. On failure, raise with the state and the end of the operator's log."""

        def shown() -> str:
            return f"seen: {evidence()}; operator: {self.log.read_text()[-2000:]}"

        until_true(what, true, seconds, shown, PAUSE_SECONDS)

    def until_condition(
        self, job: str, kind: str, status: str, *words: str, seconds: float = GUARD_SECONDS
    ) -> None:
        """Wait until a condition has a status, and its reason or message contains all words."""

        def true() -> bool:
            now = self.condition(job, kind)
            text = f"{now.get('reason')} {now.get('message')}"
            return now.get("status") == status and all(word in text for word in words)

        what = f"condition {kind}={status} of {job} with {words}"
        self.until(what, true, lambda: (self.get("dijob", job) or {}).get("status"), seconds)

    def remove(self, *things: str) -> None:
        """Delete objects (`kind/name`). Wait until they, and the pods of jobs, are gone.

        Nodes are deleted last, because a pod whose node is gone is only deleted a minute later.
        """
        jobs = [thing for thing in things if thing.startswith("dijob/")]
        nodes = [thing for thing in things if thing.startswith("node/")]
        others = [thing for thing in things if thing not in {*jobs, *nodes}]
        for group in (jobs + others, nodes):
            if group:
                self.kubectl(
                    "delete", *group, "--ignore-not-found", "--wait=true", "--timeout=100s"
                )
            for name in [one.removeprefix("dijob/") for one in group if one in jobs]:
                self.until_no_pods(name)

    def until_no_pods(self, name: str) -> None:
        """Wait until the garbage collector has deleted the pods of a deleted job."""
        what = f"the pods of {name} are gone"
        self.until(what, lambda: not self.pods(name), lambda: list(self.pods(name)), seconds=100)


def _keep_other_tests_objects(arguments: tuple[str, ...]) -> None:
    """Reject a deletion of all objects of a kind: all tests of this folder share the namespace with
    the healthy job, which must not change.
    """
    everything = arguments[:1] == ("delete",) and "--all" in arguments
    assert not everything, f"name the objects: {' '.join(arguments)}"


@contextmanager
def operator(
    kubeconfig: Path,
    log: Path,
    *namespaces: str,
    lease: str = "",
    port: int = 0,
    flags: tuple[str, ...] = (),
) -> Iterator[subprocess.Popen[bytes]]:
    """Run an operator process for some namespaces (none: all), with leader election if `lease` is
    given. Its metrics are on `port`. `flags` are additional options.
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
    """Return a DIJob of two pods for simulated nodes."""
    main = {"image": "example/x", "command": ["sh", "-c"], "args": ["ditask -m a.main"]}
    if not {"replicas", "minReplicas", "maxReplicas"} & spec.keys():
        spec |= {"minReplicas": 2, "maxReplicas": 2}
    return dijob(name, main, **{"service": "Always", **spec})


def changed(body: Body, path: str, value: Any) -> Body:
    """Return a copy of a manifest with one field set (dotted path, numbers for list items)."""
    copy: Body = json.loads(json.dumps(body))
    place: Any = copy
    *parents, last = [int(part) if part.isdigit() else part for part in path.split(".")]
    for part in parents:
        place = place[part] if isinstance(part, int) else place.setdefault(part, {})
    place[last] = value
    return copy
