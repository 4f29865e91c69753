"""CEL rules about names of jobs and tasks, with the name or the length that fits."""

from typing import Final

from dijob.api import job_names
from dijob.crd.rule import NAME_OF_T, Rule

_NAME: Final = "self.metadata.name"
_GENERATED: Final = "self.metadata.?generateName.orValue('') != ''"
_ALLOWED: Final = (
    f"({{0}}.size() <= {job_names.NAME_LENGTH} && {{0}}.matches('^{job_names.NAME_PATTERN}$'))"
)


def _nearest() -> str:
    """CEL: what job_names.nearest says of a name that Kubernetes allows, as a part of a sentence;
    nothing if CEL cannot make one.
    """
    plain = f"{_NAME}.replace('.', '-')"
    begun = f"(({_NAME}.matches('^[a-z]') ? '' : '{job_names.PREFIX}') + {plain})"
    most = job_names.NAME_LENGTH
    cut = f"({begun}.size() > {most} ? {begun}.substring(0, {most}) : {begun})"
    whole = f"({cut}.endsWith('-') ? {cut}.substring(0, {most - 1}) : {cut})"
    return f"({_ALLOWED.format(whole)} ? ', such as ' + {whole} : '')"


def _digits() -> str:
    """CEL: how many characters the last index of the task t has."""
    bounds = ((1000, 4), (100, 3), (10, 2))
    return "(" + "".join(f"t.replicas > {most} ? {size} : " for most, size in bounds) + "1)"


# CEL: how many characters the name of the task t may have.
_ROOM: Final = f"({job_names.LABEL_LENGTH - 2} - {_NAME}.size() - {_digits()})"
_TOO_LONG: Final = f"self.spec.tasks.filter(t, {NAME_OF_T}.size() > {_ROOM})"
# CEL's string(int) has no estimate of its cost.
_NUMBERS: Final = str([str(number) for number in range(job_names.LABEL_LENGTH)])


def of_job() -> tuple[Rule, ...]:
    """The rules of a job's name."""
    return (
        Rule(
            rule=f"{_ALLOWED.format(_NAME)} || ({_GENERATED} && {_NAME}.size() >"
            f" {job_names.NAME_LENGTH})",
            message=f"metadata.name {job_names.NAME_MESSAGE}",
            expression=f"'metadata.name {job_names.NAME_MESSAGE}' + {_nearest()}",
            field=".metadata.name",
        ),
        Rule(
            rule=f"!({_GENERATED}) || {_NAME}.size() <= {job_names.NAME_LENGTH}",
            message=job_names.GENERATE_NAME_MESSAGE,
            field=".metadata.name",
        ),
    )


def of_tasks() -> Rule:
    """The pods of each task can have their names. A job that an older CRD has accepted is left to
    the operator: its status must stay writable.
    """
    # Without the task's name: the cost of a message with a filtered value is not bounded.
    most = f"{_TOO_LONG}.map(t, {_NUMBERS}[{_ROOM}])[0]"
    return Rule(
        rule=f"!has(self.spec.tasks) || has(self.status) && has(self.status.phase) ||"
        f" {_TOO_LONG}.size() == 0",
        message=f"tasks: {job_names.TASK_LENGTH_MESSAGE}",
        expression=(
            f"'tasks: the name of a task may have ' + {most} +"
            f" ' characters in this job: {job_names.TASK_LENGTH_MESSAGE}'"
        ),
        field=".spec.tasks",
    )
