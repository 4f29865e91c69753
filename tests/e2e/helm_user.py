"""A user of Helm who has no more permissions than an upgrade needs, and the command of the upgrade
in CHANGELOG.md.
"""

import json
import os
import re
import shlex
import subprocess
from pathlib import Path

from archives import ROOT
from cluster import Cluster
from manifests import GROUP
from space import HOME, Body, Space
from users import write_kubeconfig

NAME = "helm-user"
(COMMAND,) = re.findall(r"Run `(helm upgrade [^`]+)`", (ROOT / "CHANGELOG.md").read_text())
RBAC = "rbac.authorization.k8s.io"
# Helm reads, creates and changes the objects of the chart.
MANAGE = ["get", "list", "create", "update", "patch", "delete"]


def rule(group: str, resources: list[str], verbs: list[str]) -> Body:
    return {"apiGroups": [group], "resources": resources, "verbs": verbs}


OBJECTS = [
    rule("apiextensions.k8s.io", ["customresourcedefinitions"], MANAGE),
    rule(RBAC, ["clusterroles", "clusterrolebindings"], MANAGE),
    rule(
        "admissionregistration.k8s.io",
        ["validatingadmissionpolicies", "validatingadmissionpolicybindings"],
        MANAGE,
    ),
]
OBJECTS_AT_HOME = [
    rule("", ["secrets", "serviceaccounts", "services"], MANAGE),
    rule("apps", ["deployments"], MANAGE),
    rule("policy", ["poddisruptionbudgets"], MANAGE),
    rule(RBAC, ["roles", "rolebindings"], MANAGE),
    # The operator's new permissions in this namespace, according to CHANGELOG.md.
    rule("coordination.k8s.io", ["leases"], ["create", "get", "patch"]),
]
# The operator's new permissions in the namespaces of jobs.
ADDED = [
    rule("policy", ["poddisruptionbudgets"], ["get", "create", "patch", "delete"]),
    rule(GROUP, ["dijobs/finalizers"], ["update"]),
    rule("coordination.k8s.io", ["leases"], ["list"]),
    rule("scheduling.k8s.io", ["podgroups"], ["get", "create", "patch", "delete"]),
]


def create_user(space: Space, folder: Path) -> Path:
    """Create a user who can upgrade the release. Return the kubeconfig."""
    listed = space.cluster.run_kubectl(
        "get", "clusterroles", "-l", "app.kubernetes.io/part-of=dijob", "-o", "json"
    )
    # Only users who hold permissions can grant them.
    held = [rule for role in json.loads(listed)["items"] for rule in role["rules"]]
    space.kubectl("create", "serviceaccount", NAME)
    _bind(space, "Role", OBJECTS_AT_HOME)
    _bind(space, "ClusterRole", [*OBJECTS, *held, *ADDED])
    user = f"--as=system:serviceaccount:{space.name}:{NAME}"

    def problem() -> str:
        said = space.kubectl("auth", "can-i", "--list", user)
        return "" if f"dijobs.{GROUP}/finalizers" in said else said

    space.until("the permissions are granted", problem, 30)
    token = space.kubectl("create", "token", NAME)
    return write_kubeconfig(space.kubectl, token, folder / "kubeconfig")


def remove_user(cluster: Cluster) -> None:
    """Delete the user's roles, which are not deleted together with a test's namespace."""
    for kind in ("clusterrolebinding", "clusterrole", "rolebinding", "role"):
        cluster.run_kubectl("-n", HOME, "delete", kind, NAME, "--ignore-not-found")


def upgrade(cluster: Cluster, kubeconfig: Path) -> None:
    """Run the command of CHANGELOG.md in the clone."""
    words = [str(cluster.helm), *shlex.split(COMMAND)[1:]]
    env = {**os.environ, **cluster.env(), "KUBECONFIG": str(kubeconfig)}
    done = subprocess.run(
        words, cwd=ROOT, env=env, capture_output=True, text=True, timeout=180, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


def _bind(space: Space, kind: str, rules: list[Body]) -> None:
    """Create a role, and bind it to the user: in the operator's namespace, or in all of them."""
    meta = {"name": NAME, **({"namespace": HOME} if kind == "Role" else {})}
    subject = {"kind": "ServiceAccount", "name": NAME, "namespace": space.name}
    role: Body = {"apiVersion": f"{RBAC}/v1", "kind": kind, "metadata": meta, "rules": rules}
    binding: Body = {
        "apiVersion": f"{RBAC}/v1",
        "kind": f"{kind}Binding",
        "metadata": meta,
        "roleRef": {"apiGroup": RBAC, "kind": kind, "name": NAME},
        "subjects": [subject],
    }
    for each in (role, binding):
        space.cluster.run_kubectl("apply", "-f", "-", stdin=json.dumps(each))
