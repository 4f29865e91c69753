"""Parts of a pod's status as kubelets write them: conditions, and the states and terminations of
containers.
"""

from pathlib import Path
from typing import Any

from dijob import names
from dijob.core.observed.endings import ContainerEnding

from samples.builders import Body

# What kubelet 1.37.2 wrote for real pods.
KUBELET_1_37 = Path(__file__).with_name("kubelet_1_37.json")

RUNNING: Body = {"running": {}}


def condition(type_: str, status: str = "True", **words: str) -> Body:
    return {"type": type_, "status": status, **words}


def main_status(restarts: int = 0, name: str = names.MAIN_CONTAINER, **states: Any) -> Body:
    """Return the status of a container. `states` are state and lastState."""
    return {"name": name, "restartCount": restarts, **states}


def terminated(code: int, **fields: Any) -> Body:
    return {
        "terminated": {"exitCode": code, "reason": "Completed" if code == 0 else "Error", **fields}
    }


def gate(**states: Any) -> Body:
    return main_status(name=names.GATE_CONTAINER, **states)


def looping(code: int, restarts: int = 1) -> Body:
    waiting = {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 10s"}}
    return main_status(restarts, state=waiting, lastState=terminated(code, message="boom"))


TERMINATED = ContainerEnding(1, 0, "Error", "boom")
CRASH = ContainerEnding(3, 0, "Error", "no GPU")
