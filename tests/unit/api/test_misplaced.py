"""C10: labels and annotations on a DIJob that only have an effect on pods."""

from typing import Any

import pytest
from dijob.api.parse import parse_job
from dijob.api.warnings import job_warnings
from dijob.cli.explain.report import explain_job
from dijob.core.options import Options
from samples.builders import NOW, conditions_of, container, job_body, observed, plan

Body = dict[str, Any]


def having(field: str, *keys: str, template: Body | None = None) -> Body:
    made = job_body()
    made["metadata"][field] = dict.fromkeys(keys, "x")
    made["spec"]["template"]["metadata"] = template or {}
    return made


@pytest.mark.parametrize(
    ("field", "key", "reader"),
    [
        ("labels", "kueue.x-k8s.io/queue-name", "Kueue"),
        ("labels", "volcano.sh/queue-name", "Volcano"),
        ("annotations", "scheduling.volcano.sh/queue-name", "Volcano"),
        ("annotations", "scheduling.k8s.io/group-name", "the scheduler"),
        ("labels", "scheduling.x-k8s.io/pod-group", "the scheduler"),
        ("labels", "yunikorn.apache.org/queue", "YuniKorn"),
        ("labels", "applicationId", "YuniKorn"),
        ("labels", "queue", "YuniKorn"),
        ("labels", "kai.scheduler/queue", "the KAI scheduler"),
        ("labels", "runai/queue", "the KAI scheduler"),
        ("annotations", "karpenter.sh/do-not-disrupt", "Karpenter"),
        ("annotations", "cluster-autoscaler.kubernetes.io/safe-to-evict", "the cluster autoscaler"),
        ("annotations", "sidecar.istio.io/inject", "Istio"),
        ("labels", "istio.io/rev", "Istio"),
        ("annotations", "linkerd.io/inject", "Linkerd"),
        ("annotations", "vault.hashicorp.com/agent-inject", "Vault"),
        ("annotations", "prometheus.io/scrape", "Prometheus"),
        ("annotations", "kubectl.kubernetes.io/default-container", "kubectl"),
    ],
)
def test_a_key_for_pods_on_the_job_is_reported_with_its_reader_and_place(
    field: str, key: str, reader: str
) -> None:
    (found,) = job_warnings(parse_job(having(field, key)))
    assert found.field == f"metadata.{field}"
    assert found.message.startswith(f"{key} has no effect here, because {reader} reads it on pods")
    assert f"put it into spec.template.metadata.{field}" in found.message


@pytest.mark.parametrize(
    ("field", "key"),
    [
        ("labels", "app.kubernetes.io/name"),
        ("labels", "team"),
        ("labels", "volcano"),
        ("annotations", "kubectl.kubernetes.io/last-applied-configuration"),
        ("annotations", "argocd.argoproj.io/sync-wave"),
        ("annotations", "diengine.opendilab.org/paused"),
        ("annotations", "notistio.io/inject"),
    ],
)
def test_other_keys_are_not(field: str, key: str) -> None:
    assert job_warnings(parse_job(having(field, key))) == ()


def test_a_key_that_the_template_has_too_is_not_reported() -> None:
    key = "kueue.x-k8s.io/queue-name"
    assert job_warnings(parse_job(having("labels", key, template={"labels": {key: "y"}}))) == ()


def test_the_tasks_that_lack_the_key_are_named() -> None:
    key = "karpenter.sh/do-not-disrupt"
    spec = {"containers": [container()]}
    tasks = [
        {"type": "learner", "template": {"metadata": {"annotations": {key: "y"}}, "spec": spec}},
        {"type": "collector", "template": {"spec": spec}},
    ]
    made = job_body(tasks=tasks, template=None, replicas=None)
    made["metadata"]["annotations"] = {key: "x"}
    (found,) = job_warnings(parse_job(made))
    assert found.message.endswith("put it into spec.tasks[1].template.metadata.annotations")


def test_the_condition_and_explain_report_the_key() -> None:
    made = parse_job(having("labels", "kueue.x-k8s.io/queue-name"))
    condition = conditions_of(plan(made, observed(), NOW))["SpecWarning"]
    assert (condition.status, condition.reason) == ("True", "SpecWarning")
    assert "put it into spec.template.metadata.labels" in condition.message
    (warning,) = explain_job(made, Options())["warnings"]
    assert warning["field"] == "metadata.labels"
