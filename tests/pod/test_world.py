"""The launcher derives variables and topology.json from the pod's annotations."""

import json
import os
import signal
from collections.abc import Callable
from dataclasses import replace

import pytest
from cluster.waiting import until_true
from dijob.api.model import DIJob
from dijob.core.actions import PublishAddresses
from dijob.core.addresses import AddressList, ListCopy
from dijob.core.members import gang_of
from dijob.core.render.annotations import addresses_patch, topology_json
from dijob.names import Addressing, Runtime, Topology
from pod.boxes import PID_NAMESPACE, Box
from pod.processes import LISTEN, end, first_process, line, python
from samples.builders import container, gang, job, manifest, pod_env, read, tasks_job
from simulator.environment import environment_of

PRINT = "import json, os, sys; print(json.dumps(dict(os.environ)), flush=True); sys.stdin.read()"
WORLD = {"DI_RANK": "1", "DI_PARALLEL_WORKERS": "2", "DI_TOPOLOGY": "star"}
LISTED = {"DI_LIST_NUMBER": "3", "DI_NUM_NODES": "2", "DI_WORLD_SIZE": "4"}
SIX = "fd00::1,fd00::2"
IPS, NAMES = "10.0.0.1,10.0.0.2", "world-0.world,world-1.world"
KINDS = {
    "addresses": (IPS, {"DI_NODES": IPS, "DI_NODE_IPS": IPS}),
    "names": (NAMES, {"DI_NODES": NAMES}),
    "IPv6": (SIX, {"DI_NODES": "[fd00::1],[fd00::2]", "DI_NODE_IPS": SIX}),
}


@pytest.mark.parametrize(("listed", "expected"), KINDS.values(), ids=KINDS)
@pytest.mark.parametrize("namespace", [[], PID_NAMESPACE], ids=["child", "PID-1"])
def test_a_program_has_its_world_from_the_annotations_alone(
    box: Box, namespace: list[str], listed: str, expected: dict[str, str]
) -> None:
    box.shows("3", listed)
    process = box.start([*namespace, box.launch, *python(PRINT)], **WORLD)
    found = json.loads(line(process))
    assert {name: found[name] for name in found if name.startswith("DI_")} == (
        WORLD | LISTED | expected
    )
    end(process)


TEMPLATE = {"spec": {"containers": [container()]}}
TASKS = [
    {"name": name, "type": name, "replicas": size, "template": TEMPLATE}
    for name, size in (("learner", 1), ("collector", 2))
]
JOBS = {
    **{str(runtime): job(runtime=runtime.value, parallelWorkers=2) for runtime in Runtime},
    "Hostname": job(addressing="Hostname"),
    "tasks": tasks_job(tasks=TASKS),
    "named in the template": job({"containers": [container(args=["$(DI_NODES)"])]}),
}


@pytest.mark.parametrize("owner", JOBS.values(), ids=JOBS)
def test_a_program_has_the_variables_that_the_operator_means(box: Box, owner: DIJob) -> None:
    body, gang_ = manifest(owner, 1), gang_of(owner)
    addresses = (gang_.address(rank, f"10.0.0.{rank + 1}") for rank in range(3))
    listed = ListCopy(AddressList(3, ",".join(addresses)))
    reads = read(body).made.reads
    told = PublishAddresses(body["metadata"]["name"], "uid", listed, reads)
    body["metadata"]["annotations"] = addresses_patch(gang_, told)["metadata"]["annotations"]
    said = {key.rpartition("/")[2]: text for key, text in body["metadata"]["annotations"].items()}
    box.shows(
        said.pop("list-number"),
        said.pop("node-ips"),
        **{key.replace("-", "_"): text for key, text in said.items() if text},
    )
    known = {
        name: text for name, text in pod_env(body).items() if "metadata.annotations" not in text
    }
    process = box.start([box.launch, *python(PRINT)], **known)
    found = json.loads(line(process))
    expected = environment_of(body, known["DI_POD_IP"])
    assert {name: found.get(name) for name in expected} == expected
    end(process)


def has_list(box: Box, number: int) -> Callable[[], bool]:
    return lambda: bool(box.topology()["listNumber"] == number)


@pytest.mark.parametrize("addressing", ["IP", "Hostname"])
def test_topology_json_is_the_operators_and_follows_the_list(box: Box, addressing: str) -> None:
    first, more = (NAMES, "world-2.world") if addressing == "Hostname" else (IPS, "10.0.0.3")
    box.shows("3", first)
    process = box.start([box.launch, *python(LISTEN)], **WORLD)
    assert line(process) == "ready"
    for number, ips in ((3, first), (4, f"{first},{more}")):
        box.shows(str(number), ips)
        whole = replace(gang(3, 2, Topology.STAR), addressing=Addressing(addressing))
        wanted = json.loads(topology_json(whole, AddressList(number, ips)))
        until_true("topology.json has it", has_list(box, number))
        assert box.topology() == wanted
    assert (box.path / "topology.json").stat().st_mode & 0o777 == 0o644
    process.send_signal(signal.SIGTERM)
    end(process)


@pytest.mark.parametrize("namespace", [[], PID_NAMESPACE], ids=["child", "PID-1"])
def test_the_wait_for_a_list_ends_when_the_pod_does(box: Box, namespace: list[str]) -> None:
    process = box.start([*namespace, box.launch, *python("print('ran')")], **WORLD)
    until_true("it says so", lambda: "waiting for the peer list" in box.err())
    os.kill(first_process(process, namespace), signal.SIGTERM)
    assert end(process) == (128 + signal.SIGTERM, [])


def test_h39_the_annotations_win_over_the_environment(box: Box) -> None:
    """H39: envFrom or the image can set the variables that the launcher takes from the pod's
    annotations, and none that lets it read another file.
    """
    box.shows("3", IPS)
    forged = {"DI_NODES": "6.6.6.6", "DI_NODE_IPS": "6.6.6.6", "DI_LIST_NUMBER": "99"}
    forged |= {"DIJOB_ADDRESSING": "Hostname", "DIJOB_POD_DIR": "/nowhere"}
    process = box.start([box.launch, *python(PRINT)], **WORLD, **forged)
    found = json.loads(line(process))
    expected = LISTED | {"DI_NODES": IPS, "DI_NODE_IPS": IPS}
    assert {name: found[name] for name in expected} == expected
    end(process)
