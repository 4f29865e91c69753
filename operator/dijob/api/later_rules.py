"""Validation rules that are newer than version 0.1.0, and that jobs of that version can violate.

A new job that violates one of these rules is rejected. But an older operator may have accepted such
a job, and the job may have started. If a started job were rejected now, its lost ranks would not be
replaced, and its end would not be noticed. So it gets a warning instead.
"""

from dijob.api.model import DIJob
from dijob.api.own_variables import variable_problems
from dijob.api.problems import Problem
from dijob.api.template_checks import restart_problems


def later_problems(job: DIJob) -> tuple[Problem, ...]:
    """Return a problem for each violation of one of these rules."""
    restarts = (problem for pod_set in job.pod_sets for problem in restart_problems(pod_set))
    return (*variable_problems(job), *restarts)
