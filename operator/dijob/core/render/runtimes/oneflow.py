"""The variables of OneFlow's programs: the node list, the port and the GPUs for `flow.env` and
`flow.config`.

The calls are those of its documentation of 0.3 (flow.env.machine, flow.env.ctrl_port,
flow.config.gpu_device_num): dijob_runtime.oneflow makes them from the DI_ONEFLOW_ variables. Newer
versions read MASTER_ADDR, MASTER_PORT, WORLD_SIZE, RANK and LOCAL_RANK. The master is rank 0.
"""

import json
from typing import Final

from dijob import names
from dijob.core.members import Gang, Member
from dijob.core.render.runtimes.row import MASTER, Row, first_process

# The port of OneFlow's documentation.
CTRL_PORT: Final = 9988


def machines(_gang: Gang, addresses: tuple[str, ...]) -> str:
    """The argument of flow.env.machine, as JSON."""
    return json.dumps([{"addr": address} for address in addresses], separators=(",", ":"))


def env(member: Member, gang: Gang) -> dict[str, str]:
    """Variables that are known before any pod has an address."""
    return {
        **first_process(member, gang, CTRL_PORT),
        "DI_ONEFLOW_CTRL_PORT": str(CTRL_PORT),
        "DI_ONEFLOW_GPU_DEVICE_NUM": str(gang.gpus),
    }


ROW: Final = Row(
    env,
    list_env={
        "MASTER_ADDR": names.ANNOTATION_MASTER,
        "WORLD_SIZE": names.ANNOTATION_WORLD_SIZE,
        "DI_ONEFLOW_NODES": names.ANNOTATION_MACHINES,
    },
    annotation_builders={**MASTER, names.ANNOTATION_MACHINES: machines},
)
