"""Gang scheduling: one file per engine, and one row in the table below.

An engine is the scheduler, or the queue, that gives nodes to the ranks of a job as a group.
"""

from collections.abc import Iterable
from dataclasses import replace
from typing import Final

from dijob import names
from dijob.api.model import DIJob
from dijob.api.status import parse_time
from dijob.core.observed.views import Pod
from dijob.core.options import Options
from dijob.core.render.scheduling import coscheduling, kai, native, volcano, yunikorn
from dijob.core.render.scheduling.pod_set_names import of_pod_set
from dijob.core.render.scheduling.row import (
    NO_MARKS,
    EngineRow,
    Membership,
    PodMarks,
    object_key,
)
from dijob.names import Engine

__all__ = [
    "ENGINES",
    "NO_MARKS",
    "EngineRow",
    "Membership",
    "PodMarks",
    "engine_of",
    "marks_of",
    "object_key",
    "object_name",
    "with_engine",
]

ENGINES: Final[dict[Engine, EngineRow]] = {
    Engine.NONE: EngineRow(),
    Engine.NATIVE: native.ROW,
    # This row does not describe Kueue's Workload. The operator watches Workloads, and
    # core/decide/queueing.py decides what to do with them.
    Engine.KUEUE: EngineRow(marks=of_pod_set),
    Engine.VOLCANO: volcano.ROW,
    Engine.COSCHEDULING: coscheduling.ROW,
    Engine.YUNIKORN: yunikorn.ROW,
    Engine.KAI: kai.ROW,
}
_BY_NAME: Final = {str(engine): engine for engine in ENGINES}


def engine_of(job: DIJob, default: Engine, pods: Iterable[Pod], queues: bool = False) -> Engine:
    """Return the engine of the job's pods.

    This is the engine that the job chooses. A job that chooses none gets Kueue if it names a queue
    and the operator uses Kueue (`queues`). Otherwise, it gets the operator's default.

    While a job has pods, its engine does not change. The default may change when the operator
    restarts. If the engine changed with the default, the first pod of the new gang would wait
    forever for ranks that are not in that gang. A job whose template names a scheduling group has
    no engine other than Kueue.
    """
    chosen = job.spec.scheduling.engine
    if chosen is None and queues and names.KUEUE_QUEUE in job.metadata.labels:
        chosen = Engine.KUEUE
    own_group = any(one.pod.get("schedulingGroup") for one in job.pod_sets)
    if own_group and chosen is not Engine.KUEUE:
        return Engine.NONE
    ours = [pod for pod in pods if not pod.made.foreign]
    if ours:
        return next(
            (engine for pod in ours if (engine := _BY_NAME.get(pod.made.engine))), Engine.NONE
        )
    if chosen:
        return chosen
    return Engine.NONE if any(one.own_groups for one in job.pod_sets) else default


def marks_of(engine: Engine, of: Membership, options: Options) -> PodMarks:
    """Return what this engine adds to a pod. The scheduler's name comes from the template. If the
    template has none, and this engine is the one in the operator's options, the name comes from
    those options. Otherwise, it is the engine's usual name.
    """
    row = ENGINES[engine]
    marks = row.marks(of)
    named = options.scheduler_name if engine is options.engine else ""
    scheduler = named or row.scheduler
    fields = dict(marks.fields)
    if scheduler and not of.pod_set.pod.get("schedulerName"):
        fields["schedulerName"] = scheduler
    return with_engine(replace(marks, fields=fields), engine)


def with_engine(marks: PodMarks, engine: Engine) -> PodMarks:
    """Return the marks of a pod, with an additional annotation that names the pod's engine."""
    own = {names.ANNOTATION_ENGINE: engine.value}
    return replace(marks, annotations={**marks.annotations, **own})


def object_name(job: DIJob) -> str:
    """Return the name of the engine's object. A resumed job gets a new object. Kubernetes keeps the
    old one until no pod uses it, and a PodGroup that was scheduled once never becomes unscheduled.
    """
    resumed = parse_time(job.status.resume_time)
    name = job.metadata.name
    return f"{name}-{int(resumed.timestamp())}" if resumed else name
