"""The chart on a real apiserver: install, upgrade, uninstall, and CRDs of other owners."""

from collections.abc import Iterator
from typing import Any

import pytest
import yaml
from chart.lab import CHART, CLUSTER_WIDE_OFF, Lab, job
from cluster import CONTROL_PLANE, Options, up
from cluster.shell import until_established
from cluster.waiting import until
from manifests import CRD
from planes import ROOT

pytestmark = pytest.mark.e2e

HOME = "dijob-system"

# DI-orchestrator's CRD has the same group, name and kind as ours. controller-gen generated it.
FOREIGN = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": CRD, "annotations": {"controller-gen.kubebuilder.io/version": "v0.9.2"}},
    "spec": {
        "group": "diengine.opendilab.org",
        "names": {
            "kind": "DIJob",
            "listKind": "DIJobList",
            "plural": "dijobs",
            "singular": "dijob",
        },
        "scope": "Namespaced",
        "versions": [
            {
                "name": "v2alpha1",
                "served": True,
                "storage": True,
                "schema": {
                    "openAPIV3Schema": {
                        "type": "object",
                        "x-kubernetes-preserve-unknown-fields": True,
                    }
                },
            }
        ],
    },
}


@pytest.fixture(scope="module")
def running() -> Iterator[Lab]:
    """Yield a control plane with one simulated node."""
    with up(Options(name="chart", mode=CONTROL_PLANE, kwok_nodes=1)) as cluster:
        yield Lab(cluster.binaries, cluster.kubeconfig)


