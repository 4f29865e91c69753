"""Permissions after an installation: operator, users by role, admission policy."""

from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest
import yaml
from chart.lab import CHART, CLUSTER_WIDE_OFF, GRANTED, Lab, Right, Said, job, pairs
from chart.users import HOME, NO_ACCOUNT, NO_PODS, OPERATOR, TEAM, bound, objects
from cluster import CONTROL_PLANE, Cluster, Options, up
from cluster.shell import until_established
from cluster.waiting import until
from dijob.kube.kinds import ISOLATING, LEASES
from manifests import CRD

pytestmark = pytest.mark.e2e


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    """Yield a control plane with two simulated nodes."""
    with up(Options(name="chart-rights", mode=CONTROL_PLANE, kwok_nodes=2)) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def lab(cluster: Cluster) -> Lab:
    """Install the chart for the whole cluster, and wait until the policy is active."""
    lab = Lab(cluster.binaries, cluster.kubeconfig)
    lab.apply(*objects())
    lab.helm("install", "dijob", str(CHART), "-n", HOME)
    until_established(lab.kubectl, CRD)

    def open_to_alice() -> str:
        said = create(lab, "alice", job("probe"))
        return "" if "ValidatingAdmissionPolicy" in said.text else said.text

    until("the policy judges", open_to_alice, 60)
    # The controller-manager aggregates our roles into the built-in ones a moment later.
    for user, verb in (("edgar", "create"), ("vera", "list")):
        until(f"{user} has the role", partial(lacking, lab, user, verb), 60)
    return lab


def lacking(lab: Lab, user: str, verb: str) -> str:
    """Return the user's permissions on jobs if they do not contain the verb yet, or ""."""
    found = ours(lab, user)
    return "" if ("dijobs", verb) in found else f"only {found}"


def ours(lab: Lab, user: str) -> set[Right]:
    """Return a user's permissions on jobs in the team's namespace."""
    return {right for right in lab.rights(user, TEAM) if right[0].startswith("dijobs")}


def create(lab: Lab, user: str, made: dict[str, Any]) -> Said:
    """Create a job as a user with a dry run."""
    arguments = ("create", "-n", TEAM, "--as", user, "--dry-run=server", "-f", "-")
    return lab.try_kubectl(*arguments, stdin=yaml.safe_dump(made))


TRAINER = f"system:serviceaccount:{TEAM}:trainer"


@pytest.mark.parametrize(
    ("user", "pod_spec", "refusal"),
    [
        pytest.param("alice", {}, NO_PODS, id="no permission to create pods"),
        pytest.param("bob", {}, "", id="permission to create pods"),
        pytest.param(
            "bob", {"serviceAccountName": "default"}, "", id="the default account by name"
        ),
        pytest.param("bob", {"serviceAccountName": ""}, "", id="an empty account"),
        pytest.param("bob", {"serviceAccountName": "trainer"}, NO_ACCOUNT, id="another account"),
        pytest.param("bob", {"serviceAccount": "trainer"}, NO_ACCOUNT, id="the deprecated field"),
        pytest.param(
            "bob",
            {"serviceAccountName": "", "serviceAccount": "trainer"},
            NO_ACCOUNT,
            id="the deprecated field and an empty one",
        ),
        pytest.param("bob", {"serviceAccountName": None}, "", id="null"),
        pytest.param(
            "bob", {"serviceAccountName": None, "serviceAccount": None}, "", id="both fields null"
        ),
        pytest.param(
            "bob",
            {"serviceAccountName": None, "serviceAccount": "trainer"},
            NO_ACCOUNT,
            id="the deprecated field and null",
        ),
        pytest.param(
            "bob",
            {"serviceAccountName": "trainer", "serviceAccount": None},
            NO_ACCOUNT,
            id="before null",
        ),
        pytest.param("carol", {"serviceAccountName": "trainer"}, "", id="permission to use it"),
        pytest.param(
            "carol", {"serviceAccount": "trainer"}, "", id="permission to use it, deprecated field"
        ),
        pytest.param(
            "carol", {"serviceAccountName": "admin"}, NO_ACCOUNT, id="permission to use another one"
        ),
        pytest.param("edgar", {"serviceAccountName": "trainer"}, "", id="the built-in edit role"),
    ],
)
def test_who_may_create(lab: Lab, user: str, pod_spec: dict[str, Any], refusal: str) -> None:
    said = create(lab, user, job("j", **pod_spec))
    account = pod_spec.get("serviceAccountName") or pod_spec.get("serviceAccount", "")
    assert said.ok == (not refusal), said.text
    assert refusal.format(user=user, account=account) in said.text


