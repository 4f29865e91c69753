"""Finds programs that run without the operator's launcher and do not know their peers.

The launcher runs the template's `command`. Without the launcher, DI-engine gets no arguments from
the job. Although every variable is set, each pod may then train alone, and the job still succeeds.
A program that reads the variables itself (those of torch or Slurm, or DI_NODES) needs no
launcher.
"""

from typing import Final

from dijob.api.command import Command
from dijob.api.model import DIJob
from dijob.api.pod_sets import PodSet
from dijob.api.problems import Problem
from dijob.names import DIALLING, Launcher, Runtime, Topology

_OFF: Final = (
    "launcher is Off and the command runs ditask without --platform, so each pod will train alone:"
    " add `--platform k8s --topology mesh` to the command, or set launcher: Auto"
)
_NO_COMMAND: Final = (
    "is not set, so the image's entry point runs without the operator's launcher. Without the"
    " launcher, DI-engine does not know its peers, and each pod may train alone: set `command` to"
    " the program, such as `command: [ditask]`, and keep the program's arguments in `args`. If the"
    " program reads DI_RANK and DI_NODES itself, set spec.launcher: Off"
)
_OWN_WORLD: Final = (
    "passes {} to ditask, which then runs as if it were outside a job, so the ranks do not connect"
    " to each other: remove this option, or add `--topology alone` if each rank is meant to train"
    " on its own"
)


def bypass_problems(job: DIJob) -> tuple[Problem, ...]:
    """Return the reasons why programs of the job do not know their peers. There is at most one
    reason for each pod set.
    """
    found = (bypass_problem(pod_set, job) for pod_set in job.pod_sets)
    return tuple(dict.fromkeys(one for one in found if one))


def bypass_problem(pod_set: PodSet, job: DIJob) -> Problem | None:
    """Return the reason why the programs of these pods do not know their peers.

    Returns None if the programs know their peers or do not have any.
    """
    spec = job.spec
    # A single process has no peers. With topology `alone`, processes ignore their peers.
    if spec.maximum * job.workers == 1 or job.topology is Topology.ALONE:
        return None
    main = pod_set.main_container
    given = bool(main.get("command"))
    # Without a command the image's entry point runs. Most entry points run their arguments, so
    # `args` is parsed as the command.
    command = pod_set.command if given else Command.of({"command": main.get("args")})
    # A ditask without --platform ignores DI_NODES (cli_ditask.py).
    platform = command.platform is not None or command.hides("platform")
    alone = command.runs_ditask and not platform
    if spec.launcher is Launcher.OFF:
        return Problem("spec.launcher", _OFF) if alone else None
    if given and (option := _own_world(command, job)):
        return Problem(f"{pod_set.main_path}.command", _OWN_WORLD.format(option))
    # If there is a command, the launcher runs it. With --platform k8s, DI-engine reads the
    # variables itself.
    if given or command.platform == "k8s":
        return None
    # Programs for another runtime read the variables of that runtime themselves. If the job has a
    # message queue, they also use DI-engine, which gets its arguments only from the launcher.
    runtime = pod_set.own_runtime or spec.runtime
    informed = runtime is not Runtime.DITASK and spec.message_queue is None
    return None if informed and not alone else Problem(f"{pod_set.main_path}.command", _NO_COMMAND)


def _own_world(command: Command, job: DIJob) -> str:
    """Return the option that keeps ditask from joining the job's ranks, or "" if there is none.

    In the pod, the launcher makes the same decision (the launcher's ditask/ditask.go). Options that
    state the user's intention, such as `--topology alone`, are not reported.
    """
    options = command.options or {}
    decisive = ("platform", "attach-to", "topology", "mq-type")
    if (
        job.spec.maximum == 1
        or any(command.hides(option) for option in decisive)
        or {"platform", "attach-to"} & options.keys()
        or options.get("topology") == Topology.ALONE
        or options.get("mq-type", job.queue) not in DIALLING
    ):
        return ""
    if address := options.get("address"):
        return f"--address {address}"
    return "--protocol ipc" if options.get("protocol") == "ipc" else ""
