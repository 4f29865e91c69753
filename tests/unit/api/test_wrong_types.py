"""A template may have any type as a name, a port or a command. The operator or the API server
rejects it by its field, and no reconciliation fails.
"""

from typing import Any

import pytest
from dijob.api.parse import parse_job
from dijob.api.problems import SpecError
from samples.builders import Body, container, job_body, main, manifest

# Neither a text nor a number, as YAML parses a typing error.
WRONG = {"list": ["a"], "object": {"a": 1}}
wrong = pytest.mark.parametrize("value", WRONG.values(), ids=WRONG)


@wrong
def test_a_shared_volume_whose_name_is_not_text_is_rejected(value: Any) -> None:
    with pytest.raises(SpecError) as refused:
        parse_job(job_body(volumes=[{"name": value, "emptyDir": {}}]))
    assert str(refused.value).startswith("spec.volumes[0].name: is missing or not a string: name")


@wrong
def test_a_volume_of_the_template_is_left_for_the_apiserver_to_reject(value: Any) -> None:
    volume = {"name": value, "emptyDir": {}}
    shared = [{"name": "data", "emptyDir": {}}]
    assert volume in made({"volumes": [volume]}, volumes=shared)["volumes"]


@wrong
@pytest.mark.parametrize("on_host", [False, True], ids=["own network", "node's network"])
def test_a_port_is_left_for_the_apiserver_to_reject(value: Any, on_host: bool) -> None:
    port = {"containerPort": value}
    pod = {"hostNetwork": on_host, "containers": [container(ports=[port])]}
    assert port in main({"spec": made(pod)})["ports"]


@pytest.mark.parametrize("command", [-1, "ditask", {"a": 1}], ids=["number", "text", "object"])
def test_a_command_is_left_for_the_apiserver_to_reject(command: Any) -> None:
    assert main({"spec": made({"containers": [container(command=command)]})})["command"] == command


def made(pod: Body, **spec: Any) -> Body:
    """Return the spec of rank 0's pod."""
    found: Body = manifest(parse_job(job_body(pod, **spec)))["spec"]
    return found
