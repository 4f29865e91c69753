"""The environment of a pod's containers: the variables that are known when the pod is created. If
no launcher reads the pod's files, it also contains references to the annotations that will hold the
peer list.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from dijob.api.model import DIJob
from dijob.api.spec import CONNECT_SECONDS
from dijob.core.members import Gang, GangMember
from dijob.core.render import annotations
from dijob.core.render.fields import Manifest, field_variable, objects_in
from dijob.core.render.runtimes import ditask, runtime_environment
from dijob.names import RESERVED_ENV
from dijob.pod import KILL_SECONDS, RESTART_POLICY

# How command, args and values refer to a variable that the kubelet substitutes.
REFERENCE = re.compile(r"\$\(([A-Za-z_]\w*)\)")


def of_launched(job: DIJob) -> dict[str, str]:
    """Return the variables that pass settings of the job to the launcher and to the programs that
    it starts. A variable whose value would be the default is left out.
    """
    seconds = job.spec.connect_seconds
    differs = {
        "DIJOB_WORKERS_ASSUMED": "" if job.stated_workers else "1",
        "DIJOB_CONNECT_SECONDS": "" if seconds == CONNECT_SECONDS else str(seconds),
    }
    return {name: value for name, value in differs.items() if value}


def of_main(
    main: Manifest, spec: Manifest, member: GangMember, gang: Gang, launcher: dict[str, str] | None
) -> Any:
    """Return the environment of the main container. `launcher` contains the launcher's own
    variables (of_launched); None if the container does not start the launcher.
    """
    taken = _taken_names(main)
    fields = [
        field_variable(name, f"metadata.annotations['{annotation}']")
        for name, annotation in from_fields(main, gang, member, launcher is not None)
    ]
    known = runtime_environment(member, gang)
    if launcher is not None:
        known |= launcher | _of_launcher(main, spec, gang, member, taken)
    return _before_users(main, _own_address(), *fields, *_literal_variables(known))


def of_other(container: Manifest, member: GangMember, gang: Gang) -> Any:
    """Return the environment of a container that is not the main one: the variables that are fixed
    when the pod is created. An init container starts before there is a peer list, so DI_NUM_NODES
    is the size of the job when the pod is created.
    """
    known = {**ditask.of_job(member, gang), "DI_NUM_NODES": str(gang.size)}
    if member.task is not None:
        known |= ditask.of_task(member)
    return _before_users(container, _own_address(), *_literal_variables(known))


def _before_users(container: Manifest, *ours: Manifest) -> Any:
    """Return our variables, followed by the user's, which may refer to ours. User-defined variables
    are not overwritten, except those that make the pod a member of its job.
    """
    users, taken = container.get("env"), _taken_names(container)
    if users is not None and not isinstance(users, list):
        return users
    return [*(one for one in ours if one["name"] not in taken), *(users or ())]


def _taken_names(container: Manifest) -> frozenset[str]:
    given = (str(one.get("name")) for one in objects_in(container.get("env")))
    return frozenset(given) - set(RESERVED_ENV)


def _own_address() -> Manifest:
    return field_variable("DI_POD_IP", "status.podIP")


def _literal_variables(known: Mapping[str, str]) -> Iterator[Manifest]:
    return ({"name": name, "value": value} for name, value in known.items())


def from_fields(
    main: Manifest, gang: Gang, member: GangMember, launched: bool
) -> list[tuple[str, str]]:
    """Return each variable that the kubelet reads from an annotation when it starts the container,
    together with the name of the annotation.

    Without a launcher, these are all the variables that depend on the list. With a launcher, they
    are only the variables to which the template refers as $(NAME), because the kubelet substitutes
    them before the launcher runs. The launcher sets all other variables itself.
    """
    named = _referenced_names(main)
    return [
        (name, annotation)
        for name, annotation in annotations.list_variables(gang, member)
        if not launched or name in named
    ]


def _referenced_names(main: Manifest) -> frozenset[str]:
    values = (e.get("value") for e in objects_in(main.get("env")))
    texts = [*_as_list(main.get("command")), *_as_list(main.get("args")), *values]
    return frozenset(
        name for text in texts if isinstance(text, str) for name in REFERENCE.findall(text)
    )


def _of_launcher(
    main: Manifest, spec: Manifest, gang: Gang, member: GangMember, taken: frozenset[str]
) -> dict[str, str]:
    """Return the variables that pass settings of the pod to the launcher (images/launcher).
    A variable whose value would be the launcher's default is left out.
    """
    path, grace = main.get("terminationMessagePath"), spec.get("terminationGracePeriodSeconds")
    listed = annotations.runtime_list_variables(gang, member, taken)
    differs = {
        "DIJOB_TERMINATION_LOG": path or "",
        "DIJOB_TASKS": annotations.task_slices(gang, taken),
        "DIJOB_LISTED": " ".join(f"{name}={key}" for name, key in listed.items()),
        RESTART_POLICY: spec.get("restartPolicy") or "OnFailure",
        "DIJOB_KILL_SECONDS": "" if grace == KILL_SECONDS or not isinstance(grace, int) else grace,
    }
    return {name: str(value) for name, value in differs.items() if value != ""}


def _as_list(given: Any) -> list[Any]:
    return given if isinstance(given, list) else []
