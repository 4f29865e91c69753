"""The variables that torchrun, torch.distributed.launch and init_process_group("env://") read.

torchrun reads the default of each option from PET_<OPTION> (torch 1.13 to 2.x,
torch/distributed/run.py and argparse_util.py). It sets RANK, LOCAL_RANK, WORLD_SIZE, MASTER_ADDR
and MASTER_PORT for its child processes itself. A program that is started without torchrun gets the
variables of the pod's first process.
"""

from typing import Final

from dijob import names
from dijob.core.members import Gang, GangMember
from dijob.core.render.runtimes.row import MASTER, RuntimeRow, first_process

# torchrun's own default (torch/distributed/run.py).
MASTER_PORT: Final = 29500


def torch_variables(member: GangMember, gang: Gang) -> dict[str, str]:
    """Return the variables that are known before any pod has an address."""
    # Pods of a job whose runtime is torch do not have LOCAL_WORLD_SIZE, and an upgrade must not
    # change them.
    local = {"LOCAL_WORLD_SIZE": str(gang.workers)} if member.own_world else {}
    return {
        **first_process(member, gang, MASTER_PORT),
        **local,
        "PET_NODE_RANK": str(member.position),
        "PET_NPROC_PER_NODE": str(gang.workers),
        "PET_MASTER_PORT": str(MASTER_PORT),
    }


ROW: Final = RuntimeRow(
    torch_variables,
    list_env={
        "MASTER_ADDR": names.ANNOTATION_MASTER,
        "WORLD_SIZE": names.ANNOTATION_WORLD_SIZE,
        "PET_MASTER_ADDR": names.ANNOTATION_MASTER,
        "PET_NNODES": names.ANNOTATION_NUM_NODES,
    },
    annotation_builders=MASTER,
)
