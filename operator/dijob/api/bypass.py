"""Which programs of a job run without the operator's launcher and learn of no peers.

The launcher stands before the template's `command`. Without it DI-engine gets no arguments from the
job, and each pod may train alone although every variable is set. A program that reads the
variables itself (torch's, Slurm's, or DI_NODES) needs no launcher.
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
    "is not set, so the image's entry point runs without the operator's launcher, DI-engine does"
    " not know its peers, and each pod may train alone: set `command` to the program, such as"
    " `command: [ditask]`, and keep its arguments in `args`; if the program reads DI_RANK and"
    " DI_NODES itself, set spec.launcher: Off"
)
_OWN_WORLD: Final = (
    "passes {} to ditask, which then runs as if it were outside a job, so the ranks do not connect"
    " to each other: remove this option, or add --topology alone if that is intended"
)


def bypassed(job: DIJob) -> tuple[Problem, ...]:
    """Why programs of the job know no peers, one problem for each set of pods."""
    found = (problem(pod_set, job) for pod_set in job.pod_sets)
    return tuple(dict.fromkeys(one for one in found if one))


def problem(pod_set: PodSet, job: DIJob) -> Problem | None:
    """Why the programs of these pods know no peers; None if they do, or if there are no peers."""
    spec = job.spec
    if spec.maximum * job.workers == 1 or job.topology is Topology.ALONE:
        return None
    main = pod_set.main_container
    given = bool(main.get("command"))
    # Without a command, what most entry points do with their arguments is to run them.
    command = pod_set.command if given else Command.of({"command": main.get("args")})
    # Such a ditask ignores DI_NODES (cli_ditask.py).
    platform = command.platform is not None or command.hides("platform")
    alone = command.runs_ditask and not platform
    if spec.launcher is Launcher.OFF:
        return Problem("spec.launcher", _OFF) if alone else None
    if given and (option := _own_world(command, job)):
        return Problem(f"{pod_set.main_path}.command", _OWN_WORLD.format(option))
    if given or command.platform == "k8s":
        return None
    informed = spec.runtime is not Runtime.DITASK and spec.message_queue is None
    return None if informed and not alone else Problem(f"{pod_set.main_path}.command", _NO_COMMAND)


def _own_world(command: Command, job: DIJob) -> str:
    """The option by which ditask does not join the ranks of the job (images/launcher/ditask.go) and
    of which its user may not know so; else "".
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
