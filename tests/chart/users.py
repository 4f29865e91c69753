"""The users in the tests of the chart's permissions: what each may do, and the messages of rejected
requests.
"""

from typing import Any

HOME, TEAM = "dijob-system", "team"
OPERATOR = f"system:serviceaccount:{HOME}:dijob"
JOBS = {
    "apiGroups": ["diengine.opendilab.org"],
    "resources": ["dijobs"],
    "verbs": ["get", "create", "update", "patch"],
}
PODS = {"apiGroups": [""], "resources": ["pods"], "verbs": ["create"]}
USE = {
    "apiGroups": [""],
    "resources": ["serviceaccounts"],
    "resourceNames": ["trainer"],
    "verbs": ["use"],
}

INSTALLER = {
    "apiGroups": ["diengine.opendilab.org"],
    "resources": ["dijobs/status", "dijobs/finalizers"],
    "verbs": ["patch", "update"],
}

# Users with the rules of their own role in the namespace, and users with one of the built-in
# cluster roles in the namespace.
USERS = {"alice": [JOBS], "bob": [JOBS, PODS], "carol": [JOBS, PODS, USE], "adam": [INSTALLER]}
BUILT_IN = {"edgar": "edit", "vera": "view", "adam": "admin"}

NO_PODS = "spec: a DIJob creates pods, but {user} is not allowed to create pods in namespace team"
NO_ACCOUNT = (
    "spec.template.spec.serviceAccountName: {user} is not allowed to run pods as service account"
    " {account}"
)


def bound(user: str, kind: str, role: str) -> dict[str, Any]:
    """A RoleBinding in the team's namespace."""
    return {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "RoleBinding",
        "metadata": {"name": f"{user}-{role}", "namespace": TEAM},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": role},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user}],
    }


def objects() -> list[dict[str, Any]]:
    """Namespaces, roles and bindings of the users above."""
    names = (HOME, TEAM, "other-team")
    made: list[dict[str, Any]] = [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}} for name in names
    ]
    for user, rules in USERS.items():
        meta = {"name": user, "namespace": TEAM}
        made.append(
            {
                "apiVersion": "rbac.authorization.k8s.io/v1",
                "kind": "Role",
                "metadata": meta,
                "rules": rules,
            }
        )
        made.append(bound(user, "Role", user))
    return made + [bound(user, "ClusterRole", role) for user, role in BUILT_IN.items()]
