"""Describes a failure in words. A re-rendezvous that a failure causes stores them in the status,
and the report of the job's end uses them, too.
"""

from dijob.core.decide.context import Context
from dijob.core.observed.endings import how_it_ended


def describe_failed_part(rank: int, container: str) -> str:
    """Return what failed; `container` is "" for the main one."""
    return f"rank {rank}: container {container}" if container else f"rank {rank}"


def rule_in_words(ctx: Context, rank: int) -> str:
    """Describe a failure and the rule of the failure policy that matches it; without a match, the
    runtime's default applies.
    """
    pod = ctx.world.pods[rank]
    ending = pod.containers.last_end
    end = ending.words if ending else how_it_ended(None, None, "", pod.complaint)
    what = describe_failed_part(rank, ending.container if ending else "")
    at = ctx.policy.rule(pod)
    rule = f"runtime: {ctx.job.spec.runtime}" if at is None else f"failurePolicy.rules[{at}]"
    return f"{what} {end}, and {rule}"
