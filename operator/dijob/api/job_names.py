"""Names of jobs and tasks: which are allowed, and the nearest one that is.

The pods are named JOB-RANK or JOB-TASK-INDEX and the Service JOB, so a job's name is as strict as a
Service's, and a pod's name has to fit into a label.
"""

import re
from typing import Final

# JOB-RANK with a rank of four digits must fit into LABEL_LENGTH.
NAME_PATTERN: Final = "[a-z]([-a-z0-9]*[a-z0-9])?"
NAME_LENGTH: Final = 58
LABEL_LENGTH: Final = 63
# What Kubernetes puts after a generateName.
GENERATED: Final = 5
PREFIX: Final = "job-"
NAME_MESSAGE: Final = (
    f"must match {NAME_PATTERN} and have at most {NAME_LENGTH} characters, because the pods are"
    " named NAME-RANK and the Service NAME: choose another name"
)
GENERATE_NAME_MESSAGE: Final = (
    f"generateName may have at most {NAME_LENGTH - GENERATED} characters here, because Kubernetes"
    f" adds {GENERATED}: make it shorter"
)
TASK_LENGTH_MESSAGE: Final = (
    f"the pods are named JOB-TASK-INDEX, which may have at most {LABEL_LENGTH} characters in all:"
    " shorten the name of the task or of the job"
)


def is_allowed(name: str) -> bool:
    """Whether a job can have this name."""
    return len(name) <= NAME_LENGTH and re.fullmatch(NAME_PATTERN, name) is not None


def nearest(name: str) -> str:
    """The allowed name that is most like this one; "" if nothing of it can be kept."""
    plain = re.sub("[^a-z0-9]+", "-", name.lower()).strip("-")
    begun = plain if plain[:1].isalpha() or not plain else f"{PREFIX}{plain}"
    return begun[:NAME_LENGTH].rstrip("-")


def room_for_task(job: str, replicas: int) -> int:
    """How many characters a task's name may have beside this job's; 0 or less: there is no room."""
    return LABEL_LENGTH - len(f"{job}--{replicas - 1}")
