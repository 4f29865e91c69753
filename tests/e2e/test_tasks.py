"""Jobs with tasks on real pods: identities of ranks, and the success policy."""

import json
from typing import Any

import pytest
from cluster import ClusterError
from diary import exits, kept
from environ import Shape, expected, program
from identity import identities
from jobs import job
from space import Body, Space

pytestmark = pytest.mark.e2e

TERM, KILLED = 143, 137


def tasks(
    name: str, learner: str, collector: str = "exec light-peer --forever", **spec: Any
) -> Body:
    """Return a job of a learner and two collectors of the light image, each with a bash script."""
    made = job(name, {}, **spec)
    (template,) = [made["spec"].pop(key) for key in ("template",)]
    made["spec"].pop("replicas")
    kinds = (("learner", 1, learner), ("collector", 2, collector))
    made["spec"]["tasks"] = [
        {"type": kind, "replicas": size, "template": with_script(template, script)}
        for kind, size, script in kinds
    ]
    return made


def with_script(template: Body, script: str) -> Body:
    copy: Body = json.loads(json.dumps(template))
    copy["spec"]["containers"][0]["command"] = ["/bin/bash", "-c", script]
    return copy


def test_every_process_knows_its_task_and_all_addresses(space: Space) -> None:
    space.apply(tasks("kinds", "exec light-peer --forever"))
    space.until_true("kinds", "PeersReady")
    body, ips = space.job("kinds"), space.ips("kinds")
    assert space.names("kinds") == ["kinds-learner-0", "kinds-collector-0", "kinds-collector-1"]
    for rank, pod in enumerate(space.pods("kinds")):
        process = program(space, pod["metadata"]["name"], "python3 /usr/local/bin/light-peer")
        kind = "learner" if rank == 0 else "collector"
        assert process.di == expected(body, ips, rank, Shape(3, 1, "mesh")) | {
            "DI_LABELS": kind,
            "DI_LEARNER_NODES": ips[0],
            "DI_COLLECTOR_NODES": ",".join(ips[1:]),
        }
    assert space.status("kinds")["taskStatus"] == {
        "learner": {"Running": 1},
        "collector": {"Running": 2},
    }
    found = space.kubectl(
        "get", "pods", "-l", "diengine/job=kinds,diengine/task-type=collector", "-o", "name"
    ).split()
    assert found == ["pod/kinds-collector-0", "pod/kinds-collector-1"]


def test_only_the_last_task_is_scaled(space: Space) -> None:
    space.apply(tasks("grows", "exec light-peer --forever"))
    space.until_true("grows", "PeersReady")
    before = identities(space, "grows")
    space.kubectl("patch", "dijob/grows", "--type=json", "-p", json.dumps([replicas(1, 3)]))
    space.until(
        "a third collector runs",
        lambda: "" if len(identities(space, "grows")) == 4 else "not yet",
        60,
    )
    now = identities(space, "grows")
    assert {name: now[name] for name in before} == before
    assert "grows-collector-2" in now
    with pytest.raises(ClusterError, match="only the last task's replicas can be changed"):
        space.kubectl("patch", "dijob/grows", "--type=json", "-p", json.dumps([replicas(0, 2)]))
    space.kubectl("scale", "dijob/grows", "--replicas=1")
    space.until(
        "one collector is left",
        lambda: "" if len(identities(space, "grows")) == 2 else "not yet",
        60,
    )
    now = identities(space, "grows")
    assert {name: before[name] for name in now} == now
    assert sorted(now) == ["grows-collector-0", "grows-learner-0"]


def replicas(task: int, count: int) -> Body:
    return {"op": "replace", "path": f"/spec/tasks/{task}/replicas", "value": count}


def test_collectors_get_sigterm_when_the_learner_has_succeeded(space: Space) -> None:
    """The collectors can save their state during the grace period."""
    learns = "until [ -e /tmp/done ]; do sleep 0.1; done"
    saves = "trap 'sleep 2; exit 0' TERM; echo ready; while :; do sleep 0.1; done"
    collectors = [f"learns-collector-{number}" for number in range(2)]
    with kept(space, "pods") as diary:
        space.apply(tasks("learns", learns, saves, successPolicy="learner"))
        space.until(
            "they collect",
            lambda: " ".join(c for c in collectors if "ready" not in space.logs(c)),
            120,
        )
        # The kubelet of the learner may open its gate some seconds after the others have started.
        space.until_true("learns", "Running")
        space.touch("learns-learner-0", "/tmp/done")
        space.until_true("learns", "Succeeded")
        assert space.condition("learns", "Succeeded")["reason"] == "SuccessPolicy"
        assert space.status("learns")["succeededRanks"] == "0"
        space.until_left("learns", "learns-learner-0")
        space.until(
            "all ends are seen", lambda: "" if len(exits(diary)) == 3 else str(exits(diary)), 60
        )
    assert exits(diary) == {"learns-learner-0": 0, "learns-collector-0": 0, "learns-collector-1": 0}
