"""CEL rules for the names of jobs and tasks. Their messages suggest a name or a length that fits.

A user whose job is rejected for its name should not have to guess another name.
"""

from typing import Final

from dijob.api import job_names
from dijob.crd.rule import NAME_OF_T, Rule

_NAME: Final = "self.metadata.name"
_GENERATED: Final = "self.metadata.?generateName.orValue('') != ''"
_ALLOWED: Final = (
    f"({{0}}.size() <= {job_names.NAME_LENGTH} && {{0}}.matches('^{job_names.NAME_PATTERN}$'))"
)


def _nearest_name() -> str:
    """Return CEL for the suggestion in the message: ", such as NAME", or "" if there is none.

    If there is a suggestion, it is the name that job_names.nearest_allowed returns. CEL has no
    variables, so each part is repeated wherever it is used. The apiserver of Kubernetes 1.30 limits
    the estimated cost of the whole expression. So there is no suggestion for a name that begins
    with a digit and has more than 54 characters.
    """
    most = job_names.NAME_LENGTH
    # The name is cut before anything is added, because the estimated cost of everything that
    # follows depends on the name's length.
    end = f"{_NAME}.substring({most - 1}, {most}).matches('[-.]') ? {most - 1} : {most}"
    cut = f"({_NAME}.size() > {most} ? {_NAME}.substring(0, {end}) : {_NAME})"
    prefix = f"({_NAME}.matches('^[a-z]') ? '' : '{job_names.PREFIX}')"
    near = f"({prefix} + {cut}.replace('.', '-'))"
    # If _ALLOWED were used here, `allowed` would contain `near` twice, because _ALLOWED checks the
    # length separately. The pattern below also checks the length, so `allowed` contains `near` only
    # once.
    allowed = f"{near}.matches('^[a-z]([-a-z0-9]{{0,{most - 2}}}[a-z0-9])?$')"
    return f"({allowed} ? ', such as ' + {near} : '')"


def _index_digits() -> str:
    """Return CEL for the number of digits in the last index of the task t."""
    bounds = ((1000, 4), (100, 3), (10, 2))
    count = "t.?maxReplicas.orValue(t.replicas)"
    return "(" + "".join(f"{count} > {most} ? {size} : " for most, size in bounds) + "1)"


# CEL: how many characters the name of the task t may have.
_ROOM: Final = f"({job_names.LABEL_LENGTH - 2} - {_NAME}.size() - {_index_digits()})"
_TOO_LONG: Final = f"self.spec.tasks.filter(t, {NAME_OF_T}.size() > {_ROOM})"
# A list of all numbers as text, because the apiserver cannot estimate the cost of string(int), and
# rejects a CRD that uses it.
_NUMBERS: Final = str([str(number) for number in range(job_names.LABEL_LENGTH)])


def of_job() -> tuple[Rule, ...]:
    """Return the rules for a job's name.

    If a generated name is too long, only the second rule reports this. The first rule would suggest
    another name, but the user can only make the prefix (generateName) shorter.
    """
    return (
        Rule(
            rule=f"{_ALLOWED.format(_NAME)} || ({_GENERATED} && {_NAME}.size() >"
            f" {job_names.NAME_LENGTH})",
            message=f"metadata.name {job_names.NAME_MESSAGE}",
            expression=f"'metadata.name {job_names.NAME_MESSAGE}' + {_nearest_name()}",
            field=".metadata.name",
        ),
        Rule(
            rule=f"!({_GENERATED}) || {_NAME}.size() <= {job_names.NAME_LENGTH}",
            message=job_names.GENERATE_NAME_MESSAGE,
            field=".metadata.name",
        ),
    )


def of_tasks() -> Rule:
    """Return the rule that limits the length of the names of a task's pods.

    It does not apply to a job that has a status. An older CRD may have accepted that job, and with
    this rule the operator could no longer write the job's status. The operator reports the name
    instead.
    """
    # The message does not contain the task's name. The name would be a result of filter(), and the
    # apiserver cannot bound the cost of a message with such a result.
    most = f"{_TOO_LONG}.map(t, {_NUMBERS}[{_ROOM}])[0]"
    return Rule(
        rule=f"!has(self.spec.tasks) || has(self.status) && has(self.status.phase) ||"
        f" {_TOO_LONG}.size() == 0",
        message=f"tasks: {job_names.TASK_LENGTH_MESSAGE}",
        expression=(
            f"'tasks: the name of a task may have at most ' + {most} +"
            f" ' characters in this job: {job_names.TASK_LENGTH_MESSAGE}'"
        ),
        field=".spec.tasks",
    )
