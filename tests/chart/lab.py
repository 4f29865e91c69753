"""Runs helm and kubectl for the chart's tests, and shows their output if a test fails."""

import json
import os
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from cluster.build import chosen
from dijob.kube.kinds import KINDS, SCHEDULING
from manifests import Body, dijob
from planes import ROOT

CHART = ROOT / "charts/dijob"

# The values for a second release in a cluster, as in docs/install.md.
CLUSTER_WIDE_OFF = (
    "crds.install=false,crds.check=false,policies.enabled=false,userRoles.enabled=false"
)

Right = tuple[str, str]  # resource or resource/subresource, verb


# The operator's permissions; those for PodGroups only if the cluster serves those of Kubernetes.
# The PodGroups of all engines have the same resource and verbs.
GRANTED = {
    kind.plural: kind.verbs for kind in (*KINDS, *(SCHEDULING.values() if chosen().gates else ()))
}


def pairs(rights: dict[str, str]) -> set[Right]:
    """Return (resource, verb) for each verb of a table like the one above."""
    return {(resource, verb) for resource, verbs in rights.items() for verb in verbs.split()}


@dataclass(frozen=True)
class Said:
    """The output of a command, with its error output if it failed."""

    ok: bool
    text: str


@dataclass(frozen=True)
class Lab:
    """helm, kubectl and their cluster. Without a kubeconfig, only helm's offline commands work."""

    binaries: Path
    kubeconfig: Path | None = None

    def run(self, *argv: str, stdin: str = "") -> Said:
        """Run a program that finds this lab's helm, kubectl and cluster."""
        path = f"{self.binaries}{os.pathsep}{os.environ.get('PATH', '/usr/bin:/bin')}"
        env = {**os.environ, "PATH": path, "KUBECONFIG": str(self.kubeconfig or os.devnull)}
        # Use the full path: subprocess looks up a bare name in the PATH of this process.
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
        """Return helm's output. If helm fails, raise an AssertionError with the output."""
        said = self.try_helm(*arguments)
        assert said.ok, f"helm {' '.join(arguments)}: {said.text}"
        return said.text

    def try_kubectl(self, *arguments: str, stdin: str = "") -> Said:
        return self.run("kubectl", *arguments, stdin=stdin)

    def kubectl(self, *arguments: str, stdin: str = "") -> str:
        """Return kubectl's output. If kubectl fails, raise an AssertionError with the output."""
        said = self.try_kubectl(*arguments, stdin=stdin)
        assert said.ok, f"kubectl {' '.join(arguments)}: {said.text}"
        return said.text

    def get(self, *arguments: str) -> dict[str, Any]:
        """Return an object or a list with kubectl get."""
        found: dict[str, Any] = json.loads(self.kubectl("get", *arguments, "-o", "json"))
        return found

    def apply(self, *objects: dict[str, Any]) -> None:
        """Apply objects as the administrator."""
        self.kubectl("apply", "-f", "-", stdin=yaml.safe_dump_all(objects))

    def rights(self, user: str, namespace: str) -> set[Right]:
        """Return a user's permissions in a namespace, except those of every user (self reviews) and
        of every service account (trust bundles, since Kubernetes 1.37).
        """
        review = {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SelfSubjectRulesReview",
            "spec": {"namespace": namespace},
        }
        # Client-side validation would require permission to list CRDs.
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
    """Return a valid DIJob of one pod with additional fields in its pod spec."""
    main = {"image": "example/none", "command": ["true"]}
    return dijob(name, main, pod_spec, minReplicas=1, maxReplicas=2)
