"""One module for each command: its function `command` is what click runs. The modules are imported
when they are needed, so that `--help` is there at once."""

from collections.abc import Mapping
from typing import Final

# In the order of the help: the name, and the first line of its own help. The module is the name
# with underscores.
COMMANDS: Final[Mapping[str, str]] = {
    "run": "Make a job of an image and a command, with your code.",
    "apply": "Create or change the objects in files, by server-side apply.",
    "wait": "Wait until a job has ended, and end with its outcome.",
    "watch": "A live view of a job, its ranks and its events, until it has ended.",
    "ui": "A live page in the browser: jobs, their ranks and connections, progress and logs.",
    "doctor": "A checklist of what makes jobs hang or fail, with a remedy for each problem.",
    "topology": "Which connections a job's processes have, which are missing, and why.",
    "logs": "The logs of all ranks as one, in the order of time.",
    "list": "The jobs of a namespace.",
    "get": "Some jobs by name.",
    "scale": "Change how many pods a job wants.",
    "suspend": "Take jobs off the cluster, until resume.",
    "resume": "Bring suspended jobs back, with the same ranks.",
    "restart": "Delete a job and make it anew, as it was or as a file says.",
    "delete": "Delete jobs and their pods, and wait until they are gone.",
    "cp": "Copy a file or folder out of a rank or into one, or a volume of a job without pods.",
    "explain": "Say what the DIJob in a file becomes; nothing is created.",
    "local": "Run the DIJob in a file on this machine, without Kubernetes.",
    "from-slurm": "Make a DIJob of a batch script for Slurm.",
    "completion": "Print completion for bash, zsh, fish or kubectl.",
}
