"""The variables that srun would set with one task per pod, for `ditask --platform slurm` and for
scripts written for srun.

DI-engine's parser (0.5.3, ding/entry/cli_parsers/slurm_parser.py) understands only a node list
`prefix[a-b,c]` or a single name. It repeats each name SLURM_NTASKS_PER_NODE times, uses the entry
at index SLURM_PROCID as its own name, and requires that this name equals SLURMD_NODENAME. Worker
processes are not Slurm tasks: `ditask --parallel-workers` starts them.
"""

from typing import Final
from zlib import crc32

from dijob import names
from dijob.core.members import Gang, GangMember
from dijob.core.render.runtimes.row import RuntimeRow


def slurm_nodelist(gang: Gang, addresses: tuple[str, ...]) -> str:
    """Return the ranks' names in Slurm's notation: "job-[0-3]"."""
    return f"{gang.job}-[0-{len(addresses) - 1}]"


def slurm_variables(member: GangMember, gang: Gang) -> dict[str, str]:
    """Return the variables that are known before any pod has an address."""
    return {
        "SLURM_NTASKS_PER_NODE": "1",
        "SLURM_PROCID": str(member.rank),
        "SLURM_LOCALID": "0",
        "SLURM_NODEID": str(member.rank),
        "SLURMD_NODENAME": member.name,
        # Scripts expect a number.
        "SLURM_JOB_ID": str(crc32(gang.uid.encode())),
        "SLURM_JOB_NAME": gang.job,
    }


ROW: Final = RuntimeRow(
    slurm_variables,
    list_env={
        "SLURM_NTASKS": names.ANNOTATION_NUM_NODES,
        "SLURM_NPROCS": names.ANNOTATION_NUM_NODES,
        "SLURM_NNODES": names.ANNOTATION_NUM_NODES,
        "SLURM_JOB_NUM_NODES": names.ANNOTATION_NUM_NODES,
        "SLURM_NODELIST": names.ANNOTATION_NODELIST,
        "SLURM_JOB_NODELIST": names.ANNOTATION_NODELIST,
    },
    annotation_builders={names.ANNOTATION_NODELIST: slurm_nodelist},
)
