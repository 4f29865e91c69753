"""The places in a rank's pod that the operator and the programs of images/launcher agree on.

What the pod must have for these programs to work (core/render/launcher.py):

- `DIR`, an emptyDir, mounted in the gate and in the main container: the programs are in it
  (`BIN_DIR`), copied there or as the launcher's image itself, and the launcher writes
  `topology.json`;
- `POD_DIR`, a downwardAPI volume, mounted in both: `ANNOTATIONS_FILE` has all annotations of the
  pod, and where no launcher stands, `TOPOLOGY_FILE` has the topology;
- the gate's env: DI_RANK, DI_POD_IP (fieldRef status.podIP), DI_JOB_NAME, DI_JOB_NAMESPACE;
- the main container's command: `LAUNCH` before the template's `command`, and the variables of the
  contract.
"""

from typing import Final

from dijob import names

DIR: Final = names.MOUNT_FOLDER
BIN_DIR: Final = f"{DIR}/bin"
POD_DIR: Final = f"{DIR}/pod"
# The token for the HTTP server, where there is one (core/render/server.py).
SERVER_DIR: Final = f"{DIR}/server"
ANNOTATIONS_FILE: Final = "annotations"
TOPOLOGY_FILE: Final = "topology.json"
GATE: Final = f"{BIN_DIR}/gate"
LAUNCH: Final = f"{BIN_DIR}/launch"
# In the launcher's own image, which has its programs in its root.
INSTALL: Final = "/install"
# The launcher sends KILL after this (Kubernetes' own grace period), or after that of the pod where
# it is another one (images/launcher/launch.go, DIJOB_KILL_SECONDS): saving a checkpoint takes no
# less time than when the pod is deleted.
KILL_SECONDS: Final = 30
# The launcher's variable with the pod's restart policy: with OnFailure it waits after a failure
# until that is counted (images/launcher/runs.go). Launchers of older pods do not.
RESTART_POLICY: Final = "DIJOB_RESTART_POLICY"
# How the launcher ends for a renewal (images/launcher/launch.go).
RENEWAL_CODE: Final = 85
