"""Runs the real controller of Kueue next to the test control plane.

The program, its CRDs and its webhooks come from a checkout of Kueue's source. The checkout stays
unchanged, and none of it is in this repository.
"""

import json
import os
import signal
import subprocess
import tempfile
import urllib.error
import urllib.request
from base64 import b64encode
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import trustme
import yaml
from cluster import Cluster
from cluster.shell import until_established
from cluster.waiting import until
from ports import free_port

Body = dict[str, Any]
GROUP = "kueue.x-k8s.io"
DIJOB = "DIJob.v2alpha1.diengine.opendilab.org"


def install_crds(cluster: Cluster, source: Path) -> None:
    """Install Kueue's CRDs. Only the stored version is used, so no conversion is needed."""
    folder = source / "config/components/crd/bases"
    cluster.run_kubectl("apply", "--server-side", "-f", str(folder))
    for path in folder.glob("*.yaml"):
        until_established(cluster.run_kubectl, yaml.safe_load(path.read_text())["metadata"]["name"])


@dataclass
class KueueProcess:
    """Runs one process of Kueue at a time, with Kueue's webhooks for objects of its own group."""

    cluster: Cluster
    source: Path
    binary: Path
    folder: Path
    settings: Mapping[str, Any] = field(default_factory=dict)
    hooks: int = field(default_factory=free_port)
    health: int = field(default_factory=free_port)
    process: subprocess.Popen[bytes] | None = None
    # The kubeconfig of the process (None: that of the cluster).
    kubeconfig: Path | None = None

    @property
    def log(self) -> Path:
        """The file with its output."""
        return self.folder / "kueue.log"

    def install(self) -> None:
        """Install the CRDs, the namespace, and the webhook configurations."""
        install_crds(self.cluster, self.source)
        self.cluster.run_kubectl("create", "namespace", "kueue-system")
        authority = trustme.CA()
        made = authority.issue_cert("127.0.0.1", common_name="kueue")
        made.private_key_pem.write_to_path(str(self.folder / "tls.key"))
        made.cert_chain_pems[0].write_to_path(str(self.folder / "tls.crt"))
        self.start()
        bundle = b64encode(authority.cert_pem.bytes()).decode()
        hooks = json.dumps({"apiVersion": "v1", "kind": "List", "items": self._webhooks(bundle)})
        self.cluster.run_kubectl("apply", "-f", "-", stdin=hooks)

    def start(self, **settings: Any) -> None:
        """Start the process, and wait until it is ready. `settings` are added to its
        configuration.
        """
        path = self.folder / "config.yaml"
        path.write_text(yaml.safe_dump({**self._configuration(), **self.settings, **settings}))
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                ["unshare", "--mount", "sh", "-c", self._script(), str(self.binary), str(path)],
                env={**os.environ, "KUBECONFIG": str(self.kubeconfig or self.cluster.kubeconfig)},
                stdout=log,
                stderr=log,
            )
        until("Kueue is ready", self._missing, 90, self.tail)

    def kill(self) -> None:
        """Kill the process (kill -9)."""
        if self.process is not None:
            self.process.send_signal(signal.SIGKILL)
            self.process.wait()
            self.process = None

    def tail(self) -> str:
        """Return the end of its log, for messages."""
        return "\n".join(self.log.read_text().splitlines()[-15:])

    def _script(self) -> str:
        """Return the script that runs the program ($0) with its configuration ($1).

        If Kueue does not manage its own certificates, it reads the certificates of its metrics
        server only from a fixed path below /etc. So the program gets a copy of /etc with these
        certificates.
        """
        certificates = "/etc/kueue/metrics/certs"
        layer = tempfile.mkdtemp(dir=self.folder)
        return (
            f"mkdir {layer}/upper {layer}/work && mount -t overlay overlay"
            f" -o lowerdir=/etc,upperdir={layer}/upper,workdir={layer}/work /etc"
            f" && mkdir -p {certificates} && cp {self.folder}/tls.* {certificates}"
            ' && exec "$0" --config="$1"'
        )

    def _configuration(self) -> Body:
        return {
            "apiVersion": "config.kueue.x-k8s.io/v1beta2",
            "kind": "Configuration",
            "namespace": "kueue-system",
            # The Lease that a killed process leaves behind would delay the next process.
            "leaderElection": {"leaderElect": False},
            "internalCertManagement": {"enable": False},
            "webhook": {"host": "127.0.0.1", "port": self.hooks, "certDir": str(self.folder)},
            "health": {"healthProbeBindAddress": f"127.0.0.1:{self.health}"},
            "metrics": {"bindAddress": "0"},
            # The server of this feature needs certificates at another fixed path.
            "featureGates": {"VisibilityOnDemand": False},
            "integrations": {"frameworks": ["batch/job"], "externalFrameworks": [DIJOB]},
        }

    def _missing(self) -> str:
        assert self.process is not None
        if self.process.poll() is not None:
            raise AssertionError(f"Kueue has exited with {self.process.returncode}: {self.tail()}")
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.health}/readyz", timeout=5):
                return ""
        except (urllib.error.URLError, OSError) as error:
            return str(error)

    def _webhooks(self, bundle: str) -> list[Body]:
        """Return the webhook configurations for Kueue's own objects, with the process's address."""
        text = (self.source / "config/components/webhook/manifests.yaml").read_text()
        made = []
        for each in yaml.safe_load_all(text):
            kept = [
                hook
                for hook in each["webhooks"]
                if all(rule["apiGroups"] == [GROUP] for rule in hook["rules"])
            ]
            for hook in kept:
                path = hook["clientConfig"]["service"]["path"]
                url = f"https://127.0.0.1:{self.hooks}{path}"
                hook["clientConfig"] = {"url": url, "caBundle": bundle}
            each["metadata"]["name"] = f"kueue-{each['kind'].lower()}"
            made.append({**each, "webhooks": kept})
        return made
