"""The history as a process with exactly the permissions that the chart grants, on a real apiserver.
Users reach it through the apiserver's proxy for Services.
"""

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import yaml
from apiserver.plane import operator
from chart.lab import CHART, Lab, Said, job
from chart.test_chart_operator import asked, kubeconfig
from click.testing import CliRunner
from cluster import CONTROL_PLANE, Cluster, Options, up
from cluster.shell import until_established
from cluster.waiting import until
from dijob.cli.main import group
from dijob.names import ANNOTATION_RECORDED
from manifests import CRD
from planes import ROOT
from ports import free_port

pytestmark = pytest.mark.e2e

HOME, TEAM, FAR = "dijob-system", "team", "far"
SERVICE = "dijob-history"
PROXY = f"/api/v1/namespaces/{HOME}/services/{SERVICE}:http/proxy"
TTL = 2


@dataclass
class Recorded:
    """A cluster with an operator that keeps a history, and the history's process."""

    lab: Lab
    cluster: Cluster
    folder: Path
    store: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    port: int = field(default_factory=free_port)
    process: subprocess.Popen[bytes] | None = None

    @property
    def log(self) -> Path:
        return self.folder / "history.log"

    def start(self, *more: str) -> None:
        config = kubeconfig(self.lab, self.folder, SERVICE, HOME)
        told = [f"--kubeconfig={config}", f"--port={self.port}", "--health-port=0"]
        told += [*(self.store or (f"--sqlite={self.folder / 'history.db'}",)), *more]
        env = {**os.environ, "PYTHONPATH": str(ROOT / "operator"), **self.env}
        with self.log.open("ab") as out:
            argv = [sys.executable, "-m", "dijob.history", *told]
            self.process = subprocess.Popen(argv, env=env, stdout=out, stderr=out)

    def stop(self, how: signal.Signals = signal.SIGTERM) -> None:
        assert self.process is not None
        self.process.send_signal(how)
        code = self.process.wait(20)
        assert code in (0, -how), self.log.read_text()
        self.process = None

    def user(self, name: str) -> Path:
        """Return the kubeconfig of a service account in the team's namespace."""
        folder = self.folder / name
        if not folder.exists():
            folder.mkdir()
            kubeconfig(self.lab, folder, name, TEAM)
        return folder / "kubeconfig"

    def history(self, config: Path | None, *words: str) -> Said:
        """Run `kubectl dijob history` as a user, or as the administrator (None)."""
        # Processes would take a second each, most of it to import the client.
        used = str(config or self.lab.kubeconfig)
        done = CliRunner().invoke(group, ["history", *words, f"--kubeconfig={used}"])
        return Said(done.exit_code == 0, done.output.strip())

    def create(self, name: str, namespace: str = TEAM, code: int = 0, **spec: Any) -> str:
        """Create a job whose ranks exit after a moment. Return its uid."""
        body = job(name)
        exits = {"test.dijob/exit": str(code), "test.dijob/exit-delay": "1s"}
        body["spec"]["template"]["metadata"] = {"annotations": exits}
        body["spec"] |= {"replicas": 2, **spec}
        made = self.lab.kubectl(
            "create", "-n", namespace, "-o", "json", "-f", "-", stdin=yaml.safe_dump(body)
        )
        uid: str = json.loads(made)["metadata"]["uid"]
        return uid

    def body(self, name: str) -> dict[str, Any] | None:
        found = self.lab.try_kubectl("get", "dij", name, "-n", TEAM, "-o", "json")
        return json.loads(found.text) if found.ok else None

    def until(self, what: str, missing: Any, seconds: float = 60) -> None:
        evidence = lambda: self.log.read_text()[-3000:] if self.log.exists() else ""  # noqa: E731
        until(what, missing, seconds, evidence)

    def until_gone(self, name: str) -> None:
        self.until(f"{name} is gone", lambda: str(self.body(name) or ""))

    def until_ended(self, name: str) -> None:
        def missing() -> str:
            status = (self.body(name) or {}).get("status", {})
            return "" if status.get("completionTime") else str(status)

        self.until(f"{name} has ended", missing)

    def until_recorded(self, name: str, *words: str) -> None:
        def missing() -> str:
            said = self.history(None, name, "-n", TEAM)
            return "" if said.ok and all(word in said.text for word in words) else said.text

        self.until(f"the history shows {name} with {words}", missing)


