"""The operator as a process with exactly the permissions that the chart grants."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from apiserver.plane import operator
from chart.lab import CHART, CLUSTER_WIDE_OFF, GRANTED, Lab, Right, job, pairs
from cluster import CONTROL_PLANE, Cluster, Options, up
from cluster.shell import until_established
from cluster.waiting import until
from manifests import CRD
from users import write_kubeconfig

pytestmark = pytest.mark.e2e

HOME, TEAM, DOOMED = "dijob-system", "team", "doomed"


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    """Yield a control plane with two simulated nodes."""
    with up(Options(name="chart-operator", mode=CONTROL_PLANE, kwok_nodes=2)) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def lab(cluster: Cluster) -> Lab:
    """Install one release for the whole cluster, and one for two namespaces."""
    lab = Lab(cluster.binaries, cluster.kubeconfig)
    names = (HOME, TEAM, DOOMED)
    lab.apply(
        *({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}} for name in names)
    )
    lab.helm("install", "dijob", str(CHART), "-n", HOME)
    lab.helm(
        "install",
        "few",
        str(CHART),
        "-n",
        TEAM,
        "--set",
        f"namespaces={{{TEAM},{DOOMED}}},{CLUSTER_WIDE_OFF}",
    )
    until_established(lab.kubectl, CRD)
    return lab


def kubeconfig(lab: Lab, folder: Path, account: str, namespace: str) -> Path:
    """Return a kubeconfig with a token of the operator's service account."""
    token = lab.kubectl("create", "token", account, "-n", namespace)
    return write_kubeconfig(lab.kubectl, token, folder / "kubeconfig")


def asked(audit: Path, user: str, begin: int) -> dict[Right, set[int]]:
    """Return (resource, verb) of the operator's requests since a line of the audit log, with the
    HTTP status codes of the responses.
    """
    seen: dict[Right, set[int]] = {}
    for entry in map(json.loads, audit.read_text().splitlines()[begin:]):
        if entry["user"]["username"] == user and (ref := entry.get("objectRef")):
            resource = "/".join(filter(None, (ref["resource"], ref.get("subresource"))))
            seen.setdefault((resource, entry["verb"]), set()).add(
                entry.get("responseStatus", {}).get("code", 0)
            )
    return seen


def phase(lab: Lab, name: str, wanted: str, log: Path) -> Callable[[], str]:
    """Return a probe for a phase of the team's job: "" when the job has it."""

    def differs() -> str:
        status = lab.get("dij", name, "-n", TEAM).get("status", {})
        return "" if status.get("phase") == wanted else f"{status}\n{log.read_text()[-2000:]}"

    return differs


def recovered(lab: Lab, name: str, log: Path) -> Callable[[], str]:
    """Return a probe: "" when all ranks of the team's job are Ready with the second peer list."""

    def differs() -> str:
        said = lab.get("dij", name, "-n", TEAM).get("status", {}).get("conditions", ())
        (ready,) = [one for one in said if one["type"] == "PeersReady"] or [{}]
        right = ready.get("status") == "True" and "revision 2" in ready["message"]
        return "" if right else f"{ready}\n{log.read_text()[-2000:]}"

    return differs


def replaced(lab: Lab, pod: str, before: str, log: Path) -> Callable[[], str]:
    """Return a probe for a new uid of the team's pod: "" when it was replaced."""

    def same() -> str:
        told = ("-n", TEAM, "-o", "jsonpath={.metadata.uid}")
        now = lab.try_kubectl("get", "pod", pod, *told)
        return "" if now.ok and now.text != before else f"{now.text}\n{log.read_text()[-2000:]}"

    return same


def create(lab: Lab, name: str, **spec: Any) -> None:
    made = job(name)
    made["spec"] |= spec
    lab.kubectl("create", "-n", TEAM, "-f", "-", stdin=yaml.safe_dump(made))


def remove(lab: Lab, name: str) -> None:
    lab.kubectl("delete", "dij", name, "-n", TEAM, "--wait", "--ignore-not-found")


