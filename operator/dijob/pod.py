"""The places in a rank's pod that the operator and the programs of images/launcher agree on.

What the pod must have for these programs to work (core/render/launcher.py):

- `DIR`, mounted in the gate and in the main container: the volume into which the launcher's image
  has put its programs (`BIN_DIR`) and the link `topology.json`, or that image itself;
- `POD_DIR`, a downwardAPI volume with the files below, mounted in both;
- the gate's env: DI_RANK, DI_POD_IP (fieldRef status.podIP), DI_JOB_NAME, DI_JOB_NAMESPACE;
- the main container's command: `LAUNCH` before the template's `command`, and the variables of the
  contract.
"""

from typing import Final

from dijob import names

DIR: Final = names.MOUNT_FOLDER
BIN_DIR: Final = f"{DIR}/bin"
POD_DIR: Final = f"{DIR}/pod"
IPS_FILE: Final = "node-ips"
NUMBER_FILE: Final = "list-number"
TOPOLOGY_FILE: Final = "topology.json"
RENEW_FILE: Final = "renew-from"
GATE: Final = f"{BIN_DIR}/gate"
LAUNCH: Final = f"{BIN_DIR}/launch"
# In the launcher's own image, which has its programs in /bin.
INSTALL: Final = "/bin/install"
# The launcher sends KILL after this (Kubernetes' own grace period), or after that of the pod where
# it is another one (images/launcher/launch.go, DIJOB_KILL_SECONDS): saving a checkpoint takes no
# less time than when the pod is deleted.
KILL_SECONDS: Final = 30
