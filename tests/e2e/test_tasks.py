"""Jobs with tasks on real pods: who is who, whose success counts, and a real DQN that is suspended
on its way.
"""

import json
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml
from archives import ROOT
from cluster import ClusterError
from demo import RETURN, TARGET
from diary import Diary, kept
from environ import Shape, expected, program
from identity import identities
from jobs import REAL_SECONDS, job
from space import MAIN, Body, Space, measured

pytestmark = pytest.mark.e2e

EXAMPLE = ROOT / "examples/cartpole-tasks.yaml"
NAMES = ["learner-0", "evaluator-0", "collector-0", "collector-1"]
TERM, KILLED = 143, 137


def tasks(
    name: str, learner: str, collector: str = "exec light-peer --forever", **spec: Any
) -> Body:
    """A light job of a learner and two collectors; each runs a bash script."""
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


def test_only_the_last_task_grows(space: Space) -> None:
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
    with pytest.raises(ClusterError, match="replicas of its last task instead"):
        space.kubectl("scale", "dijob/grows", "--replicas=5")


def replicas(task: int, count: int) -> Body:
    return {"op": "replace", "path": f"/spec/tasks/{task}/replicas", "value": count}


def ends(diary: Diary) -> dict[str, int]:
    """How main containers ended, by pod: pods that are deleted show it in passing."""
    found = {}
    for _, _, pod in diary.entries:
        for status in pod["status"].get("containerStatuses", ()):
            ended = (status.get("state") or {}).get("terminated")
            if status["name"] == MAIN and ended:
                found[pod["metadata"]["name"]] = ended["exitCode"]
    return found


@contextmanager
def followed(space: Space, pod: str, log: Path) -> Iterator[None]:
    """Writes down what the pod's main container prints: its logs go with it."""
    command = space.command("logs", "-f", pod, "-c", MAIN)
    with log.open("w") as file, subprocess.Popen(command, stdout=file) as run:
        try:
            yield
        finally:
            run.terminate()


def test_when_the_learner_is_done_the_collectors_end_gently(space: Space) -> None:
    """They have their grace period for what they want to save."""
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
        space.execute("learns-learner-0", "touch", "/tmp/done")
        space.until_true("learns", "Succeeded")
        assert space.condition("learns", "Succeeded")["reason"] == "SuccessPolicy"
        assert space.status("learns")["succeededRanks"] == "0"
        space.until_left("learns", "learns-learner-0")
        space.until(
            "all ends are seen", lambda: "" if len(ends(diary)) == 3 else str(ends(diary)), 10
        )
    assert ends(diary) == {"learns-learner-0": 0, "learns-collector-0": 0, "learns-collector-1": 0}


def trained(space: Space, name: str, number: int) -> str:
    """Why the evaluator has not evaluated with this list yet; "" once it has."""
    status = space.status(name)
    if status.get("listNumber") != number or not RETURN.search(space.logs(f"{name}-evaluator-0")):
        return f"no return yet: {status.get('message')}"
    return ""


def still_running(space: Space, name: str) -> list[str]:
    return [
        pod["metadata"]["name"] for pod in space.pods(name) if pod["status"]["phase"] == "Running"
    ]


def test_a_dqn_with_tasks_is_suspended_edited_and_trained_to_its_target(
    space: Space, tmp_path: Path
) -> None:
    """examples/cartpole-tasks.yaml. (That no deadline counts the time suspended is
    test_policies.py's.)
    """
    name = "cartpole-tasks"
    (body,) = yaml.safe_load_all(EXAMPLE.read_text())
    space.apply(body)
    space.until("the evaluator has evaluated", lambda: trained(space, name, 1), REAL_SECONDS)
    before = {pod["metadata"]["name"]: pod["metadata"]["labels"] for pod in space.pods(name)}
    assert list(before) == [f"{name}-{rest}" for rest in NAMES]

    space.kubectl("patch", f"dijob/{name}", "--type=merge", "-p", '{"spec": {"suspend": true}}')
    measured(
        "seconds until a training that is suspended has no pods", f"{space.until_left(name):.1f}"
    )
    space.until(
        "it is Suspended",
        lambda: "" if space.status(name)["phase"] == "Suspended" else "not yet",
        10,
    )
    for task in body["spec"]["tasks"]:
        task["template"]["spec"]["containers"][0]["env"].append(
            {"name": "EDITED", "value": "meanwhile"}
        )
    space.apply({**body, "spec": {**body["spec"], "suspend": True}})
    assert not space.pods(name)

    with kept(space, "pods") as diary:
        space.kubectl(
            "patch", f"dijob/{name}", "--type=merge", "-p", '{"spec": {"suspend": false}}'
        )
        space.until("it trains again", lambda: trained(space, name, 2), REAL_SECONDS)
        with followed(space, f"{name}-evaluator-0", tmp_path / "evaluator.log"):
            after = {pod["metadata"]["name"]: pod["metadata"]["labels"] for pod in space.pods(name)}
            assert after == before
            main = space.pods(name)[0]["spec"]["containers"][0]
            assert {"name": "EDITED", "value": "meanwhile"} in main["env"]
            waited = space.until_true(name, "Succeeded", 2 * REAL_SECONDS)
            measured(
                "seconds from the first evaluation to the success of cartpole-tasks.yaml",
                f"{waited:.0f}",
            )
            space.until("nobody runs any more", lambda: " ".join(still_running(space, name)), 60)
    returns = [float(value) for value in RETURN.findall((tmp_path / "evaluator.log").read_text())]
    measured("the evaluator's last Episode Return", returns[-1] if returns else "none")
    assert returns
    assert returns[-1] >= TARGET
    status = space.status(name)
    assert status["suspendedSeconds"] >= 1
    assert (status.get("restarts", 0), status.get("renewals", 0)) == (0, 0)
    ended = ends(diary)
    measured("exit codes of cartpole-tasks", ended)
    assert ended[f"{name}-learner-0"] == 0
    # Those that were not done when the learner was have been asked to end, and nobody had to be
    # killed.
    assert {ended[f"{name}-collector-{number}"] for number in range(2)} <= {0, TERM}
    assert KILLED not in ended.values()
