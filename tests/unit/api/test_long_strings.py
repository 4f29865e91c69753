"""C36: arguments and variables up to the limit of Linux are accepted; the rejection has a
remedy."""

from typing import Any

import pytest
from dijob.api.parse import parse_job
from dijob.crd import crd_schema
from dijob.crd.schema import schema_at
from samples.builders import container, job_body
from samples.specs import rejection

Body = dict[str, Any]

LONGEST = 128 * 1024 - 1


def having(key: str = "containers", **fields: Any) -> Body:
    first = {"initContainers": [{"name": "first", "image": "x", **fields}]}
    alone = {"containers": [container(**fields)]}
    return job_body(alone if key == "containers" else {"containers": [container()], **first})


@pytest.mark.parametrize(
    "fields",
    [
        {"args": [f"a{number}=1" for number in range(2000)]},
        {"command": ["echo", *map(str, range(300))]},
        {"env": [{"name": f"V{number}", "value": "1"} for number in range(700)]},
        {"args": ["x" * LONGEST]},
        {"env": [{"name": "A", "value": "x" * (LONGEST - 2)}]},
    ],
    ids=["args", "command", "variables", "a long argument", "a long variable"],
)
def test_strings_that_linux_accepts_are_accepted(fields: Body) -> None:
    parse_job(having(**fields))


@pytest.mark.parametrize("key", ["containers", "initContainers"])
@pytest.mark.parametrize(
    ("fields", "place"),
    [
        ({"args": ["a", "x" * (LONGEST + 1)]}, "args[1]"),
        ({"command": ["x" * (LONGEST + 1)]}, "command[0]"),
        ({"args": ["ü" * (LONGEST // 2 + 1)]}, "args[0]"),
        ({"env": [{"name": "A", "value": "x" * (LONGEST - 1)}]}, "env[0]"),
    ],
    ids=["argument", "command", "bytes count", "variable with its name"],
)
def test_a_longer_string_is_rejected_with_a_remedy(key: str, fields: Body, place: str) -> None:
    ((field, message),) = rejection(having(key, **fields))
    assert field == f"spec.template.spec.{key}[0].{place}"
    assert "put it into a ConfigMap, mount that as a volume" in message


@pytest.mark.parametrize("path", ["spec.template", "spec.tasks[].template"])
@pytest.mark.parametrize("key", ["containers", "initContainers"])
def test_the_bounds_of_the_schema_leave_room_for_the_rules(path: str, key: str) -> None:
    one = schema_at(crd_schema(), f"{path}.spec.{key}[]")["properties"]
    assert one["args"]["maxItems"] >= 8000
    assert one["command"]["maxItems"] >= 8000
    assert one["env"]["maxItems"] >= 1500
    # The rule's message says what to do, and the schema's would not.
    assert one["args"]["items"]["maxLength"] > LONGEST


def test_an_object_with_too_many_values_is_rejected_with_a_remedy() -> None:
    ((_, message),) = rejection(having(args=["x"] * 10_001))
    assert "a ConfigMap that the template mounts or references in envFrom" in message
