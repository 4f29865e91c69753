"""What `ui` shows of the resources that a job uses."""

from dataclasses import replace
from typing import Any

import pytest
from dijob_extras.ui.usage import describe_use, read_usage
from unit.extras.seen import pod

MAIN = {"name": "di-container", "usage": {"cpu": "1234567890n", "memory": "3250585Ki"}}


def item(*containers: dict[str, Any]) -> dict[str, Any]:
    return {"metadata": {"name": "test-0"}, "containers": list(containers)}


@pytest.mark.parametrize(
    ("items", "resources", "text"),
    [
        pytest.param([], {}, "", id="not measured yet"),
        pytest.param([item({"name": "sidecar", "usage": {"cpu": "1"}})], {}, "", id="a sidecar"),
        pytest.param([item(MAIN)], {}, "CPU 1230m, memory 3.1Gi", id="nothing requested"),
        pytest.param(
            [item(MAIN)],
            {"requests": {"cpu": "2"}, "limits": {"cpu": "4", "memory": "4Gi"}},
            "CPU 1230m of 2, memory 3.1Gi of 4Gi",
            id="a request and a limit",
        ),
    ],
)
def test_the_use_of_a_rank(items: list[Any], resources: dict[str, Any], text: str) -> None:
    one = pod(0)
    spec = {"containers": [{"name": "di-container", "resources": resources}]}
    assert describe_use(replace(one, body={**one.body, "spec": spec}), read_usage(items)) == text
