"""The rendered objects of the page in the cluster, with helm and without a cluster."""

import json
from typing import Any

import pytest
from chart.lab import CHART, Lab
from chart.rendered import Objects, commented_rules, of, one, parsed, render
from chart.test_chart_server_render import named

pytestmark = pytest.mark.e2e

NAME = "dijob-ui"
ON: dict[str, Any] = {"ui": {"enabled": True}}
PROXY: dict[str, Any] = {"ui": {"enabled": True, "auth": "proxy", "proxy": {"secretName": "p"}}}


def with_proxy(**values: Any) -> dict[str, Any]:
    return {"ui": {**PROXY["ui"], "proxy": {"secretName": "p", **values}}}


def pages(objects: Objects) -> Objects:
    return [each for each in objects if each["metadata"]["name"].startswith(NAME)]


def rules(objects: Objects) -> list[dict[str, Any]]:
    roles = [each for each in pages(objects) if each["kind"] in ("Role", "ClusterRole")]
    return [rule for each in roles for rule in each["rules"]]


def test_without_the_page_none_of_its_objects_is_rendered(offline: Lab) -> None:
    """With the page, all other objects are the same."""
    without, having = parsed(render(offline, {})), parsed(render(offline, ON))
    assert not pages(without)
    assert [each for each in having if each not in pages(having)] == without
    assert named(pages(having)) == {
        (kind, "dijob-system", NAME) for kind in ("ServiceAccount", "Service", "Deployment")
    }


def test_with_tokens_the_page_has_no_permissions_and_no_credentials(offline: Lab) -> None:
    made = parsed(render(offline, ON))
    assert not rules(made)
    pod = one(made, "Deployment", NAME)["spec"]["template"]["spec"]
    assert pod["automountServiceAccountToken"] is False
    assert one(made, "ServiceAccount", NAME)["automountServiceAccountToken"] is False
    # The only volume is the certificate of the API server.
    (volume,) = pod["volumes"]
    assert volume["configMap"]["items"] == [{"key": "ca.crt", "path": "ca.crt"}]


@pytest.mark.parametrize(
    ("values", "wanted"),
    [
        pytest.param({}, [(["users"], None)], id="any user, no group"),
        pytest.param(
            {"groups": ["rl"], "users": ["alice"]},
            [(["users"], ["alice"]), (["groups"], ["rl"])],
            id="named users and groups",
        ),
    ],
)
def test_with_a_proxy_the_page_may_only_impersonate(
    offline: Lab, values: dict[str, Any], wanted: list[tuple[list[str], list[str] | None]]
) -> None:
    text = render(offline, with_proxy(**values))
    made = parsed(text)
    assert [(rule["resources"], rule.get("resourceNames")) for rule in rules(made)] == wanted
    assert all(rule["verbs"] == ["impersonate"] for rule in rules(made))
    assert all(above.startswith("#") for above, _ in commented_rules(text))
    spec = one(made, "Deployment", NAME)["spec"]["template"]["spec"]
    (container,) = spec["containers"]
    given = [f"--proxy-user={one}" for one in values.get("users", ())]
    given += [f"--proxy-group={one}" for one in values.get("groups", ())]
    named_ones = ("--proxy-user=", "--proxy-group=")
    assert [flag for flag in container["args"] if flag.startswith(named_ones)] == given
    (volume,) = spec["volumes"]
    assert volume["secret"]["secretName"] == "p"
    # The component "operator" would mark a release that serves the whole cluster.
    (binding,) = (each for each in pages(made) if each["kind"] == "ClusterRoleBinding")
    assert binding["metadata"]["labels"]["app.kubernetes.io/component"] == "ui"


@pytest.mark.parametrize(
    ("values", "message"),
    [
        pytest.param({"secretName": ""}, "set ui.proxy.secretName", id="no secret"),
        pytest.param({"groups": ["system:masters"]}, "ui.proxy.groups", id="a reserved group"),
        pytest.param({"groups": ["System:masters"]}, "ui.proxy.groups", id="in another case"),
        pytest.param({"users": ["system:admin"]}, "ui.proxy.users", id="a reserved user"),
        pytest.param({"userPrefix": "system:"}, "ui.proxy.userPrefix", id="a reserved prefix"),
        pytest.param({"userHeader": "X: y"}, "ui.proxy.userHeader", id="not a header"),
    ],
)
def test_values_that_are_not_safe_are_rejected(
    offline: Lab, values: dict[str, Any], message: str
) -> None:
    sets = [f"--set-json={key}={json.dumps(one)}" for key, one in with_proxy(**values).items()]
    said = offline.try_helm("template", "dijob", str(CHART), *sets)
    assert not said.ok
    assert message in said.text.replace("/", "."), said.text


def test_the_pods_of_the_page_are_restricted_like_the_operators(offline: Lab) -> None:
    peers = [{"podSelector": {"matchLabels": {"app": "oauth2-proxy"}}}]
    more = {"replicas": 2, "networkPolicy": {"enabled": True, "from": peers}}
    made = parsed(render(offline, {"ui": {**PROXY["ui"], **more, "hosts": ["page.example"]}}))
    page, operator = (
        one(made, "Deployment", name)["spec"]["template"]["spec"] for name in (NAME, "dijob")
    )
    assert page["securityContext"] == operator["securityContext"]
    (container,), (other,) = page["containers"], operator["containers"]
    assert container["securityContext"] == other["securityContext"]
    assert container["image"] == other["image"]
    hosts = [flag for flag in container["args"] if flag.startswith("--host=")]
    assert hosts == [
        "--host=page.example",
        "--host=dijob-ui.dijob-system.svc",
        "--host=dijob-ui.dijob-system.svc.cluster.local",
    ]
    selector = one(made, "Deployment", NAME)["spec"]["selector"]
    policy = one(made, "NetworkPolicy", NAME)["spec"]
    budget = one(made, "PodDisruptionBudget", NAME)["spec"]
    assert policy["podSelector"] == budget["selector"] == selector
    (rule,) = policy["ingress"]
    assert (rule["from"], [port["port"] for port in rule["ports"]]) == (peers, [8080])
    assert one(made, "Service", NAME)["spec"]["selector"] == selector["matchLabels"]


def test_without_peers_the_policy_admits_none(offline: Lab) -> None:
    values = {"ui": {"enabled": True, "networkPolicy": {"enabled": True}}}
    made = parsed(render(offline, values))
    assert one(made, "NetworkPolicy", NAME)["spec"]["ingress"] == []
    assert not [each for each in of(made, "PodDisruptionBudget") if each in pages(made)]
