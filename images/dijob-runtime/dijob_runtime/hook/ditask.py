"""Patch for ditask (ding/entry/cli_ditask.py): its options get the job's values as defaults.

It is for commands that bypass the launcher's ditask, for example in an activated environment.
Options that the user passes take precedence, as with any default.
"""

from __future__ import annotations

import os
from types import ModuleType
from typing import Any, Mapping

from dijob_runtime.hook.kept import OWN_WIRING
from dijob_runtime.messages import exit_with_error
from dijob_runtime.parallel import redis_arguments
from dijob_runtime.ports import first_port
from dijob_runtime.world import PodWorld


def patch(module: ModuleType) -> None:
    """Set the defaults of ditask's options."""
    world = PodWorld.read()
    if world is None:
        return
    defaults = {
        "platform": "k8s",
        "topology": world.topology,
        "parallel_workers": world.workers,
        "labels": ",".join(world.labels) or None,
        "mq_type": world.mq_type,
    }
    if world.mq_type != "nng":
        # DI-engine's parser sets the node IDs only for nng. Without this default, the node IDs of
        # every rank would begin at 0.
        defaults["node_ids"] = ",".join(map(str, world.node_ids))
    if world.mq_type == "redis":
        defaults.update(redis_arguments())
    _patch_defaults(module.cli_ditask, defaults, world.mq_type)


def _patch_defaults(command: Any, jobs: Mapping[str, Any], queue: str) -> None:
    """Select the defaults when the command line is parsed. If the command determines where its
    processes listen, the defaults are DI-engine's own. Otherwise they are the job's values.
    """
    options = [option for option in command.params if option.name in jobs]
    usual = {option.name: option.default for option in options}
    parse = command.parse_args

    def parse_args(context: Any, words: list[str]) -> Any:
        # Parse once without defaults, to see which options the user has passed.
        given = command.make_parser(context).parse_args(args=list(words))[0]
        own = has_own_world(given, queue)
        if own:
            os.environ[OWN_WIRING] = "1"
        for option in options:
            option.default = (usual if own else jobs)[option.name]
        return parse(context, words if own else [*words, *_replace_ports(given, jobs)])

    command.parse_args = parse_args


def _replace_ports(given: Mapping[str, Any], jobs: Mapping[str, Any]) -> list[str]:
    """Return the option that replaces a list of ports; DI-engine's k8s parser rejects lists."""
    ports = str(given.get("ports") or "")
    if "," not in ports or given.get("platform", "k8s") != "k8s":
        return []
    try:
        numbers = [int(port) for port in ports.split(",")]
        workers = int(given.get("parallel_workers") or jobs["parallel_workers"])
    except ValueError:
        return []  # DI-engine reports what is wrong
    try:
        return ["--ports", str(first_port(numbers, workers))]
    except ValueError as error:
        exit_with_error(str(error))
        return []


def has_own_world(given: Mapping[str, Any], queue: str) -> bool:
    """Whether a command determines where its processes listen. If so, the command runs as it would
    outside a job. The launcher's ditask/ditask.go has the same rule. `queue` is the job's message
    queue.
    """
    queue = given.get("mq_type", queue)
    listens = queue == "nng" or queue.startswith("torchrpc")
    own = given.get("address") or given.get("protocol") == "ipc"
    return "platform" not in given and listens and bool(own)
