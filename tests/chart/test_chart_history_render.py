"""The rendered objects with and without the history, with helm and without a cluster."""

from typing import Any

import pytest
import yaml
from chart.lab import Lab
from chart.rendered import of, one, parsed, render
from chart.test_chart_server_render import named, rights
from planes import ROOT

pytestmark = pytest.mark.e2e

ON: dict[str, Any] = {"history": {"enabled": True}}


def test_without_the_history_none_of_its_objects_is_rendered(offline: Lab) -> None:
    """With the history, all other objects are the same, except for the operator's flag."""
    without, having = parsed(render(offline, {})), parsed(render(offline, ON))
    assert not {each for each in named(without) if "history" in each[2]}
    theirs = named(having) - named(without)
    assert {kind for kind, _, _ in theirs} == {
        "ServiceAccount", "ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding", "Service",
        "PersistentVolumeClaim", "Deployment",
    }  # fmt: skip
    assert all(name.startswith("dijob-history") for _, _, name in theirs)
    (container,) = one(having, "Deployment", "dijob")["spec"]["template"]["spec"]["containers"]
    container["args"].remove("--history")
    assert [each for each in having if named([each]) <= named(without)] == without


def test_the_history_is_one_restricted_pod_with_the_volume(offline: Lab) -> None:
    objects = parsed(render(offline, ON))
    spec, operator = (
        one(objects, "Deployment", name)["spec"] for name in ("dijob-history", "dijob")
    )
    pod = spec["template"]["spec"]
    assert (spec["replicas"], spec["strategy"]["type"]) == (1, "Recreate")
    assert pod["securityContext"] == operator["template"]["spec"]["securityContext"]
    (container,), (other,) = pod["containers"], operator["template"]["spec"]["containers"]
    assert container["securityContext"] == other["securityContext"]
    assert "--sqlite=/data/history.db" in container["args"]
    (volume,), (claim,) = pod["volumes"], of(objects, "PersistentVolumeClaim")
    assert volume["persistentVolumeClaim"]["claimName"] == claim["metadata"]["name"]
    assert claim["metadata"]["annotations"] == {"helm.sh/resource-policy": "keep"}
    service = one(objects, "Service", "dijob-history")["spec"]
    assert service["selector"] == spec["selector"]["matchLabels"]
    for each, foreign in ((spec, operator), (operator, spec)):
        labels = foreign["template"]["metadata"]["labels"]
        assert not each["selector"]["matchLabels"].items() <= labels.items()


def test_an_existing_claim_and_no_readers(offline: Lab) -> None:
    own = {"history": {"enabled": True, "sqlite": {"existingClaim": "mine"}, "readers": []}}
    objects = parsed(render(offline, own))
    assert of(objects, "PersistentVolumeClaim") == []
    pod = one(objects, "Deployment", "dijob-history")["spec"]["template"]["spec"]
    assert pod["volumes"][0]["persistentVolumeClaim"]["claimName"] == "mine"
    assert "dijob-history-connect" not in {name for _, _, name in named(objects)}


def test_a_bucket_replaces_the_volume(offline: Lab) -> None:
    """The Secret's keys become variables, and the certificates a file."""
    given = {
        "url": "s3://records/clusters/one",
        "endpoint": "https://s3.example.com",
        "region": "eu-west-1",
        "secretName": "account",
        "caConfigMapName": "authority",
    }
    role = {"eks.amazonaws.com/role-arn": "arn:aws:iam::1:role/history"}
    values = {"enabled": True, "bucket": given, "serviceAccountAnnotations": role}
    objects = parsed(render(offline, {"history": values}))
    assert of(objects, "PersistentVolumeClaim") == []
    assert one(objects, "ServiceAccount", "dijob-history")["metadata"]["annotations"] == role
    pod = one(objects, "Deployment", "dijob-history")["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    assert not any(arg.startswith("--sqlite") for arg in container["args"])
    told = {"url": "--bucket=s3://records/clusters/one", "ca": "--bucket-ca=/bucket-ca/ca.crt"}
    assert {*told.values(), "--bucket-index=/data"} <= set(container["args"])
    assert {each["name"]: each["value"] for each in container["env"]} == {
        "AWS_REGION": "eu-west-1",
        "AWS_ENDPOINT_URL": "https://s3.example.com",
    }
    assert container["envFrom"] == [{"secretRef": {"name": "account"}}]
    mounts = {each["name"]: each["mountPath"] for each in container["volumeMounts"]}
    assert mounts == {"data": "/data", "bucket-ca": "/bucket-ca"}
    assert pod["volumes"] == [
        {"name": "data", "emptyDir": {}},
        {"name": "bucket-ca", "configMap": {"name": "authority"}},
    ]


def test_the_security_page_has_the_rights_of_the_history(offline: Lab) -> None:
    roles = [
        role
        for role in of(parsed(render(offline, ON)), "ClusterRole")
        if role["metadata"]["name"].startswith("dijob-history")
    ]
    page = (ROOT / "docs/security.md").read_text()
    section = page.partition("## The history's rights")[2].partition("\n## ")[0]
    rows = [row for row in section.splitlines() if row.startswith("| ")][1:]
    shown = {tuple(cell.strip() for cell in row.split("|")[1:4]) for row in rows}
    assert shown == rights(roles)


def test_with_namespaces_there_is_a_role_in_each(offline: Lab) -> None:
    objects = parsed(render(offline, {**ON, "namespaces": ["team-a", "team-b"]}))
    roles = [each for each in named(objects) if each[0] == "Role" and each[2] == "dijob-history"]
    assert sorted(namespace for _, namespace, _ in roles) == ["team-a", "team-b"]
    pod = one(objects, "Deployment", "dijob-history")["spec"]["template"]["spec"]
    assert {"--namespace=team-a", "--namespace=team-b"} <= set(pod["containers"][0]["args"])


INVALID: dict[str, dict[str, Any]] = {
    "a misspelled value": {"keepdays": 3},
    "no day": {"keepDays": 0},
    "too many jobs": {"maxJobs": 10_000_000},
    "a size that is none": {"sqlite": {"size": "large"}},
    "a bucket without a folder": {"bucket": {"url": "s3://records"}},
    "another kind of bucket": {"bucket": {"url": "gs://records/one"}},
    "an endpoint without a scheme": {"bucket": {"url": "s3://a/b", "endpoint": "example.com"}},
    "a large log": {"logKilobytes": 100_000},
}


@pytest.mark.parametrize("values", INVALID.values(), ids=INVALID)
def test_invalid_values_are_rejected(offline: Lab, values: dict[str, Any]) -> None:
    given = yaml.safe_dump({"history": {"enabled": True, **values}})
    said = offline.run(
        "helm", "template", "dijob", str(ROOT / "charts/dijob"), "-f", "-", stdin=given
    )
    assert (said.ok, "history" in said.text) == (False, True), said.text
