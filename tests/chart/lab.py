"""Runs helm and kubectl for the tests of the chart, and shows what they said when it was not what a
test wants.
"""

import json
import os
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from dijob.shell.kinds import KINDS
from manifests import Body, dijob
from planes import ROOT

CHART = ROOT / "charts/dijob"

# What a release leaves out where somebody else has brought it, as docs/install.md says.
CLUSTER_WIDE_OFF = (
    "crds.install=false,crds.check=false,policies.enabled=false,userRoles.enabled=false"
)

Right = tuple[str, str]  # resource or resource/subresource, verb


# What the operator may do.
GRANTED = {kind.plural: kind.verbs for kind in KINDS}


def pairs(rights: dict[str, str]) -> set[Right]:
    """(resource, verb) for each verb of a table like the one above."""
    return {(resource, verb) for resource, verbs in rights.items() for verb in verbs.split()}


@dataclass(frozen=True)
class Said:
    """What a command printed, with its complaints where it was not content."""

    ok: bool
    text: str


@dataclass(frozen=True)
class Lab:
    """helm, kubectl, and the cluster they talk to. Without a kubeconfig only helm's offline
    commands work.
    """

    binaries: Path
    kubeconfig: Path | None = None

    def run(self, *argv: str, stdin: str = "") -> Said:
        """Run a program that finds this lab's helm, kubectl and cluster."""
        path = f"{self.binaries}{os.pathsep}{os.environ.get('PATH', '/usr/bin:/bin')}"
        env = {**os.environ, "PATH": path, "KUBECONFIG": str(self.kubeconfig or os.devnull)}
        # Asked of the file itself: subprocess looks a bare name up in this process's own PATH.
        words = [
            str(self.binaries / argv[0]) if argv[0] in ("helm", "kubectl") else argv[0],
            *argv[1:],
        ]
        done = subprocess.run(
            words,
            input=stdin,
            env=env,
            text=True,
            capture_output=True,
            timeout=120,
            check=False,
        )
        said = done.stdout if done.returncode == 0 else done.stdout + done.stderr
        return Said(done.returncode == 0, said.strip())

    def try_helm(self, *arguments: str) -> Said:
        return self.run("helm", *arguments)

    def helm(self, *arguments: str) -> str:
        """helm's output; AssertionError with it when helm fails."""
        said = self.try_helm(*arguments)
        assert said.ok, f"helm {' '.join(arguments)}: {said.text}"
        return said.text

    def try_kubectl(self, *arguments: str, stdin: str = "") -> Said:
        return self.run("kubectl", *arguments, stdin=stdin)

    def kubectl(self, *arguments: str, stdin: str = "") -> str:
        """kubectl's output; AssertionError with it when kubectl fails."""
        said = self.try_kubectl(*arguments, stdin=stdin)
        assert said.ok, f"kubectl {' '.join(arguments)}: {said.text}"
        return said.text

    def get(self, *arguments: str) -> dict[str, Any]:
        """The object, or the list, as kubectl gets it."""
        found: dict[str, Any] = json.loads(self.kubectl("get", *arguments, "-o", "json"))
        return found

    def apply(self, *objects: dict[str, Any]) -> None:
        """`kubectl apply` as the administrator."""
        self.kubectl("apply", "-f", "-", stdin=yaml.safe_dump_all(objects))

    def rights(self, user: str, namespace: str) -> set[Right]:
        """All that a user may do to objects in a namespace, less what every user may ask about
        himself, and what every service account may read (trust bundles, from Kubernetes 1.37 on).
        """
        review = {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SelfSubjectRulesReview",
            "spec": {"namespace": namespace},
        }
        # Validation by kubectl itself would take a right to list CRDs.
        arguments = ("create", "--as", user, "--validate=false", "-o", "yaml", "-f", "-")
        answer = self.kubectl(*arguments, stdin=yaml.safe_dump(review))
        status = yaml.safe_load(answer)["status"]
        assert not status["incomplete"], status
        own = {"authorization.k8s.io", "authentication.k8s.io"}
        rules = [rule for rule in status["resourceRules"] if not set(rule["apiGroups"]) & own]
        return {
            (resource, verb)
            for rule in rules
            for resource in rule["resources"]
            if resource != "clustertrustbundles"
            for verb in rule["verbs"]
        }


def job(name: str, **pod_spec: Any) -> Body:
    """A DIJob of one pod that the CRD accepts, with more fields for its pod's spec."""
    main = {"image": "example/none", "command": ["true"]}
    return dijob(name, main, pod_spec, minReplicas=1, maxReplicas=2)
