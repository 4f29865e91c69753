"""The commands of the CLI. Related commands share a module. For the command NAME, click runs the
function NAME_command.

A module is imported only when its command is used, and imports the client and other heavy packages
inside functions. Otherwise `--help` and shell completion would take a third of a second longer.
"""

from collections.abc import Mapping
from typing import Final

# The module of each command and the first line of its help, in the order in which `--help` lists
# them. The text is repeated here because listing the commands must not import their modules; a test
# compares the two copies.
COMMANDS: Final[Mapping[str, tuple[str, str]]] = {
    "run": ("run", "Create a job from an image and a command, optionally with your code."),
    "apply": ("apply", "Create or update the objects in files with server-side apply."),
    "wait": ("wait", "Wait until a job ends, and exit with its outcome."),
    "watch": ("wait", "Show a live view of a job, its ranks and its events until the job ends."),
    "doctor": (
        "doctor",
        "Check a job for problems that make it hang or fail, and suggest a remedy for each.",
    ),
    "topology": (
        "topology",
        "Show which connections a job's processes have, which are missing, and why.",
    ),
    "report": ("report", "Show how a job has spent its time, and what interrupted it."),
    "history": ("history", "List the jobs that the history has recorded, or show one of them."),
    "logs": ("logs", "Print the logs of all ranks as one stream, in chronological order."),
    "list": ("get", "List the jobs of a namespace."),
    "get": ("get", "Show the named jobs, or list all jobs of a namespace."),
    "scale": ("lifecycle", "Change the number of pods of a job."),
    "suspend": (
        "lifecycle",
        "Suspend jobs: delete their pods, and keep the jobs until they are resumed.",
    ),
    "resume": ("lifecycle", "Resume suspended jobs: create their pods again, with the same ranks."),
    "restart": ("lifecycle", "Delete a job and recreate it, unchanged or from a file."),
    "delete": ("lifecycle", "Delete jobs and their pods, and wait until the pods are gone."),
    "cp": ("cp", "Copy a file or folder to or from a rank, even if the rank is not running."),
    "explain": (
        "explain",
        "Show the pods and connections of the DIJob in a file, without creating anything.",
    ),
    "completion": ("completion", "Print the completion script for bash, zsh, fish or kubectl."),
}
