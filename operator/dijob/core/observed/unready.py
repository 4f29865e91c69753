"""Finds out why a pod is not Ready, unless the only cause is the rank's own program.

The causes are read from the pod's raw status.

A pod is Ready only if all its containers are ready and all its readiness gates are True. Without
this module, a message could only say that the program is not Ready, and the program's log would not
explain it.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from dijob import names
from dijob.api.numbers import parse_natural
from dijob.core.observed.containers import OURS, sidecar_names
from dijob.core.observed.scheduling import pod_condition
from dijob.core.observed.views import Unready

Body = Mapping[str, Any]

READINESS, STARTUP = "readiness", "startup"
# The launcher's variable that contains the port on which the launcher answers the operator's own
# readiness probe.
ANSWERING = "DIJOB_READY"


def find_unready(spec: Body, status: Body, main: str) -> Unready | None:
    """Return the first cause, in the order in which the kubelet starts the containers; None if only
    the program itself is not Ready. `main` is the name of the main container.

    A container that fails is reported by complaints.py, not here.
    """
    if pod_condition(status, "Ready").get("status") != "False":
        return None
    return next(_unready_causes(spec, status, main), None)


def _unready_causes(spec: Body, status: Body, main: str) -> Iterator[Unready]:
    given = {str(c.get("name")): c for c in _all_containers(spec)}
    forever = sidecar_names(spec)
    own: Body = {}
    others = list[Body]()
    for one in status.get("containerStatuses") or ():
        if one.get("name") == main:
            own = one
        else:
            others.append(one)
    for one in status.get("initContainerStatuses") or ():
        name = str(one.get("name"))
        container = given.get(name) or {}
        if name in forever:
            # The containers that follow a sidecar wait for it to start, but not for it to become
            # Ready.
            if _running_since(own) or _failing_probe(container, one) == STARTUP:
                yield from _of_container(container, one, restarts=True)
        elif name not in OURS and (began := _running_since(one)):
            # The seconds are left out, so that ranks that started together have the same message.
            text = f"init container {name} has been running since {began[:16]}Z"
            yield Unready(text, name, since=began)
    # Once the program has exited, the pod's other containers do not count as a cause.
    if not _running_since(own):
        return
    for one in others:
        name = str(one.get("name"))
        yield from _of_container(given.get(name) or {}, one, restarts=name in forever)
    container = given.get(main) or {}
    probe = _failing_probe(container, own)
    if probe == STARTUP or (probe and not _is_the_operators(container)):
        text = f"its program is running, but its {probe}Probe is failing"
        yield Unready(text, main, probe, _running_since(own))
    yield from _unready_gates(spec, status)


def _all_containers(spec: Body) -> Iterable[Body]:
    return (*(spec.get("initContainers") or ()), *(spec.get("containers") or ()))


def _of_container(container: Body, status: Body, *, restarts: bool) -> Iterator[Unready]:
    """Yield the reason why a container other than the main one is not ready. `restarts`: the
    container always restarts.
    """
    name, state = str(status.get("name")), status.get("state") or {}
    if probe := _failing_probe(container, status):
        text = f"container {name} is not Ready: its {probe}Probe is failing"
        yield Unready(text, name, probe, _running_since(status))
        return
    ended = state.get("terminated") or {}
    if restarts and not _running_since(status):
        # The kubelet reports the last termination in `state`, or in `lastState` during a back-off.
        ended = ended or (status.get("lastState") or {}).get("terminated") or {}
        if ended and not ended.get("exitCode"):
            again = "is restarted repeatedly" if status.get("restartCount") else "restarts"
            yield Unready(f"container {name} exited 0 and {again}", name)
    elif ended and not ended.get("exitCode"):
        text = f"container {name} exited 0, and a pod with a terminated container is not Ready"
        yield Unready(text, name, since=str(ended.get("finishedAt") or ""))


def _running_since(status: Body) -> str:
    """Return the time at which a container started; "" if it is not running."""
    running = (status.get("state") or {}).get("running")
    return str((running or {}).get("startedAt") or "")


def _failing_probe(container: Body, status: Body) -> str:
    """Return the kind of probe that keeps a running container from being ready; "" if none does."""
    if status.get("ready") or not _running_since(status):
        return ""
    # The other probes begin only after the startup probe has succeeded.
    if container.get("startupProbe") and not status.get("started"):
        return STARTUP
    return READINESS if container.get("readinessProbe") else ""


def _is_the_operators(container: Body) -> bool:
    """Whether a main container's readiness probe only checks that the program is listening, like
    the probe that the operator adds (core/render/pod.py).
    """
    probe = (container.get("readinessProbe") or {}).get("tcpSocket")
    given = container.get("env") or ()
    port = next((str(e.get("value")) for e in given if e.get("name") == ANSWERING), "")
    declared = [p.get("containerPort") for p in container.get("ports") or ()]
    listens = (parse_natural(port.partition(" ")[0]), names.MAIN_PORT, *declared)
    return probe is not None and probe.get("port") in listens


def _unready_gates(spec: Body, status: Body) -> Iterator[Unready]:
    for gate in spec.get("readinessGates") or ():
        kind = str(gate.get("conditionType"))
        found = pod_condition(status, kind)
        if not found:
            yield Unready(f"readiness gate {kind} is not set")
        elif found.get("status") != "True":
            since = str(found.get("lastTransitionTime") or "")
            why = str(found.get("message") or found.get("reason") or "")
            text = f"readiness gate {kind} is {found.get('status')}" + (f": {why}" if why else "")
            yield Unready(text, since=since)
