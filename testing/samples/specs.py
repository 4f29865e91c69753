"""DIJobs as users write them, and a function that returns the problems of a rejected DIJob."""

from typing import Any

import pytest
from dijob.api.parse import parse_job
from dijob.api.problems import SpecError

Body = dict[str, Any]


def body(**spec: Any) -> Body:
    container = {
        "name": "di-container",
        "image": "x",
        "command": ["sh", "-c"],
        "args": ["ditask -m a.main"],
    }
    template = {"spec": {"containers": [container]}}
    sizes = {} if {"replicas", "minReplicas", "maxReplicas"} & spec.keys() else {"replicas": 4}
    return {
        "metadata": {"name": "job", "uid": "u"},
        "spec": {**sizes, "template": template, **spec},
    }


def with_command(line: str, **spec: Any) -> Body:
    made = body(**spec)
    made["spec"]["template"]["spec"]["containers"][0]["args"] = [line]
    return made


def with_pod(**fields: Any) -> Body:
    made = body()
    made["spec"]["template"]["spec"].update(fields)
    return made


def with_env(name: str, key: str = "containers") -> Body:
    made = with_pod(**({} if key == "containers" else {key: [{"name": "x", "image": "y"}]}))
    made["spec"]["template"]["spec"][key][0]["env"] = [
        {"name": "FINE"},
        {"name": name, "value": "7"},
    ]
    return made


def named(name: str) -> Body:
    made = body()
    made["metadata"]["name"] = name
    return made


def rejection(made: Body) -> tuple[tuple[str, str], ...]:
    """Return the problems of an object from a file: pairs of a field and a message."""
    made = {**made, "metadata": {k: v for k, v in made["metadata"].items() if k != "uid"}}
    with pytest.raises(SpecError) as caught:
        parse_job(made)
    return tuple((problem.field, problem.message) for problem in caught.value.problems)
