"""The environment of a job's processes: one file per runtime, and one row in the table below."""

from typing import Final

from dijob.core.members import Gang, GangMember
from dijob.core.render.runtimes import ditask, oneflow, slurm, torch
from dijob.core.render.runtimes.row import RuntimeRow
from dijob.names import Runtime

RUNTIMES: Final[dict[Runtime, RuntimeRow]] = {
    # Empty, because the DI_ variables are set for every runtime (runtime_environment).
    Runtime.DITASK: RuntimeRow(lambda _member, _gang: {}),
    Runtime.TORCH: torch.ROW,
    Runtime.SLURM: slurm.ROW,
    Runtime.ONEFLOW: oneflow.ROW,
}


def runtime_environment(member: GangMember, gang: Gang) -> dict[str, str]:
    """Return the variables that are known before any pod has an address: those of DI-engine and of
    the runtime.
    """
    runtime = gang.runtime_of(member.rank)
    return ditask.di_variables(member, gang) | RUNTIMES[runtime].env(member, gang)
