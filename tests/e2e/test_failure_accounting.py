"""What counts as a failure, and which logs remain, on real pods."""

import json
import os
import signal
from typing import Any

import pytest
from cluster import ClusterError
from faults.real_pods.looks import View
from identity import identities
from jobs import LIGHT
from manifests import dijob
from space import MAIN, Body, Space, measured, waits_for_list

pytestmark = pytest.mark.e2e

NEVER = {"restartPolicy": "Never"}
SLEEPS = ["sleep", "3600"]
EXITS_0 = ["bash", "-c", "trap 'exit 0' TERM; while :; do sleep 0.1; done"]
FAILS = ["bash", "-c", "echo start; sleep 2; echo here is what went wrong; exit 3"]
MEMORY = {"requests": {"memory": "64Mi"}, "limits": {"memory": "64Mi"}}
RESTARTS = {"resizePolicy": [{"resourceName": "memory", "restartPolicy": "RestartContainer"}]}


def job(name: str, command: list[str], pod: Body | None = None, **spec: Any) -> Body:
    """Return a job that fails with its first failure, by default of one rank."""
    main = {"name": MAIN, "image": LIGHT, "command": command, **spec.pop("main", {})}
    given = {"terminationGracePeriodSeconds": 2, **(pod or {})}
    return dijob(name, main, given, **{"replicas": 1, "backoffLimit": 0, **spec})


def failed_logs(space: Space, name: str) -> dict[str, str]:
    """Return the log of each rank's pod when the job has failed and no pod runs any more, or is
    still to be deleted.
    """
    space.until_true(name, "Failed", 240)
    space.until_gone("containers that run", lambda: running(space, name), 180)
    pods = [pod["metadata"]["name"] for pod in space.pods(name)]
    return {pod: space.kubectl("logs", pod, "-c", MAIN) for pod in pods}


def running(space: Space, name: str) -> list[str]:
    # The kubelet reports the end of a pod that is being deleted shortly before the pod is gone.
    return [
        pod["metadata"]["name"]
        for pod in space.pods(name)
        if pod["status"].get("phase") not in ("Failed", "Succeeded")
        or "deletionTimestamp" in pod["metadata"]
    ]


def test_the_log_of_the_failed_run_is_kept_and_nothing_starts_after_it(space: Space) -> None:
    """X2: with defaults, five ranks that fail at the same time, torch, and the third failure."""
    space.apply(
        job("once", FAILS),
        job("five", FAILS, replicas=5, backoffLimit=3),
        job("torch", FAILS, replicas=2, runtime="torch"),
        job("tries", FAILS, backoffLimit=1),
    )
    for name, ranks in (("once", 1), ("five", 4), ("torch", 1), ("tries", 1)):
        logs = failed_logs(space, name)
        told = {pod: log for pod, log in logs.items() if "here is what went wrong" in log}
        assert len(told) >= ranks, (name, logs)
        if name in ("once", "torch"):
            assert all(log.count("start\n") == 1 for log in told.values()), (name, logs)
        message = space.condition(name, "Failed")["message"]
        assert "--previous" not in message


# The second run prints how long after the crash of the first run it started.
CRASHES_ONCE = """
import os, sys, time
if os.path.exists("/work/crashed"):
    print(f"again after {time.time() - os.path.getmtime('/work/crashed'):.2f} s", flush=True)
    time.sleep(3600)
time.sleep(1)
open("/work/crashed", "w").close()
sys.exit(1)
"""


@pytest.mark.alone
@pytest.mark.parametrize("launcher", ["Auto", "Off"])
def test_a_crash_is_recovered_from_within_seconds(space: Space, launcher: str) -> None:
    """X2: how long the launcher waits until a failure is counted. Without the launcher, there is no
    wait.
    """
    work = {"name": "work", "mountPath": "/work"}
    space.apply(
        job(
            "crashes",
            ["python3", "-c", CRASHES_ONCE],
            {"volumes": [{"name": "work", "emptyDir": {}}]},
            backoffLimit=3,
            launcher=launcher,
            main={"volumeMounts": [work]},
        )
    )

    def log() -> str:
        try:
            return space.kubectl("logs", "crashes-0", "-c", MAIN)
        except ClusterError as not_yet:
            return str(not_yet)

    def problem() -> str:
        return "" if "again after" in (said := log()) else f"its log: {said}"

    space.until("it runs again", problem, 180)
    seconds = float(log().split("again after")[1].split()[0])
    measured(f"crash to next start, launcher {launcher}", seconds)
    assert seconds < 5


