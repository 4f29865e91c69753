"""The variables of OneFlow programs: the nodes, the port and the GPUs for `flow.env` and
`flow.config`.

Programs for OneFlow 0.3 call flow.env.machine, flow.env.ctrl_port and flow.config.gpu_device_num,
as described in that version's documentation. dijob_runtime.oneflow makes these calls with the
values of the DI_ONEFLOW_ variables. Newer versions read MASTER_ADDR, MASTER_PORT, WORLD_SIZE, RANK
and LOCAL_RANK. The master is rank 0.
"""

import json
from typing import Final

from dijob import names
from dijob.core.members import Gang, GangMember
from dijob.core.render.runtimes.row import MASTER, RuntimeRow, first_process

# The port in OneFlow's documentation.
CTRL_PORT: Final = 9988


def machines_json(_gang: Gang, addresses: tuple[str, ...]) -> str:
    """Return the argument of flow.env.machine, as JSON."""
    return json.dumps([{"addr": address} for address in addresses], separators=(",", ":"))


def oneflow_variables(member: GangMember, gang: Gang) -> dict[str, str]:
    """Return the variables that are known before any pod has an address."""
    return {
        **first_process(member, gang, CTRL_PORT),
        "DI_ONEFLOW_CTRL_PORT": str(CTRL_PORT),
        "DI_ONEFLOW_GPU_DEVICE_NUM": str(gang.gpus),
    }


ROW: Final = RuntimeRow(
    oneflow_variables,
    list_env={
        "MASTER_ADDR": names.ANNOTATION_MASTER,
        "WORLD_SIZE": names.ANNOTATION_WORLD_SIZE,
        "DI_ONEFLOW_NODES": names.ANNOTATION_MACHINES,
    },
    annotation_builders={**MASTER, names.ANNOTATION_MACHINES: machines_json},
)
