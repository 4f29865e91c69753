"""`kubectl dijob explain` prints the variables that the launcher sets for a program."""

from typing import Any

import pytest
from dijob import names
from dijob.cli.explain.environment import PodPlace, main_process
from dijob.core.addresses import AddressList
from dijob.core.members import gang_of
from dijob.core.options import Options
from dijob.core.render.annotations import made_of
from dijob.names import Runtime
from pod.boxes import Box
from samples.builders import container, job

IPS = ("10.0.0.5", "10.0.0.6", "10.0.0.7")
OWN = [{"name": "LISTEN", "value": "tcp://:$(DI_RANK)"}, {"name": "DI_LABELS", "value": "mine"}]
# The variables of the test's container.
CONTAINER = {"LC_ALL", "PATH", "PYTHONPATH"}
TASKS = [
    {"type": "learner", "replicas": 1},
    {"type": "collector", "replicas": 2},
]


def tasks() -> list[dict[str, Any]]:
    return [{**task, "template": {"spec": {"containers": [container()]}}} for task in TASKS]


@pytest.mark.parametrize(
    "spec",
    [
        pytest.param({}, id="mesh"),
        pytest.param({"parallelWorkers": 2, "topology": "star"}, id="star-of-two"),
        *(pytest.param({"runtime": one.value}, id=one.value) for one in Runtime),
        pytest.param({"tasks": tasks(), "template": None, "replicas": None}, id="tasks"),
    ],
)
def test_the_launcher_sets_the_explained_variables(box: Box, spec: dict[str, Any]) -> None:
    pod = None if "tasks" in spec else {"containers": [container(env=OWN)]}
    made = job(pod, **spec)
    gang = gang_of(made)
    listed = AddressList(1, ",".join(gang.address(rank, ip) for rank, ip in enumerate(IPS)))
    place = PodPlace(gang.member(1), IPS[1], listed)
    seen = main_process(made, place, Options())
    box.shows("1", listed.text, **_annotations(made_of(gang, listed), gang.runtime.traits))
    rc, out, err = box.run([box.launch, "env", "-0"], **_by_the_kubelet(seen.pod))
    assert rc == 0, err
    given = dict(one.split("=", 1) for one in out.split("\0") if one)
    expected = {one.name: one.value for one in seen.public}
    assert {name: given.get(name) for name in expected} == expected
    # The launcher's own variables are not explained, because programs do not read them.
    unexplained = given.keys() - expected.keys() - CONTAINER
    assert {name for name in unexplained if not name.startswith("DIJOB_")} == set()


def _annotations(made: dict[str, str], traits: Any) -> dict[str, str]:
    """Return the annotations that the operator writes for the runtime, without their prefix."""
    return {key.rpartition("/")[2].replace("-", "_"): made[key] for key in traits.annotations}


def _by_the_kubelet(pod: dict[str, Any]) -> dict[str, str]:
    """Return the main container's variables as the kubelet sets them."""
    main = next(c for c in pod["spec"]["containers"] if c["name"] == names.MAIN_CONTAINER)
    env: dict[str, str] = {}
    for one in main["env"]:
        value = one.get("value")
        if value is None:
            assert one["valueFrom"]["fieldRef"]["fieldPath"] == "status.podIP"
            value = IPS[1]
        for name, known in env.items():
            value = value.replace(f"$({name})", known)
        env[one["name"]] = value
    return env