@contextmanager
def recording(
    name: str, folder: Path, store: tuple[str, ...] = (), env: Mapping[str, str] | None = None
) -> Iterator[Recorded]:
    """Yield operator and history. The account bob may view the team's jobs, and eve may not."""
    with up(Options(name=name, mode=CONTROL_PLANE, kwok_nodes=2)) as cluster:
        lab = Lab(cluster.binaries, cluster.kubeconfig)
        for name in (HOME, TEAM, FAR):
            lab.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
        lab.helm("install", "dijob", str(CHART), "-n", HOME, "--set", "history.enabled=true")
        until_established(lab.kubectl, CRD)
        for account in ("bob", "carol", "eve"):
            lab.kubectl("create", "serviceaccount", account, "-n", TEAM)
        bound = ("--clusterrole=view", f"--serviceaccount={TEAM}:bob")
        lab.kubectl("create", "rolebinding", "bob", "-n", TEAM, *bound)
        # carol may see jobs, and no logs.
        rule = ("--verb=get,list", "--resource=dijobs.diengine.opendilab.org")
        lab.kubectl("create", "role", "jobs", "-n", TEAM, *rule)
        bound = ("--role=jobs", f"--serviceaccount={TEAM}:carol")
        lab.kubectl("create", "rolebinding", "carol", "-n", TEAM, *bound)
        made = Recorded(lab, cluster, folder, store, env or {})
        _point_service(made)
        (folder / "operator").mkdir()
        acts = kubeconfig(lab, folder / "operator", "dijob", HOME)
        with operator(acts, folder / "operator.log", flags=("--history",)):
            made.start()
            try:
                yield made
            finally:
                if made.process is not None:
                    made.stop()


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Recorded]:
    with recording("chart-history", tmp_path_factory.mktemp("recorded")) as made:
        yield made


def _point_service(made: Recorded) -> None:
    """Let the chart's Service lead to the process on this machine. The history's pod is simulated,
    so it serves nothing.
    """
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.connect(("192.0.2.1", 9))  # sends nothing
        address = probe.getsockname()[0]
    # Without a selector, the controllers leave the Service's addresses alone.
    lab, meta = made.lab, {"name": SERVICE, "namespace": HOME}
    remove = json.dumps([{"op": "remove", "path": "/spec/selector"}])
    lab.kubectl("patch", "service", SERVICE, "-n", HOME, "--type=json", "-p", remove)
    # The apiserver's proxy looks for a Service's addresses in this old kind, and accepts only those
    # of pods. No scheduler and no kubelet handles this pod.
    pod = {"schedulerName": "none", "containers": [{"name": "c", "image": "example/x"}]}
    lab.apply({"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": pod})
    status = json.dumps({"status": {"podIP": address, "podIPs": [{"ip": address}]}})
    lab.kubectl("patch", "pod", SERVICE, "-n", HOME, "--subresource=status", "-p", status)
    target = {"kind": "Pod", "name": SERVICE, "namespace": HOME}
    endpoints = {
        "apiVersion": "v1",
        "kind": "Endpoints",
        "metadata": meta,
        "subsets": [
            {
                "addresses": [{"ip": address, "targetRef": target}],
                "ports": [{"name": "http", "port": made.port}],
            }
        ],
    }

    def missing() -> str:
        # A controller that has not noticed the change yet may replace the addresses once more.
        lab.apply(endpoints)
        said = lab.try_kubectl("get", "--raw", f"{PROXY}/v1/jobs").text
        return "" if "no endpoints" not in said else said

    made.until("the Service leads to this machine", missing, 20)


