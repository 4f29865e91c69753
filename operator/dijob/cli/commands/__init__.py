"""One module for each command: its function `command` is what click runs. The modules are imported
when they are needed, so that `--help` is there at once."""

from collections.abc import Mapping
from typing import Final

# In the order of the help: the name, and the line that the help has of it. The module is the name
# with underscores.
COMMANDS: Final[Mapping[str, str]] = {
    "run": "Make a job of an image and a command, with your code.",
    "apply": "Create or change what is in files.",
    "wait": "Wait for a job's end, and end with its outcome.",
    "watch": "A live view of a job, its ranks and its events.",
    "doctor": "A checklist of what makes jobs hang or fail, with remedies.",
    "topology": "Which connections a job's processes have, and which are missing.",
    "logs": "The logs of all ranks as one.",
    "list": "The jobs of a namespace.",
    "get": "Some jobs by name.",
    "scale": "Change how many pods a job wants.",
    "suspend": "Take jobs off the cluster, until resume.",
    "resume": "Bring suspended jobs back.",
    "restart": "Delete a job and make it anew, as it was or with a fix.",
    "delete": "Delete jobs and their pods.",
    "cp": "Copy files out of a rank, or out of a volume of a job that has ended.",
    "completion": "Completion for bash, zsh, fish and kubectl.",
}