@pytest.mark.parametrize("served", [(), (TEAM,)], ids=["whole cluster", "one namespace"])
def test_the_permissions_suffice_for_the_life_of_a_job(
    lab: Lab, cluster: Cluster, tmp_path: Path, served: tuple[str, ...]
) -> None:
    """Start, loss of a pod, success, time to live: no request is rejected, and each request is in
    the table of permissions.
    """
    begin, log = len(cluster.audit_log.read_text().splitlines()), tmp_path / "operator.log"
    create(lab, "lives")
    try:
        with operator(kubeconfig(lab, tmp_path, "dijob", HOME), log, *served):
            until("the job runs", phase(lab, "lives", "Running", log), 60)
            lab.kubectl("delete", "pod", "lives-0", "-n", TEAM, "--wait=false")
            until("the job has recovered", recovered(lab, "lives", log), 60)
            # The programs end, and the time to live is set, only when this test has seen the state
            # before. On a slow machine, it would miss a state that lasts a few seconds.
            pods = ("lives-0", "lives-1", "-n", TEAM)
            lab.kubectl("annotate", "pod", *pods, "test.dijob/exit=0")
            until("the job has succeeded", phase(lab, "lives", "Succeeded", log), 60)
            brief = '{"spec": {"ttlSecondsAfterFinished": 1}}'
            lab.kubectl("patch", "dij", "lives", "-n", TEAM, "--type=merge", "-p", brief)
            until(
                "the job is deleted",
                lambda: lab.kubectl("get", "dij", "-n", TEAM, "-o", "name"),
                60,
            )
    finally:
        remove(lab, "lives")
    requests = asked(cluster.audit_log, f"system:serviceaccount:{HOME}:dijob", begin)
    assert {
        ("pods", "create"),
        ("pods", "patch"),
        ("dijobs/status", "patch"),
        ("dijobs", "delete"),
    } <= requests.keys()
    assert {right: codes for right, codes in requests.items() if 403 in codes} == {}
    assert requests.keys() <= pairs(GRANTED)


def test_one_release_serves_a_namespace(lab: Lab, cluster: Cluster, tmp_path: Path) -> None:
    """That is the namespace's own release, or else the release for the whole cluster."""
    log = tmp_path / "operator.log"
    for folder in ("whole", "few"):
        (tmp_path / folder).mkdir()
    whole = kubeconfig(lab, tmp_path / "whole", "dijob", HOME)
    few = kubeconfig(lab, tmp_path / "few", "few-dijob", TEAM)
    create(lab, "one")

    def heals() -> set[str]:
        """Return the release that replaces a lost pod."""
        begin = len(cluster.audit_log.read_text().splitlines())
        before = lab.get("pod", "one-0", "-n", TEAM)["metadata"]["uid"]
        lab.kubectl("delete", "pod", "one-0", "-n", TEAM)
        until("the lost pod is replaced", replaced(lab, "one-0", before, log), 60)
        releases = {"few": f"{TEAM}:few-dijob", "whole": f"{HOME}:dijob"}
        return {
            name
            for name, account in releases.items()
            if ("pods", "create")
            in asked(cluster.audit_log, f"system:serviceaccount:{account}", begin)
        }

    def not_said(words: str) -> Callable[[], str]:
        return lambda: "" if words in log.read_text() else log.read_text()[-2000:]

    try:
        with operator(whole, log, lease=f"{HOME}/dijob"):
            until("the job runs", phase(lab, "one", "Running", log), 60)
            assert heals() == {"whole"}
            with operator(few, log, TEAM, lease=f"{TEAM}/few-dijob"):
                said = f"namespace {TEAM}: claimed by release {TEAM}/few-dijob"
                until("the other release is seen", not_said(said), 30)
                assert heals() == {"few"}
            # `helm uninstall` deletes the Lease too.
            lab.kubectl("delete", "lease", "dijob-operator", "-n", TEAM)
            until("its end is seen", not_said("no longer claimed by another release"), 30)
            assert heals() == {"whole"}
    finally:
        remove(lab, "one")


def test_a_deleted_namespace_does_not_stop_the_others(lab: Lab, tmp_path: Path) -> None:
    """The Role in the namespace is deleted with it. The process ends, and the next one serves the
    remaining namespaces.
    """
    config, log = kubeconfig(lab, tmp_path, "few-dijob", TEAM), tmp_path / "operator.log"
    create(lab, "stays")
    try:
        with operator(config, log, TEAM, DOOMED) as process:
            until("the job runs", phase(lab, "stays", "Running", log), 60)
            lab.kubectl("delete", "namespace", DOOMED)
            until(
                "the operator ends",
                lambda: "" if process.poll() is not None else log.read_text()[-2000:],
                60,
            )
            assert process.returncode == 0
        before = lab.get("pod", "stays-0", "-n", TEAM)["metadata"]["uid"]
        lab.kubectl("delete", "pod", "stays-0", "-n", TEAM)
        with operator(config, log, TEAM, DOOMED) as process:
            until("the lost pod is replaced", replaced(lab, "stays-0", before, log), 60)
            assert process.poll() is None
    finally:
        remove(lab, "stays")
