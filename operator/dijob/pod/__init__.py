"""What runs in users' pods, and how it gets there: the gate's command carries the launcher as text.

What the pod must have, for `GATE_COMMAND` and `LAUNCH` to work (built in core/render/pod.py):

- a volume at `DIR`, an emptyDir, mounted in the gate and in the main container; the gate makes
  `BIN_DIR` in it, and the link `topology.json`;
- a volume at `POD_DIR`, a downwardAPI with the files `node-ips`, `list-number`, `topology.json` and
  `renew-from`, mounted in both;
- the gate's env: DI_RANK, DI_POD_IP (fieldRef status.podIP), DI_JOB_NAME, DI_JOB_NAMESPACE;
- the main container's command: `LAUNCH` before the template's `command`, and the variables of the
  contract.
"""

from importlib.resources import files
from typing import Final

from dijob import names

DIR: Final = names.MOUNT_FOLDER
BIN_DIR: Final = f"{DIR}/bin"
POD_DIR: Final = f"{DIR}/pod"
IPS_FILE: Final = "node-ips"
NUMBER_FILE: Final = "list-number"
TOPOLOGY_FILE: Final = "topology.json"
RENEW_FILE: Final = "renew-from"
LAUNCH: Final = f"{BIN_DIR}/launch"
# The launcher sends KILL after this (Kubernetes' own grace period), or after that of the pod where
# it is another one (launch.sh, DIJOB_KILL_SECONDS): saving a checkpoint takes no less time than
# when the pod is deleted.
KILL_SECONDS: Final = 30


def escape(text: str) -> str:
    """Doubles every `$`: the kubelet turns `$$` back into `$` and would expand `$(X)` otherwise."""
    return text.replace("$", "$$")


def strip(text: str) -> str:
    """Drops what only readers need: empty lines and lines that are a comment. The first line may be
    `#!`.
    """
    lines = text.splitlines()
    kept = [line for line in lines if line.strip() and not line.lstrip().startswith("#")]
    return "\n".join(lines[:1] + kept if text.startswith("#!") else kept)


def strip_sh(text: str) -> str:
    """As `strip`, without indentation, which says nothing in sh (and there are no
    here-documents).
    """
    return "\n".join(line.lstrip() for line in strip(text).splitlines())


def strip_python(text: str) -> str:
    """As `strip`, without the docstrings (each is one line, and never a whole body here), and
    with one space for each four of indentation.
    """
    lines = (line for line in strip(text).splitlines() if not line.lstrip().startswith('"""'))
    return "\n".join(
        " " * ((len(line) - len(line.lstrip())) // 4) + line.lstrip() for line in lines
    )


def _read(name: str) -> str:
    return (files(__name__) / name).read_text(encoding="utf-8")


GATE: Final = strip_sh(_read("gate.sh"))
LAUNCHER: Final = strip_sh(_read("launch.sh"))
DITASK: Final = strip_sh(_read("ditask.sh"))
REACH: Final = strip_python(_read("reach.py"))

# The init container's whole command. Not `sh`: PATH is the user's, and launch's first line needs
# /bin/sh too.
GATE_COMMAND: Final[tuple[str, ...]] = (
    "/bin/sh",
    "-c",
    *(escape(text) for text in (GATE, "dijob-gate", LAUNCHER, DITASK, REACH)),
)
