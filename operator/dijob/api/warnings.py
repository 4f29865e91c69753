"""Warnings about a spec: the job runs, but perhaps not as its author intends.

They become the conditions SpecWarning and LauncherBypassed. They are not errors, because the
operator cannot be sure: the image or the cluster may make the spec correct.
"""

from collections.abc import Iterator
from typing import Final

from dijob.api.bypass import bypass_problems
from dijob.api.later_rules import later_problems
from dijob.api.managers import LEFT_ALONE_MESSAGE, without_own
from dijob.api.misplaced import misplaced_key_warnings
from dijob.api.model import DIJob
from dijob.api.own_variables import variable_warnings
from dijob.api.pod_sets import PodSet
from dijob.api.problems import Problem
from dijob.api.spec import Spec
from dijob.names import KUEUE_QUEUE, Engine, Queue, Runtime

NO_QUEUE_MESSAGE: Final = (
    "is Kueue, but the job names no queue: set the DIJob's label kueue.x-k8s.io/queue-name to the"
    " name of a LocalQueue"
)


def job_warnings(job: DIJob, *, queued: bool = False) -> tuple[Problem, ...]:
    """Return all warnings about a job, without duplicates. `queued`: whether Kueue admits the
    job.
    """
    about = (_ignored_metadata, _other_runtime, _no_gpu, _unreadable_options)
    # These functions run once for each task. So they can find the same problem in one of the job's
    # own fields several times.
    found = (
        problem for pod_set in job.pod_sets for look in about for problem in look(pod_set, job.spec)
    )
    fields = (*later_problems(job), *variable_warnings(job))
    keys = misplaced_key_warnings(job, queued=queued)
    manager = _other_manager(job.spec)
    queue = _missing_queue(job)
    every = (*manager, *queue, *bypass_problems(job), *keys, *fields, *found)
    return tuple(dict.fromkeys(every))


def _missing_queue(job: DIJob) -> Iterator[Problem]:
    """Yield a problem if the job's engine is Kueue but the job names no queue.

    This is not an error, because the queue's label can be removed while the job runs. A job
    without this label must still react to an eviction.
    """
    if job.spec.scheduling.engine is Engine.KUEUE and not job.metadata.labels.get(KUEUE_QUEUE):
        yield Problem("spec.scheduling.engine", NO_QUEUE_MESSAGE)


def _other_manager(spec: Spec) -> Iterator[Problem]:
    """Yield a problem if another controller manages the job. The operator does not report it in a
    condition, because it does not write the status of such a job.
    """
    if manager := without_own(spec.managed_by):
        text = LEFT_ALONE_MESSAGE.format(manager).removeprefix("spec.managedBy ")
        yield Problem("spec.managedBy", text)


def _ignored_metadata(pod_set: PodSet, _spec: Spec) -> Iterator[Problem]:
    """Yield the fields of the template's metadata that have no effect although a user may rely on
    them. Fields that tools write, such as creationTimestamp, are accepted silently.
    """
    given = pod_set.template.metadata
    for field, value in (
        ("name", given.name),
        ("generateName", given.generate_name),
        ("namespace", given.namespace),
        ("finalizers", given.finalizers),
        ("ownerReferences", given.owner_references),
    ):
        if value:
            yield Problem(
                f"{pod_set.path}.metadata.{field}",
                "has no effect, because the pods get their name, namespace and owner from the job:"
                " remove it",
            )


def _other_runtime(pod_set: PodSet, spec: Spec) -> Iterator[Problem]:
    """Yield a problem if the command reads the variables of another runtime, which the pods do not
    have.
    """
    if pod_set.command.platform == Runtime.SLURM and spec.runtime is not Runtime.SLURM:
        yield Problem(
            "spec.runtime",
            f"is {spec.runtime}, but the command has --platform slurm, which reads SLURM_NTASKS and"
            " other variables: set runtime: slurm",
        )


def _no_gpu(pod_set: PodSet, spec: Spec) -> Iterator[Problem]:
    """Yield a problem if the queue needs GPUs and the pods request none.

    This is only a warning, because some nodes give every pod access to their GPUs.
    """
    queue = spec.message_queue.type if spec.message_queue else pod_set.command.mq_type
    if queue == Queue.TORCHRPC_CUDA and not pod_set.gpus:
        yield Problem(
            "spec.messageQueue.type",
            "is torchrpc:cuda, but the template requests no GPU, so the ranks may not find one: add"
            " a limit of nvidia.com/gpu, or use torchrpc:cpu",
        )


def _unreadable_options(pod_set: PodSet, spec: Spec) -> Iterator[Problem]:
    """Yield a problem for each option that the operator needs but cannot read."""
    for field, default in (("parallel_workers", "1"), ("topology", "mesh")):
        option = field.replace("_", "-")
        if pod_set.command.hides(option) and spec.explicit(field) is None:
            yield Problem(
                spec.place(field),
                f"is not set, and the command's --{option} cannot be read (it is in a variable,"
                " it differs between calls, or the command is longer than 16 KiB), so"
                f" {default} is assumed: set the field",
            )
