"""A template may have anything in place of a name, a port or a command: it is refused by its field,
by the operator or by the apiserver, and never breaks a pass.
"""

from typing import Any

import pytest
from dijob.api.parse import parse_job
from dijob.api.problems import SpecError
from unit.builders import Body, container, job_body, main, manifest

# What is no text and no number, as YAML makes it of a slip.
WRONG = {"list": ["a"], "object": {"a": 1}}
wrong = pytest.mark.parametrize("value", WRONG.values(), ids=WRONG)


@wrong
def test_a_shared_volume_without_a_name_that_is_text_is_refused(value: Any) -> None:
    with pytest.raises(SpecError) as refused:
        parse_job(job_body(volumes=[{"name": value, "emptyDir": {}}]))
    assert str(refused.value).startswith("spec.volumes[0].name: is missing or not a string: name")


@wrong
def test_a_volume_of_the_template_is_passed_on_for_the_apiserver_to_refuse(value: Any) -> None:
    volume = {"name": value, "emptyDir": {}}
    shared = [{"name": "data", "emptyDir": {}}]
    assert volume in made({"volumes": [volume]}, volumes=shared)["volumes"]


@wrong
@pytest.mark.parametrize("on_host", [False, True], ids=["own network", "node's network"])
def test_a_port_is_passed_on_for_the_apiserver_to_refuse(value: Any, on_host: bool) -> None:
    port = {"containerPort": value}
    pod = {"hostNetwork": on_host, "containers": [container(ports=[port])]}
    assert port in main({"spec": made(pod)})["ports"]


@pytest.mark.parametrize("command", [-1, "ditask", {"a": 1}], ids=["number", "text", "object"])
def test_a_command_is_passed_on_for_the_apiserver_to_refuse(command: Any) -> None:
    assert main({"spec": made({"containers": [container(command=command)]})})["command"] == command


def made(pod: Body, **spec: Any) -> Body:
    """The spec of rank 0's pod."""
    found: Body = manifest(parse_job(job_body(pod, **spec)))["spec"]
    return found
