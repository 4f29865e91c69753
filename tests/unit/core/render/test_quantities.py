"""R8: the requests and limits of a pod as the scheduler and a quota count them."""

from typing import Any

import pytest
from dijob.core.render.quantities import (
    format_amount,
    format_amounts,
    parse_quantity,
    pod_limits,
    pod_requests,
)


def asks(cpu: str, **more: Any) -> dict[str, Any]:
    return {"resources": {"requests": {"cpu": cpu}}, **more}


def sidecar(cpu: str) -> dict[str, Any]:
    return asks(cpu, restartPolicy="Always")


MAIN = [asks("1")]


@pytest.mark.parametrize(
    ("spec", "counted"),
    [
        pytest.param({"containers": [asks("1"), asks("2")]}, "cpu 3", id="containers"),
        pytest.param({"containers": MAIN, "initContainers": [asks("3")]}, "cpu 3", id="init"),
        pytest.param(
            {"containers": MAIN, "initContainers": [sidecar("2"), asks("3")]},
            "cpu 5",
            id="an init container beside a sidecar that was started before it",
        ),
        pytest.param(
            {"containers": MAIN, "initContainers": [asks("3"), sidecar("2")]},
            "cpu 3",
            id="an init container that has ended before the sidecar",
        ),
        pytest.param(
            {"containers": [asks("4")], "initContainers": [sidecar("2"), asks("3")]},
            "cpu 6",
            id="the containers and the sidecar need more",
        ),
        pytest.param({"containers": MAIN, "overhead": {"cpu": "1"}}, "cpu 2", id="overhead"),
        pytest.param(
            {"containers": MAIN, "resources": {"requests": {"cpu": "8"}}, "overhead": {"cpu": 1}},
            "cpu 9",
            id="pod-level resources",
        ),
        pytest.param(
            {"containers": MAIN, "resources": {"limits": {"cpu": "8", "memory": "1Gi"}}},
            "cpu 1, memory 1Gi",
            id="a limit of the pod is a request if its containers have none",
        ),
    ],
)
def test_requests(spec: dict[str, Any], counted: str) -> None:
    assert format_amounts(pod_requests(spec)) == counted


def test_limits_count_sidecars_and_those_of_the_pod() -> None:
    limited = {"resources": {"limits": {"cpu": "1"}}}
    spec: dict[str, Any] = {"containers": [limited]}
    spec["initContainers"] = [{**limited, "restartPolicy": "Always"}]
    assert format_amounts(pod_limits(spec)) == "cpu 2"
    assert format_amounts(pod_limits({**spec, "resources": {"limits": {"cpu": "4"}}})) == "cpu 4"


@pytest.mark.parametrize("text", ["9e999999", "9e-999999", "-9e999999", "1e99999999999999999999"])
def test_a_number_with_a_million_digits_is_not_printed(text: str) -> None:
    assert len(format_amount("cpu", parse_quantity(text))) < 30