@pytest.mark.parametrize("account", [["trainer"], {"name": "trainer"}, 7, True], ids=repr)
@pytest.mark.parametrize("field", ["serviceAccountName", "serviceAccount"])
@pytest.mark.parametrize("user", ["bob", "carol", "edgar"])
def test_an_account_that_is_not_a_string_is_rejected(
    lab: Lab, user: str, field: str, account: object
) -> None:
    """H1: the message names the field, not an expression of the policy."""
    said = create(lab, user, job("j", **{field: account}))
    assert not said.ok, said.text
    assert f"spec.template.spec.{field} must be a string" in said.text
    assert "expression" not in said.text


@pytest.mark.parametrize("absent", ["template", "tasks"])
def test_null_is_treated_as_absent(lab: Lab, absent: str) -> None:
    """C4: Helm charts may render `tasks: null` and `template: null`."""
    made = job("j", serviceAccountName="trainer")
    if absent == "template":
        made["spec"] = {"tasks": [{"type": "learner", "template": made["spec"]["template"]}]}
    made["spec"][absent] = None
    assert create(lab, "carol", made).ok
    assert (
        "bob is not allowed to run pods as service account trainer" in create(lab, "bob", made).text
    )


@pytest.mark.parametrize(
    ("accounts", "refused"),
    [(("trainer", ""), "trainer"), (("", "trainer"), "trainer"), (("", "default"), "")],
    ids=["the first task's", "the last task's", "the default account"],
)
def test_the_account_of_every_task_is_checked(
    lab: Lab, accounts: tuple[str, str], refused: str
) -> None:
    made = job("j")
    template = made["spec"]["template"]
    made["spec"] = {"tasks": [
        {"type": kind, "template": {"spec": {**template["spec"], "serviceAccountName": account}}}
        for kind, account in zip(("learner", "collector"), accounts, strict=True)
    ]}  # fmt: skip
    said = create(lab, "bob", made)
    assert said.ok == (not refused), said.text
    if refused:
        expected = NO_ACCOUNT.format(user="bob", account=refused).replace(
            "spec.template", "spec.tasks[].template"
        )
        assert expected in said.text


@pytest.mark.parametrize(
    "change",
    [
        pytest.param({"template": {"spec": None}}, id="a template's spec"),
        pytest.param({"template": None}, id="a template"),
        pytest.param({"tasks": None}, id="tasks"),
        pytest.param({"volumes": None}, id="volumes"),
        pytest.param(
            {"template": None, "tasks": [{"type": "learner", "template": None}]},
            id="a task's template",
        ),
        pytest.param(
            {"template": None, "tasks": [{"type": "learner", "template": {"spec": None}}]},
            id="a task's spec",
        ),
        pytest.param(
            {"template": None, "tasks": [{"type": "learner"}]}, id="a task without a template"
        ),
    ],
)
def test_null_anywhere_is_treated_as_absent(lab: Lab, change: dict[str, Any]) -> None:
    """The policy never fails with an evaluation error, whatever the schema accepts."""
    made = job("j")
    made["spec"] |= change
    said = create(lab, "bob", made)
    assert "policy" not in said.text.lower(), said.text
    assert said.ok or "spec." in said.text, said.text


def test_a_service_account_can_run_jobs_as_itself(lab: Lab) -> None:
    lab.apply(
        bound("bob", "Role", "bob")
        | {
            "metadata": {"name": "trainer", "namespace": TEAM},
            "subjects": [{"kind": "ServiceAccount", "name": "trainer", "namespace": TEAM}],
        }
    )
    until(
        "it may", lambda: "" if ("dijobs", "create") in lab.rights(TRAINER, TEAM) else "not yet", 60
    )
    assert create(lab, TRAINER, job("j", serviceAccountName="trainer")).ok
    assert (
        "is not allowed to run pods as service account admin"
        in create(lab, TRAINER, job("j", serviceAccountName="admin")).text
    )


@pytest.fixture
def trained(lab: Lab) -> Iterator[str]:
    """Yield the name of a job with the account `trainer` that the administrator created."""
    made = job("trained", serviceAccountName="trainer", nodeSelector={"a": "b"})
    made["metadata"]["namespace"] = TEAM
    lab.apply(made)
    yield "trained"
    lab.kubectl("delete", "dij", "trained", "-n", TEAM, "--wait")


def patch(lab: Lab, user: str, change: str) -> Said:
    """Patch this job as a user."""
    return lab.try_kubectl(
        "patch", "dij", "trained", "-n", TEAM, "--as", user, "--type=merge", "-p", change
    )


