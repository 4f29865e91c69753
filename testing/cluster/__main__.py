"""The command line of the test cluster: python -m cluster COMMAND."""

import argparse
import os
import shlex
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from cluster import (
    CONTROL_PLANE,
    EMBEDDED,
    KIND,
    Cluster,
    ClusterError,
    Options,
    get,
    state,
    teardown,
    up,
)
from cluster.build import build
from cluster.go_program import kwok
from cluster.shell import Progress

NAME = "dijob"


def parser() -> argparse.ArgumentParser:
    """Return the parser with all commands and their arguments."""
    whole = argparse.ArgumentParser(
        prog="python -m cluster",
        description="The test cluster, with real nodes or nodes simulated by kwok.",
    )
    commands = whole.add_subparsers(required=True, metavar="COMMAND")

    def command(
        name: str, act: Callable[[argparse.Namespace], None], text: str
    ) -> argparse.ArgumentParser:
        sub = commands.add_parser(name, help=text, description=text)
        sub.add_argument("--name", default=NAME, help=f"the name of the cluster (default {NAME})")
        sub.set_defaults(act=act)
        return sub

    sub = command("up", _up, "start the cluster, unless it is already up and healthy")
    sub.add_argument(
        "--control-plane",
        action="store_true",
        help="control plane on loopback with simulated nodes; needs no root",
    )
    sub.add_argument(
        "--kwok-nodes", type=int, default=10, metavar="N", help="for --control-plane (default 10)"
    )
    sub.add_argument(
        "--image",
        action="extend",
        nargs="+",
        default=[],
        type=Path,
        help="image archives that every node has from the start",
    )
    sub.add_argument(
        "--mode", choices=[EMBEDDED, KIND], default="", help="default: kind if Docker is available"
    )
    command("down", _down, "remove the cluster completely")
    command("status", _status, "print the state of the cluster; exit code 1 if there is a problem")
    command("load", _load, "import image archives into every node").add_argument(
        "archives", nargs="+", type=Path
    )
    command("kubeconfig", _kubeconfig, "print the path of the kubeconfig")
    command(
        "env",
        _env,
        'print shell commands that set KUBECONFIG and PATH: eval "$(python -m cluster env)"',
    )
    command("stop-node", _stop_node, "power off a node").add_argument("node")
    command("start-node", _start_node, "power on a stopped node").add_argument("node")
    sub = command("pids", _pids, "print the host PIDs of a container's processes")
    for argument in ("namespace", "pod", "container"):
        sub.add_argument(argument)
    sub = command(
        "kill-sandbox", _kill_sandbox, "kill the sandbox of a running pod (same UID, new IP)"
    )
    for argument in ("namespace", "pod"):
        sub.add_argument(argument)
    command("build", _build, "only build the binaries, and print their folder").add_argument(
        "--kwok", action="store_true", help="also build kwok, which simulates nodes"
    )
    return whole


def _up(given: argparse.Namespace) -> None:
    up(
        Options(
            given.name,
            CONTROL_PLANE if given.control_plane else given.mode,
            given.kwok_nodes,
            tuple(given.image),
        )
    )


def _build(given: argparse.Namespace) -> None:
    progress = Progress(0)
    print(build(progress))
    if given.kwok:
        kwok(progress)


def _down(given: argparse.Namespace) -> None:
    place = state.folder(given.name)
    known = _known(given.name)
    if known is not None:
        known.down()
    else:  # an earlier call was killed before it wrote the cluster's file
        with state.exclusive(place):
            teardown.remove(place)
    print(f"{given.name} is down")


def _known(name: str) -> Cluster | None:
    try:
        return get(name)
    except ClusterError:
        return None


def _status(given: argparse.Namespace) -> None:
    cluster = get(given.name)
    print(
        f"{cluster.name}: mode {cluster.mode}, state in {cluster.state},"
        f" KUBECONFIG={cluster.kubeconfig}"
    )
    for node in sorted(cluster.stopped()):
        print(f"{node} is stopped; to start it: python -m cluster start-node {node}")
    if problems := cluster.problems():
        raise ClusterError("; ".join(problems) + ". To start it again: python -m cluster up")
    print(f"healthy: {', '.join(cluster.components())}")


def _load(given: argparse.Namespace) -> None:
    started = time.monotonic()
    get(given.name).load(given.archives)
    print(f"{len(given.archives)} image archive(s) loaded in {time.monotonic() - started:.1f} s")


def _kubeconfig(given: argparse.Namespace) -> None:
    print(get(given.name).kubeconfig)


def _env(given: argparse.Namespace) -> None:
    cluster = get(given.name)
    print(f"export KUBECONFIG={shlex.quote(str(cluster.kubeconfig))}")
    print(f'export PATH={shlex.quote(str(cluster.binaries))}:"$PATH"')


def _stop_node(given: argparse.Namespace) -> None:
    get(given.name).stop_node(given.node)


def _start_node(given: argparse.Namespace) -> None:
    get(given.name).start_node(given.node)


def _pids(given: argparse.Namespace) -> None:
    print(*get(given.name).pids(given.namespace, given.pod, given.container), sep="\n")


def _kill_sandbox(given: argparse.Namespace) -> None:
    pid = get(given.name).kill_sandbox(given.namespace, given.pod)
    print(f"killed pid {pid}, the sandbox of {given.namespace}/{given.pod}")


def main(argv: Sequence[str]) -> int:
    """Exit code 0 on success, 1 with a message on standard error, 130 after Ctrl-C."""
    given = parser().parse_args(argv)
    try:
        given.act(given)
    except ClusterError as error:
        print(f"cluster: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("cluster: interrupted; everything that was started is stopped again", file=sys.stderr)
        return 130
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
