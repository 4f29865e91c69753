"""Parts of a pod's status as kubelets write them: conditions, and the states of containers."""

from typing import Any

from dijob import names
from dijob.core.observed.containers import Ending
from unit.builders import Body, main_status, terminated

RUNNING: Body = {"running": {}}


def condition(type_: str, status: str = "True", **words: str) -> Body:
    return {"type": type_, "status": status, **words}


def gate(**states: Any) -> Body:
    return main_status(name=names.GATE_CONTAINER, **states)


def looping(code: int, restarts: int = 1) -> Body:
    waiting = {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 10s"}}
    return main_status(restarts, state=waiting, lastState=terminated(code, message="boom"))


TERMINATED = Ending(1, 0, "Error", "boom")