@pytest.mark.usefixtures("trained")
def test_only_changes_of_the_spec_are_checked(lab: Lab) -> None:
    """Changes to labels and finalizers, as by the garbage collector, are not checked."""
    label = patch(lab, "alice", '{"metadata": {"labels": {"a": "b"}}}')
    assert label.ok, label.text
    spec = patch(lab, "alice", '{"spec": {"backoffLimit": 7}}')
    assert NO_PODS.format(user="alice") in spec.text


@pytest.mark.usefixtures("trained")
def test_the_operator_writes_replicas_into_a_job_under_any_account(lab: Lab) -> None:
    said = patch(lab, OPERATOR, '{"spec": {"replicas": 2}}')
    assert said.ok, said.text
    assert lab.get("dij", "trained", "-n", TEAM)["spec"]["replicas"] == 2


@pytest.mark.usefixtures("trained")
def test_an_undeclared_field_of_a_template_under_a_foreign_account_stays(
    lab: Lab,
) -> None:
    """The policy compares all fields. (A CEL rule of the CRD compares declared fields only.)"""
    said = patch(
        lab, "bob", '{"spec": {"template": {"spec": {"nodeSelector": null, "nodeName": "x"}}}}'
    )
    assert not said.ok, said.text
    before = lab.get("dij", "trained", "-n", TEAM)["spec"]["template"]["spec"]
    assert before["nodeSelector"] == {"a": "b"}
    assert NO_ACCOUNT.format(user="bob", account="trainer") in said.text


@pytest.mark.usefixtures("trained")
def test_volumes_under_a_foreign_account_stay_also_while_the_job_is_suspended(lab: Lab) -> None:
    """A user who can replace a mounted volume can run any code with that account."""
    lab.kubectl(
        "patch", "dij", "trained", "-n", TEAM, "--type=merge", "-p", '{"spec": {"suspend": true}}'
    )
    said = patch(lab, "bob", '{"spec": {"volumes": [{"name": "code", "emptyDir": {}}]}}')
    assert not said.ok, said.text
    assert NO_ACCOUNT.format(user="bob", account="trainer") in said.text
    assert patch(lab, "carol", '{"spec": {"volumes": [{"name": "code", "emptyDir": {}}]}}').ok


def test_the_operator_has_exactly_the_documented_permissions(lab: Lab) -> None:
    wanted = pairs(GRANTED) | {("leases", "list")}  # only Leases named as claims
    assert lab.rights(OPERATOR, TEAM) == wanted
    assert lab.rights(OPERATOR, "kube-system") == wanted


def test_with_namespaces_the_operator_has_permissions_only_there(lab: Lab) -> None:
    """Installed as in docs/install.md, by a user with the role admin in the namespace and
    permission to patch statuses.
    """
    adam = ("-n", TEAM, "--kube-as-user", "adam")
    until(
        "adam is admin",
        lambda: "" if ("dijobs", "create") in lab.rights("adam", TEAM) else "not yet",
        60,
    )
    lab.helm(
        *("install", "few", str(CHART), *adam),
        *("--set", f"namespaces={{{TEAM}}},networkPolicy.jobs=true,{CLUSTER_WIDE_OFF}"),
    )
    few = f"system:serviceaccount:{TEAM}:few-dijob"
    # RBAC uses a cache that follows a watch.
    # The release's namespace has its leader election Lease, and a second Lease as a claim.
    wanted = pairs(GRANTED) | {("leases", verb) for verb in LEASES.verbs.split()}
    wanted |= {(kind.plural, verb) for kind in ISOLATING for verb in kind.verbs.split()}
    until("the rights are there", lambda: str(wanted ^ lab.rights(few, TEAM) or ""), 60)
    assert lab.rights(few, "other-team") == set()
    lab.helm("uninstall", "few", *adam, "--wait")
    until("the rights are gone", lambda: str(lab.rights(few, TEAM) or ""), 60)


def test_users_get_dijobs_with_their_built_in_role(lab: Lab) -> None:
    reads = pairs({"dijobs": "get list watch", "dijobs/scale": "get", "dijobs/status": "get"})
    writes = pairs(
        {"dijobs": "create update patch delete deletecollection", "dijobs/scale": "update patch"}
    )
    until("edgar may write", lambda: str(ours(lab, "edgar") ^ (reads | writes) or ""), 60)
    until("vera may read", lambda: str(ours(lab, "vera") ^ reads or ""), 60)
