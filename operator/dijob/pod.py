"""Paths and values on which the operator and the programs of images/launcher agree.

The operator and the programs in a pod can have different versions, because running pods are not
changed by an upgrade. So these values are a contract. A pod must have the following for the
programs to work (core/render/launcher.py):

- `DIR`, an emptyDir, is mounted in the gate and in the main container. `DIR` contains the
  programs (`BIN_DIR`), as copies or as a mount of the launcher's image. The launcher writes
  `topology.json` there.
- `POD_DIR`, a downwardAPI volume, is mounted in both containers. `ANNOTATIONS_FILE` has all
  annotations of the pod. Without a launcher, `TOPOLOGY_FILE` has the topology.
- The gate's environment has DI_RANK, DI_POD_IP (fieldRef status.podIP), DI_JOB_NAME and
  DI_JOB_NAMESPACE.
- The main container's command is `LAUNCH` followed by the template's `command`. Its environment has
  the variables of the contract.
"""

from typing import Final

from dijob import names

DIR: Final = names.MOUNT_FOLDER
BIN_DIR: Final = f"{DIR}/bin"
POD_DIR: Final = f"{DIR}/pod"
# The folder with the pod's token for the HTTP server. A pod has this folder only if the operator
# has the URL of an HTTP server (core/render/server.py).
SERVER_DIR: Final = f"{DIR}/server"
ANNOTATIONS_FILE: Final = "annotations"
TOPOLOGY_FILE: Final = "topology.json"
GATE: Final = f"{BIN_DIR}/gate"
LAUNCH: Final = f"{BIN_DIR}/launch"
# A path in the launcher's own image. All binaries in that image are in the root directory.
INSTALL: Final = "/install"
# Kubernetes' default grace period. The launcher waits this long between SIGTERM and SIGKILL, unless
# the pod has a different grace period (run/launch.go, DIJOB_KILL_SECONDS). So a program has as
# much time to save a checkpoint as it has when its pod is deleted.
KILL_SECONDS: Final = 30
# The launcher's variable for the pod's restart policy. With OnFailure, the launcher waits after a
# failure until the operator has counted the failure (run/record.go). Older launchers do not wait.
RESTART_POLICY: Final = "DIJOB_RESTART_POLICY"
# The launcher's exit code for a re-rendezvous (run/launch.go). The operator does not count this
# exit as a failure.
RENEWAL_CODE: Final = 85
# The launcher's variable for the channel. Its three words are the operator's address, the pod's
# name, and the pod's key ("HOST:PORT POD KEY"). Only a pod without a gate has this variable.
CHANNEL: Final = "DIJOB_CHANNEL"
