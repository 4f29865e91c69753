"""The options --stacks and --stacks-image of `kubectl dijob doctor`."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click
from dijob.cli.doctor.extension import Collect, DoctorExtension, ExtensionFindings

if TYPE_CHECKING:
    from dijob.client import AsyncClient, Job, RankPod


def _prepare(given: Mapping[str, Any]) -> Collect | None:
    # --stacks-image is useful only for stack dumps, so this option implies --stacks.
    if not given["stacks"] and not given["stacks_image"]:
        return None
    from dijob_extras.stacks.report import report_stacks, stacks_data
    from dijob_extras.stacks.take import new_container, take_dumps

    wanted = new_container(given["stacks_image"])

    async def collect(
        client: "AsyncClient", job: "Job", pods: "Sequence[RankPod]"
    ) -> ExtensionFindings:
        looks = await take_dumps(client, job, pods, wanted)
        found = tuple(report_stacks(looks, job, pods))
        note = ""
        if any(not look.problem for look in looks.values()):
            note = (
                f"the terminated container {wanted.name} stays listed in each pod until the pod is"
                " deleted"
            )
        return ExtensionFindings("stacks", found, stacks_data(looks), note)

    return collect


EXTENSION = DoctorExtension(
    options=(
        click.Option(["--stacks"], is_flag=True, help="Also show the Python stacks of all ranks."),
        click.Option(
            ["--stacks-image"],
            default="",
            metavar="IMAGE",
            help="Image for --stacks. Default: dijob/stacks, in the version of this program.",
        ),
    ),
    help="""\
--stacks shows which rank blocks which. It reads the stack of each Python process, and groups
the processes by their position in the program's own code. To do so, it adds an ephemeral
container with py-spy to each pod. You need permission to patch pods/ephemeralcontainers, and
the namespace must allow SYS_PTRACE. Each process is paused for a few milliseconds. The
container then exits, but Kubernetes lists it in the pod until the pod is deleted. In pods
that share a process namespace with other pods or with the node, only the rank's own processes
are read. -o json prints complete stacks.""",
    example="kubectl dijob doctor test --stacks",
    hint="--stacks shows what the processes are doing",
    prepare=_prepare,
)
