"""ditask (ding/entry/cli_ditask.py): where the command goes round the launcher's, its options have
the job's values as defaults. What the user says wins, as with any default.
"""

from __future__ import annotations

from types import ModuleType

from dijob_runtime.parallel import broker
from dijob_runtime.world import World


def patch(module: ModuleType) -> None:
    """Nothing outside a DIJob."""
    world = World.read()
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
        # DI-engine's parser leaves them out where nobody is dialled: all ranks would count from 0.
        defaults["node_ids"] = ",".join(map(str, world.node_ids))
    if world.mq_type == "redis":
        defaults.update(broker())
    for option in module.cli_ditask.params:
        if option.name in defaults:
            option.default = defaults[option.name]
