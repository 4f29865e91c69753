"""The Coscheduling engine: a PodGroup of scheduling.x-k8s.io/v1alpha1, for the plugin of that name
in kubernetes-sigs/scheduler-plugins.

The scheduler considers the pods of a group only while the group has at least `minMember` pods. The
scheduler's informer leaves out pods that have ended. So the number must fall when ranks succeed.
The scheduler assigns nodes to the pods one after the other. It holds the pods back until it has
found nodes for `minMember` of them. If the scheduler finds no node for one of these pods, it gives
up the nodes of all of them.

The plugin's own setting limits how long the pods are held back (permitWaitingTimeSeconds, by
default 60 s). The group has no scheduleTimeoutSeconds, so the administrator's setting stays in
effect.
"""

from typing import Final

from dijob.api.model import DIJob
from dijob.core.options import Options
from dijob.core.render.fields import Manifest
from dijob.core.render.scheduling import members
from dijob.core.render.scheduling.row import EngineRow, Membership, PodMarks
from dijob.names import COSCHEDULING_GROUP

API: Final = "scheduling.x-k8s.io/v1alpha1"


def pod_group(job: DIJob, name: str, count: int, _options: Options) -> Manifest:
    """Return the PodGroup."""
    return members.pod_group(job, API, name, members.min_member(count))


def in_group(of: Membership) -> PodMarks:
    """Return the marks that make a pod a member of the PodGroup."""
    return PodMarks(labels={COSCHEDULING_GROUP: of.name})


ROW: Final = EngineRow(
    kind=members.KIND,
    plural=members.PLURAL,
    api=API,
    manifest=pod_group,
    count=members.counted,
    resized=members.min_member,
    marks=in_group,
    switch="install the CRDs and the scheduler of kubernetes-sigs/scheduler-plugins",
    scheduler="scheduler-plugins-scheduler",
)
