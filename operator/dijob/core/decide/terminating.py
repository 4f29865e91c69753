"""Handles a job that is being deleted and still exists: a finalizer keeps it, or the deletion waits
for its pods (`kubectl delete --cascade=foreground`).

Nothing is created and lost pods are not replaced, as for a Deployment in this state. The status
stays accurate, failures count, and the message says what the deletion is waiting for. Most
deletions are immediate, so one that ends within REPORT_SECONDS costs no write.
"""

from datetime import datetime

from dijob.api.model import Metadata
from dijob.api.status import parse_time
from dijob.core.actions import Action
from dijob.core.decide import completion
from dijob.core.decide.context import Context
from dijob.core.decide.deletion import force_delete_lost_pods

REPORT_SECONDS = 3.0


def seconds_until_reported(job: Metadata, now: datetime) -> float:
    """Return the seconds until a deletion has lasted long enough to be reported; 0 or less: now.
    It is 0 for a job that is not being deleted.
    """
    began = parse_time(job.deletion_timestamp)
    return REPORT_SECONDS - (now - began).total_seconds() if began else 0.0


def clean_up_deleted(ctx: Context) -> tuple[Action, ...]:
    """Force-delete pods on lost nodes, because a foreground deletion would wait for them. The pods
    of a job that has ended are cleaned up as usual.
    """
    ended = ctx.job.status.ended and not ctx.job.paused
    clean = completion.clean_pods(ctx) if ended else ()
    return (*clean, *force_delete_lost_pods(ctx.observed.all_pods, ctx.now))