@pytest.fixture
def lab(running: Lab) -> Lab:
    """Return the control plane without a release and without the CRD. The operator's namespace
    enforces the Pod Security level `restricted`.
    """
    for release in (
        yaml.safe_load(running.helm("list", "--all", "--all-namespaces", "-o", "yaml")) or []
    ):
        running.helm("uninstall", release["name"], "-n", release["namespace"], "--wait")
    running.kubectl("delete", "crd", CRD, "--ignore-not-found", "--wait")
    enforce = {"pod-security.kubernetes.io/enforce": "restricted"}
    for name in (HOME, "elsewhere"):
        running.apply(
            {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": enforce}}
        )
    return running


def install(lab: Lab, *more: str) -> str:
    """Install the chart as release `dijob` in its namespace."""
    return lab.helm("install", "dijob", str(CHART), "-n", HOME, *more)


def wait_served(lab: Lab) -> None:
    """Wait until the apiserver serves DIJobs."""
    until_established(lab.kubectl, CRD)
    until(
        "DIJobs can be listed",
        lambda: "" if (said := lab.try_kubectl("get", "dij")).ok else said.text,
        30,
    )


def only_crd_of_ours(lab: Lab) -> list[str]:
    """Return kinds and names of existing objects of the chart, except for the CRD."""
    kinds = (
        "deployments,daemonsets,serviceaccounts,roles,rolebindings,clusterroles,clusterrolebindings,"
        "validatingadmissionpolicies,validatingadmissionpolicybindings"
    )
    listed = lab.kubectl("get", kinds, "-A", "-l", "app.kubernetes.io/part-of=dijob", "-o", "name")
    return listed.split()


def arguments(lab: Lab) -> list[str]:
    """Return the operator's arguments in the Deployment."""
    found = lab.get("deployment", "dijob", "-n", HOME)["spec"]["template"]["spec"]["containers"][0][
        "args"
    ]
    return list(found)


def test_pod_security_admits_the_operators_pods(lab: Lab) -> None:
    install(lab, "--set", "launcher.prepull.enabled=true")
    component = "app.kubernetes.io/component"

    def missing() -> str:
        pods = lab.get("pods", "-n", HOME, "-l", "app.kubernetes.io/name=dijob")["items"]
        found = sorted(pod["metadata"]["labels"][component] for pod in pods)
        return "" if found == ["launcher-prepull", "operator", "operator"] else str(found)

    until("all pods are admitted under `restricted`", missing, 30)


def test_the_notes_show_the_next_commands(lab: Lab) -> None:
    notes = install(lab).partition("NOTES:")[2]
    for command in (
        "rollout status deployment/dijob",
        "kubectl apply -f examples/dijob.yaml",
        "kubectl get dij",
    ):
        assert command in notes
    assert "WARNING" not in notes
    upgraded = lab.helm("upgrade", "dijob", str(CHART), "-n", HOME, "--set", "crds.keep=false")
    assert "WARNING: crds.keep is false" in upgraded


def test_jobs_outlive_upgrade_uninstall_and_reinstall(lab: Lab) -> None:
    install(lab)
    wait_served(lab)
    lab.apply(job("keeper"))
    uid = lab.get("dij", "keeper")["metadata"]["uid"]
    lab.helm("upgrade", "dijob", str(CHART), "-n", HOME, "--set", "logLevel=debug")
    assert "--log-level=debug" in arguments(lab)

    lab.helm("uninstall", "dijob", "-n", HOME, "--wait")
    assert only_crd_of_ours(lab) == []
    assert lab.get("dij", "keeper")["metadata"]["uid"] == uid

    install(lab)
    assert "--log-level=info" in arguments(lab)
    assert lab.get("dij", "keeper")["metadata"]["uid"] == uid


def test_without_keep_the_crd_is_deleted_with_the_release(lab: Lab) -> None:
    install(lab, "--set", "crds.keep=false")
    lab.helm("uninstall", "dijob", "-n", HOME, "--wait")
    assert not lab.try_kubectl("get", "crd", CRD).ok


def refused(lab: Lab, release: str, namespace: str) -> str:
    """Return the message of a rejected install. Raise an AssertionError if it is not rejected, or
    if it changed something.
    """
    before, crd = only_crd_of_ours(lab), lab.get("crd", CRD)
    said = lab.try_helm("install", release, str(CHART), "-n", namespace)
    assert not said.ok, said.text
    assert "Nothing was changed" in said.text
    assert only_crd_of_ours(lab) == before
    assert lab.get("crd", CRD)["metadata"]["resourceVersion"] == crd["metadata"]["resourceVersion"]
    listed: list[dict[str, Any]] = (
        yaml.safe_load(lab.helm("list", "-a", "-n", namespace, "-o", "yaml")) or []
    )
    assert release not in [each["name"] for each in listed]
    return said.text


def follow_advice(lab: Lab, sentence: str) -> None:
    """Run the commands at the end of a message verbatim."""
    command = sentence.partition("and install again: ")[2].strip()
    assert command.startswith("kubectl label crd")
    said = lab.run("bash", "-c", command)
    assert said.ok, said.text


def test_a_kept_crd_can_be_transferred_with_the_commands_in_the_error(lab: Lab) -> None:
    install(lab)
    wait_served(lab)
    lab.apply(job("keeper"))
    lab.helm("uninstall", "dijob", "-n", HOME, "--wait")
    sentence = refused(lab, "other", "elsewhere")
    assert f"belongs to the Helm release {HOME}/dijob" in sentence
    follow_advice(lab, sentence)
    lab.helm("install", "other", str(CHART), "-n", "elsewhere")
    lab.get("dij", "keeper")


def test_a_second_release_for_the_whole_cluster_is_rejected(lab: Lab) -> None:
    install(lab)
    told = ("install", "other", str(CHART), "-n", "elsewhere", "--set")
    said = lab.try_helm(*told, "crds.install=false")
    assert not said.ok, said.text
    assert f"the Helm release {HOME}/dijob serves the whole cluster already" in said.text
    # The release itself is not rejected.
    lab.helm("upgrade", "dijob", str(CHART), "-n", HOME, "--set", "logLevel=debug")
    lab.helm(*told, f"namespaces={{elsewhere}},{CLUSTER_WIDE_OFF}")
    twice = lab.try_helm(
        "install",
        "more",
        str(CHART),
        "-n",
        "elsewhere",
        "--set",
        f"namespaces={{elsewhere}},{CLUSTER_WIDE_OFF}",
    )
    assert not twice.ok, twice.text
    assert 'Lease "dijob-operator" in namespace "elsewhere" exists' in twice.text
    lab.helm("uninstall", "other", "-n", "elsewhere", "--wait")


def test_a_crd_applied_by_hand_can_be_transferred_or_kept(lab: Lab) -> None:
    lab.kubectl("apply", "--server-side", "-f", str(ROOT / "crds/dijob.yaml"))
    until_established(lab.kubectl, CRD)  # the apiserver writes its status a moment later
    install(lab, "--set", "crds.install=false")
    lab.helm("uninstall", "dijob", "-n", HOME, "--wait")
    sentence = refused(lab, "dijob", HOME)
    assert "was not installed by Helm" in sentence
    follow_advice(lab, sentence)
    install(lab)


def test_di_orchestrators_crd_stops_the_install_and_is_unchanged(lab: Lab) -> None:
    lab.apply(FOREIGN)
    until_established(lab.kubectl, CRD)  # the apiserver writes its status a moment later
    sentence = refused(lab, "dijob", HOME)
    assert CRD in sentence
    assert "DI-orchestrator" in sentence
    assert "docs/install.md#di-orchestrator" in sentence
    without = lab.try_helm(
        "install", "dijob", str(CHART), "-n", HOME, "--set", "crds.install=false"
    )
    assert "docs/install.md#di-orchestrator" in without.text


def test_without_the_check_helm_does_not_overwrite_a_foreign_crd(lab: Lab) -> None:
    """crds.check=false is for installers without permission to read CRDs. It must not allow them to
    overwrite one.
    """
    lab.apply(FOREIGN)
    until_established(lab.kubectl, CRD)  # the apiserver writes its status a moment later
    before = lab.get("crd", CRD)["metadata"]["resourceVersion"]
    said = lab.try_helm("install", "dijob", str(CHART), "-n", HOME, "--set", "crds.check=false")
    assert not said.ok
    assert "cannot be imported into the current release" in said.text
    assert lab.get("crd", CRD)["metadata"]["resourceVersion"] == before
