"""One module for each command: its function `command` is what click runs. The modules are imported
when they are needed, so that `--help` is there at once."""

from collections.abc import Mapping
from typing import Final

# In the order of the help: the name, and the line that the help has of it. The module is the name
# with underscores.
COMMANDS: Final[Mapping[str, str]] = {
    "explain": "what a file becomes, before anything is created",
    "local": "run a file's job on this machine, without Kubernetes",
    "from-slurm": "a DIJob of a batch script for Slurm",
}