def test_a_resize_that_restarts_a_container_is_not_a_failure(space: Space) -> None:
    """C3: this also holds if the program then exits 0."""
    sized = {"resources": MEMORY, **RESTARTS}
    space.apply(job("sleeps", SLEEPS, main=sized), job("exits", EXITS_0, main=sized))
    for name in ("sleeps", "exits"):
        space.until_true(name, "Running", 180)
        for number, memory in enumerate(("72Mi", "80Mi"), 1):
            resize(space, f"{name}-0", memory)
            until_restarted(space, name, number)
    for name in ("sleeps", "exits"):
        status = space.status(name)
        assert (status["phase"], status.get("restarts", 0)) == ("Running", 0), status


def resize(space: Space, pod: str, memory: str) -> None:
    amount = {"requests": {"memory": memory}, "limits": {"memory": memory}}
    patch = {"spec": {"containers": [{"name": MAIN, "resources": amount}]}}
    space.kubectl("patch", "pod", pod, "--subresource", "resize", "-p", json.dumps(patch))


def until_restarted(space: Space, name: str, number: int) -> None:
    def problem() -> str:
        (pod,) = space.pods(name)
        (main,) = pod["status"]["containerStatuses"]
        return "" if main["restartCount"] == number and "running" in main["state"] else str(main)

    space.until(f"{name} has restarted {number} times", problem, 180)


@pytest.mark.parametrize("command", [SLEEPS, EXITS_0], ids=["sleeps", "exits 0"])
def test_a_lost_sandbox_is_not_a_failure_with_restart_policy_never(
    space: Space, command: list[str]
) -> None:
    """H18: the pod has failed, and its rank gets a new pod."""
    space.apply(job("never", command, NEVER))
    space.until_true("never", "Running", 180)
    before = space.uids("never")
    os.kill(View.of(space).pause("never-0"), signal.SIGKILL)

    def problem() -> str:
        now = identities(space, "never")
        new = len(now) == 1 and before.isdisjoint(uid for uid, *_ in now.values())
        return "" if new else f"{now}, before {before}"

    # (The job's condition can still be that of the old pod.)
    space.until("a new pod runs", problem, 180)
    assert space.status("never").get("restarts", 0) == 0


def test_a_sandbox_lost_at_the_gate_is_not_a_failure_with_restart_policy_never(
    space: Space,
) -> None:
    """H16: no program of the user has started."""
    here = {"containers": [{"name": MAIN, "image": LIGHT, "command": SLEEPS}], **NEVER}
    nowhere = {**here, "nodeSelector": {"no": "such"}}
    tasks = [
        {"type": kind, "template": {"spec": pod}}
        for kind, pod in (("learner", here), ("collector", nowhere))
    ]
    body = job("gate", SLEEPS, backoffLimit=0)
    body["spec"] = {"backoffLimit": 0, "tasks": tasks}
    space.apply(body)
    space.until("its gate waits", lambda: gate_of(space), 180)
    before = {pod["metadata"]["uid"] for pod in space.pods("gate")}
    os.kill(View.of(space).pause("gate-learner-0"), signal.SIGKILL)

    def problem() -> str:
        learner = next((p for p in space.pods("gate") if "learner" in p["metadata"]["name"]), None)
        again = learner is not None and learner["metadata"]["uid"] not in before
        return "" if again and not gate_of(space) else str(space.status("gate"))

    space.until("the gate of a new pod waits", problem, 180)
    assert space.status("gate").get("restarts", 0) == 0


def gate_of(space: Space) -> str:
    """Return a probe: "" when the learner waits for its peer list."""
    pods = [p for p in space.pods("gate") if p["metadata"]["name"] == "gate-learner-0"]
    return "" if any(map(waits_for_list, pods)) else str([pod["status"] for pod in pods])
