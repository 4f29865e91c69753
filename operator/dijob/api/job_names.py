"""Rules for the names of jobs and tasks. If a job's name is not allowed, the error message can
suggest the allowed name that is most similar.

The pods are named JOB-RANK or JOB-TASK-INDEX, and the Service has the name of the job. So a job's
name must be valid for a Service, and the name of each pod must fit into a label.
"""

import re
from typing import Final

# JOB-RANK must fit into LABEL_LENGTH, with up to four digits for the rank.
NAME_PATTERN: Final = "[a-z]([-a-z0-9]*[a-z0-9])?"
NAME_LENGTH: Final = 58
LABEL_LENGTH: Final = 63
# Kubernetes appends this many random characters to a generateName.
GENERATED: Final = 5
# This prefix is prepended to a name that begins with a digit, because a Service's name must not
# begin with a digit.
PREFIX: Final = "job-"
NAME_MESSAGE: Final = (
    f"must match {NAME_PATTERN} and have at most {NAME_LENGTH} characters, because the pods are"
    " named NAME-RANK and the Service is named NAME: choose another name"
)
GENERATE_NAME_MESSAGE: Final = (
    f"generateName may have at most {NAME_LENGTH - GENERATED} characters, because Kubernetes"
    f" appends {GENERATED} more: make it shorter"
)
TASK_LENGTH_MESSAGE: Final = (
    f"the pods are named JOB-TASK-INDEX, which may have at most {LABEL_LENGTH} characters in all:"
    " shorten the name of the task or of the job"
)


def is_allowed(name: str) -> bool:
    """Whether a job can have this name."""
    return len(name) <= NAME_LENGTH and re.fullmatch(NAME_PATTERN, name) is not None


def nearest_allowed(name: str) -> str:
    """Return the allowed name that is most similar to this one, or "" if no part of it can be kept.

    crd/naming.py builds the same name in CEL. For a few long names, the CEL rule suggests no name.
    """
    plain = re.sub("[^a-z0-9]+", "-", name.lower()).strip("-")
    begun = plain if plain[:1].isalpha() or not plain else f"{PREFIX}{plain}"
    return begun[:NAME_LENGTH].rstrip("-")


def room_for_task(job: str, replicas: int) -> int:
    """Return how many characters a task's name may have in this job.

    The result is 0 or negative if the job's name leaves no room.
    """
    return LABEL_LENGTH - len(f"{job}--{replicas - 1}")