def test_a_job_is_found_after_its_time_to_live(recorded: Recorded) -> None:
    begin = len(recorded.cluster.audit_log.read_text().splitlines())
    uid = recorded.create("short", ttlSecondsAfterFinished=TTL)
    recorded.until_gone("short")
    said = recorded.history(recorded.user("bob"), "short", "-n", TEAM)
    assert said.ok, said.text
    assert "Succeeded (AllRanksSucceeded)" in said.text
    assert uid in said.text
    listed = recorded.history(recorded.user("bob"), "-n", TEAM, "--phase", "Succeeded")
    assert "short" in listed.text
    again = recorded.history(recorded.user("bob"), "short", "-n", TEAM, "-o", "manifest")
    assert yaml.safe_load(again.text)["spec"]["replicas"] == 2
    user = f"system:serviceaccount:{HOME}:{SERVICE}"
    requests = asked(recorded.cluster.audit_log, user, begin)
    assert ("dijobs", "patch") in requests
    assert not {right for right, codes in requests.items() if 403 in codes}


def test_a_job_that_a_user_deletes_is_found(recorded: Recorded) -> None:
    recorded.create("removed", code=0, suspend=True)
    recorded.until_recorded("removed", "Suspended")
    recorded.lab.kubectl("delete", "dij", "removed", "-n", TEAM, "--wait")
    recorded.until_recorded("removed", "Deleted")


@pytest.mark.long  # tests/unit/history/test_recorder.py shows the same without processes
def test_a_job_that_ends_while_the_history_is_down_is_kept_until_it_is_recorded(
    recorded: Recorded,
) -> None:
    """The history is killed between the start and the end of one job, and misses another job. The
    operator is not delayed: both jobs end.
    """
    recorded.create("known", ttlSecondsAfterFinished=TTL, suspend=True)
    recorded.create("watched", suspend=True)
    recorded.until_recorded("known", "Suspended")
    recorded.until_recorded("watched", "Suspended")
    recorded.stop(signal.SIGKILL)
    recorded.lab.kubectl("delete", "dij", "watched", "-n", TEAM, "--wait")
    recorded.create("missed", ttlSecondsAfterFinished=TTL, code=3, backoffLimit=0)
    resumed = json.dumps({"spec": {"suspend": False}})
    recorded.lab.kubectl("patch", "dij", "known", "-n", TEAM, "--type=merge", "-p", resumed)
    for name in ("known", "missed"):
        recorded.until_ended(name)
    late = recorded.body("missed")
    assert late is not None
    assert ANNOTATION_RECORDED not in late["metadata"].get("annotations", {})
    recorded.start()
    for name in ("known", "missed"):
        recorded.until_gone(name)
    recorded.until_recorded("known", "Succeeded")
    recorded.until_recorded("missed", "Failed", "exit code 3")
    recorded.until_recorded("watched", "Deleted")


def test_a_user_sees_only_what_kubernetes_lets_this_user_see(recorded: Recorded) -> None:
    recorded.create("secret", FAR, ttlSecondsAfterFinished=TTL)
    recorded.create("plain", ttlSecondsAfterFinished=TTL)
    recorded.until_gone("plain")
    bob, carol, eve = (recorded.user(name) for name in ("bob", "carol", "eve"))
    for words in (("-A",), ("-n", FAR), ("secret", "-n", FAR), ("secret", "-n", FAR, "--logs")):
        for user in (bob, carol, eve):
            said = recorded.history(user, *words)
            assert (said.ok, "cannot" in said.text) == (False, True), said.text
    for words in (("-n", TEAM), ("plain", "-n", TEAM)):
        assert recorded.history(bob, *words).ok
        assert recorded.history(carol, *words).ok
        assert "cannot" in recorded.history(eve, *words).text
    said = recorded.history(carol, "plain", "-n", TEAM, "--logs")
    assert (said.ok, "cannot get pods/log in namespace team" in said.text) == (False, True)
    # The administrator has a client certificate and no token. The history may record this job later
    # than the other one.

    def unlisted() -> str:
        listed = recorded.history(None, "-A").text
        return "" if "secret" in listed else listed

    recorded.until("all are listed", unlisted)
    # A token of the apiserver is needed to reach the process.
    path = f"{PROXY}/v1/jobs?namespace={TEAM}"
    assert "must have a header" in recorded.lab.try_kubectl("get", "--raw", path).text
