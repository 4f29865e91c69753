"""Patch for DI-engine's Parallel (ding/framework/parallel.py).

Parallel.runner gets the job's arguments. The program starts when all peers are connected
(connected.py). Events that arrive before their listener is registered are not lost (kept.py).
SIGTERM shuts the program down gracefully (ending.py).
"""

from __future__ import annotations

import inspect
import os
import socket
import sys
from functools import wraps
from types import ModuleType
from typing import Any, Callable

from dijob_runtime.hook import connected, ending, kept
from dijob_runtime.parallel import (
    BASE_PORT,
    TOLD,
    links_of,
    parallel_args,
    report_workers,
    with_arguments,
    without_none,
)
from dijob_runtime.world import PodWorld

DITASK = "ding.entry.cli_ditask"


def patch(module: ModuleType) -> None:
    """Apply all patches to Parallel."""
    if PodWorld.read() is None:
        return
    _patch_runner(module.Parallel)
    kept.patch(module.Parallel)
    connected.patch(module.Parallel)
    ending.patch(module.Parallel)


def _patch_runner(parallel: Any) -> None:
    usual = parallel.runner.__func__
    signature = inspect.signature(usual)

    @wraps(usual)
    def runner(cls: Any, *args: Any, **kwargs: Any) -> Callable[..., None]:
        given = without_none(signature.bind_partial(cls, *args, **kwargs).arguments)
        del given["cls"]
        # ditask itself passes all arguments (from its options or DI-engine's parser), so the hook
        # adds no arguments.
        by_ditask = sys._getframe(1).f_globals.get("__name__") == DITASK
        told = given if by_ditask else parallel_args(**given)
        _update_environment(told)
        if str(told.get("mq_type")).startswith("torchrpc"):
            # parallel_args() has replaced Parallel.runner with the one in torchrpc/runner.py.
            return _with_exit_code(cls.runner(**told))
        return _with_exit_code(usual(cls, **told))

    parallel.runner = classmethod(runner)


def _with_exit_code(run: Callable[..., None]) -> Callable[..., None]:
    """Restore the exit code of a worker's SystemExit.

    mpire (2.10, exception.py) raises the exception again in the parent, but without the code.
    Without this function, a program that calls sys.exit(3) in a worker would exit with 0.
    """

    @wraps(run)
    def run_with_exit_code(*args: Any, **kwargs: Any) -> None:
        try:
            run(*args, **kwargs)
        except SystemExit as error:
            if error.code is None and error.args:
                error.code = error.args[0]
            raise

    return run_with_exit_code


def _update_environment(told: dict[str, Any]) -> None:
    """Update the environment to match the world that this program's arguments describe.

    The program itself and the processes that it starts use this environment.
    """
    world = PodWorld.read()
    if world is None:
        return
    world = with_arguments(world, told)
    report_workers(world.workers)
    # From here on, the variables agree with the program, so child processes must not warn again.
    os.environ[TOLD] = "1"
    os.environ.update(
        DI_PARALLEL_WORKERS=str(world.workers),
        DI_NODE_IDS=",".join(map(str, world.node_ids)),
        DI_WORLD_SIZE=str(len(world.addresses) * world.workers),
        DI_TOPOLOGY=world.topology,
    )
    if world.mq_type != "nng" or "DI_MQ_TYPE" in os.environ:
        os.environ["DI_MQ_TYPE"] = world.mq_type
    ports = told.get("ports")
    # If the program connects to addresses other than the job's, it does not wait for the job's
    # peers to connect.
    theirs, jobs = set(told.get("attach_to") or ()), set(links_of(world, _first_port(ports)))
    if (
        world.mq_type != "redis"
        and theirs != jobs
        and _resolve_links(theirs) != _resolve_links(jobs)
    ):
        os.environ[kept.OWN_WIRING] = "1"


def _resolve_links(links: set[str]) -> set[tuple[str, str]]:
    """Return the address and port of each link. Links are compared after their host names have been
    resolved, because Slurm's host names differ from the entries of the peer list.
    """
    pairs = [link.rpartition("://")[2].rpartition(":")[::2] for link in links]
    found = {host: _resolve_host(host) for host, _ in pairs}
    return {(found[host], port) for host, port in pairs}


def _resolve_host(host: str) -> str:
    """Return the address of a host, or the host unchanged if it cannot be resolved."""
    try:
        return str(socket.getaddrinfo(host.strip("[]"), None)[0][4][0])
    except (OSError, UnicodeError):  # UnicodeError: not a valid host name
        return host


def _first_port(ports: Any) -> int:
    """Return the first port in the `ports` argument of Parallel.runner, which can be a number, a
    list or None.
    """
    return ports if isinstance(ports, int) else (list(ports or ()) or [BASE_PORT])[0]
