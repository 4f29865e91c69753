"""The environment of a job's processes: one file per runtime, and one row here."""

from typing import Final

from dijob.core.members import Gang, Member
from dijob.core.render.runtimes import ditask, oneflow, slurm, torch
from dijob.core.render.runtimes.row import Row
from dijob.names import Runtime

RUNTIMES: Final[dict[Runtime, Row]] = {
    Runtime.DITASK: Row(lambda _member, _gang: {}),  # each job has its variables
    Runtime.TORCH: torch.ROW,
    Runtime.SLURM: slurm.ROW,
    Runtime.ONEFLOW: oneflow.ROW,
}


def environment(member: Member, gang: Gang) -> dict[str, str]:
    """Variables that are known before any pod has an address: DI-engine's, and the runtime's."""
    return ditask.env(member, gang) | RUNTIMES[gang.runtime].env(member, gang)
