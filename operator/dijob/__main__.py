"""The operator's command line: `python -m dijob`.

The chart sets these options from its values. Each option can also be set with an environment
variable `DIJOB_OPTION`.
"""

import asyncio
import json
import logging
import os
import socket
import uuid
from collections.abc import Callable, Iterable
from contextlib import suppress
from enum import StrEnum
from typing import Any

import click

from dijob import __version__
from dijob.controller import logs
from dijob.controller.leader.lease import LeaseName
from dijob.controller.logs import LogFormat
from dijob.controller.main import Settings, run_operator
from dijob.core.options import LAUNCHER_IMAGE, REDIS_IMAGE, Delivery, Options
from dijob.kube.connection import CredentialsError
from dijob.names import LOST_NODE_SECONDS, Engine, Priority

log = logging.getLogger("dijob")


def _enum_option(
    *names: str, default: StrEnum, help: str
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Return an option whose value must be a member of the enum that `default` belongs to."""
    kind = type(default)
    return click.option(
        *names,
        type=click.Choice([each.value for each in kind]),
        default=default.value,
        show_default=True,
        callback=lambda _context, _option, value: kind(value),
        help=help,
    )


@click.command(
    context_settings={"help_option_names": ["-h", "--help"], "auto_envvar_prefix": "DIJOB"}
)
@click.option(
    "--namespace",
    "namespaces",
    multiple=True,
    help="Reconcile DIJobs in this namespace only (repeatable). Default: all namespaces.",
)
@click.option(
    "--launcher-image",
    default=LAUNCHER_IMAGE,
    show_default=True,
    help="Image that contains the gate and the launcher. Each pod of a job uses it.",
)
@_enum_option(
    "--launcher-delivery",
    default=Delivery.AUTO,
    help=(
        "How the launcher image gets into the pods. ImageVolume needs Kubernetes 1.35 and"
        " containerd 2.1. Auto: ImageVolume from Kubernetes 1.36 on, and InitContainer if that"
        " fails."
    ),
)
@click.option(
    "--cluster-domain",
    default="cluster.local",
    show_default=True,
    help="DNS domain of the cluster.",
)
@click.option(
    "--log-level",
    type=click.Choice(["debug", "info", "warning"]),
    default="info",
    show_default=True,
    help="Minimum level of logged messages.",
)
@_enum_option(
    "--log-format",
    default=LogFormat.TEXT,
    help="Human-readable log lines, or one JSON object per line.",
)
@click.option(
    "--priority-class",
    "priority_classes",
    multiple=True,
    metavar="PRIORITY=NAME",
    callback=lambda _context, _option, values: _parse_priorities(values),
    help="The PriorityClass for jobs with spec.priority normal or high (repeatable).",
)
@click.option(
    "--redis-image",
    default=REDIS_IMAGE,
    show_default=True,
    help=(
        "Image of the Redis server that the operator creates for a job. It must have redis-server"
        " in its PATH."
    ),
)
@click.option(
    "--redis-resources",
    default="{}",
    show_default=True,
    metavar="JSON",
    callback=lambda _context, _option, value: _parse_resources(value),
    help="Resources of the Redis container, as in a pod spec.",
)
@click.option(
    "--network-policies/--no-network-policies",
    "isolates",
    default=False,
    show_default=True,
    help=(
        "Create a NetworkPolicy for each job, so that only the job's ranks and the peers in its"
        " spec.networkPolicy may connect to its pods."
    ),
)
@_enum_option(
    "--scheduling-engine",
    "engine",
    default=Engine.NONE,
    help=(
        "The engine for jobs whose spec.scheduling names no engine. An engine gives nodes to the"
        " ranks of a job as a group. None: each pod is scheduled on its own."
    ),
)
@click.option(
    "--kueue/--no-kueue",
    "queues",
    default=False,
    show_default=True,
    help=(
        "Let Kueue admit the jobs that have the label kueue.x-k8s.io/queue-name. The operator then"
        " creates Workloads for these jobs, and watches the Workloads."
    ),
)
@click.option(
    "--scheduler-name",
    default="",
    help="The name under which the engine's scheduler is installed. Default: its usual name.",
)
@click.option(
    "--lost-node-seconds",
    type=click.IntRange(0, 86400),
    default=LOST_NODE_SECONDS,
    show_default=True,
    help=(
        "Seconds that pods stay on an unreachable node, if neither the job nor its template sets"
        " this time."
    ),
)
@click.option(
    "--server-url",
    default="",
    metavar="URL",
    help="URL of the HTTP server that running jobs use (python -m dijob.server). Default: none.",
)
@click.option(
    "--channel",
    default="",
    metavar="HOST:PORT",
    callback=lambda _context, _option, value: _parse_channel(value),
    help=(
        "Address at which the pods of jobs reach this operator. Default: none, so all pods have a"
        " gate, and get their peer lists as annotations."
    ),
)
@click.option(
    "--channel-port",
    type=click.IntRange(1, 65535),
    default=8082,
    show_default=True,
    help="Port on which the operator listens for launchers, if --channel is set.",
)
@click.option(
    "--history/--no-history",
    "keeps_history",
    default=False,
    show_default=True,
    help=(
        "When ttlSecondsAfterFinished has expired, keep the job until the history (python -m"
        " dijob.history) has recorded it, but for at most an hour."
    ),
)
@click.option(
    "--health-port",
    default=8080,
    show_default=True,
    help="Port of /livez, /readyz and /metrics; 0 disables them.",
)
@click.option(
    "--job-metrics",
    is_flag=True,
    help=("Serve the progress of each job as a metric, and as JSON at /progress/NAMESPACE/NAME."),
)
@click.option(
    "--lease",
    default="",
    metavar="NAMESPACE/NAME",
    help=(
        "The Lease for leader election. Default: none, because a single operator needs no leader"
        " election."
    ),
)
@click.option(
    "--identity",
    default=f"{socket.gethostname()}_{uuid.uuid4()}",
    show_default="the hostname and a random UUID",
    help="The holder identity of this operator in the Lease. It must be unique.",
)
@click.option(
    "--kubeconfig",
    type=click.Path(exists=True),
    help="Kubeconfig file, to run the operator outside the cluster.",
)
@click.version_option(__version__)
def main(
    namespaces: tuple[str, ...],
    kubeconfig: str | None,
    log_level: str,
    log_format: LogFormat,
    **options: Any,
) -> None:
    """Run the DIJob operator: one DIJob becomes N pods that form one DI-engine world."""
    logs.configure(log_level, log_format)
    if kubeconfig:
        os.environ["KUBECONFIG"] = kubeconfig  # kopf has no option for it
    lease = _parse_lease(options.pop("lease"), options.pop("identity"))
    settings = Settings(
        namespaces,
        kubeconfig,
        health_port=options.pop("health_port"),
        channel_port=options.pop("channel_port"),
        job_metrics=options.pop("job_metrics"),
        lease=lease,
        options=Options(**options),
    )
    try:
        # A SIGTERM that arrives before kopf has started cancels `run_operator`. This is a normal
        # exit, with code 0.
        with suppress(asyncio.CancelledError):
            asyncio.run(run_operator(settings))
    except CredentialsError as error:
        log.critical("%s", error)  # logged, not printed, so that it has the configured format
        raise SystemExit(1) from error


def _parse_lease(given: str, identity: str) -> LeaseName | None:
    namespace, _, name = given.partition("/")
    if given and not (namespace and name and "/" not in name):
        raise click.BadParameter(f"--lease {given!r} must be NAMESPACE/NAME")
    return LeaseName(namespace, name, identity) if given else None


def _parse_channel(given: str) -> str:
    host, _, port = given.rpartition(":")
    if given and not (host and port.isascii() and port.isdigit()):
        raise click.BadParameter(f"{given!r} must be HOST:PORT")
    return given


def _parse_resources(given: str) -> dict[str, Any]:
    try:
        found = json.loads(given)
    except ValueError as error:
        raise click.BadParameter(f"{given!r} is not valid JSON: {error}") from error
    if not isinstance(found, dict):
        raise click.BadParameter(
            f'{given!r} must be an object, as in {{"limits": {{"memory": "1Gi"}}}}'
        )
    return found


def _parse_priorities(given: Iterable[str]) -> dict[str, str]:
    found = dict[str, str]()
    for one in given:
        priority, _, name = one.partition("=")
        if priority not in set(Priority) or not name:
            raise click.BadParameter(
                f"{one!r} must be PRIORITY=NAME with {' or '.join(Priority)}, as in high=NAME"
            )
        found[priority] = name
    return found


if __name__ == "__main__":
    main()
