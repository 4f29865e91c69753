"""A worker node: containerd, kubelet and kube-proxy in their own namespaces."""

import json
import signal
from dataclasses import dataclass
from pathlib import Path

import yaml

from cluster import cgroups, disk
from cluster.addresses import FIRST_NODE, SWITCH
from cluster.controlplane import ControlPlane
from cluster.images import PAUSE, pause_archive
from cluster.namespace import enter, hold_node, ip, plug
from cluster.process import Process, log_tail, recorded, require, spawn, stop
from cluster.shell import run
from cluster.state import cgroup
from cluster.teardown import end_processes
from cluster.waiting import until

SOCKET = "/run/containerd/containerd.sock"
BINARIES = "/run/bin"  # the cluster's programs, bind-mounted into each node
INSIDE = "/var/lib/dijob"  # the configuration, in the node's own /var


@dataclass(frozen=True)
class Node:
    """A worker node that belongs to a control plane. Worker nodes are numbered from 1."""

    plane: ControlPlane
    number: int

    @property
    def name(self) -> str:
        return f"node-{self.number}"

    @property
    def host(self) -> int:
        """The node's host number in the nodes' network."""
        return FIRST_NODE + self.number - 1

    @property
    def addresses(self) -> tuple[str, ...]:
        """The node's addresses, one per IP family, the primary one first."""
        return self.plane.endpoint.hosts(self.host)

    @property
    def pods(self) -> tuple[str, ...]:
        """The ranges of the node's pods, in the same order."""
        return tuple(family.pods_of(self.number) for family in self.plane.endpoint.families)

    @property
    def state(self) -> Path:
        return self.plane.state

    @property
    def cgroup(self) -> str:
        return f"{cgroup(self.state)}/{self.name}"

    @property
    def holder(self) -> Process:
        return require(self.state, f"{self.name}-namespace")

    @property
    def components(self) -> tuple[str, ...]:
        """The names of the node's programs."""
        return tuple(
            f"{self.name}-{part}" for part in ("namespace", "containerd", "kubelet", "kube-proxy")
        )

    @property
    def images_root(self) -> Path:
        """The path of containerd's root outside the node."""
        return self.state / self.name / "var/lib/containerd"

    def connect(self, nodes: int) -> None:
        """Create the node's namespaces and its cable, and the routes to the pods of all nodes.

        `nodes` is the number of nodes.
        """
        cgroups.create(self.cgroup)
        holder = hold_node(self.state, self.name, self.plane.binaries, disk.size(self.state))
        switch = require(self.state, "network")
        network = self.plane.endpoint
        plug(switch, holder, (self.name, "eth0"), network, self.host)
        for gateway in network.hosts(SWITCH):
            ip(holder, "route", "add", "default", "via", gateway)
        for other in (Node(self.plane, n + 1) for n in range(nodes)):
            for pods, address in zip(other.pods, other.addresses, strict=True):
                if other != self:
                    ip(holder, "route", "add", pods, "via", address)
        for pods, address in zip(self.pods, self.addresses, strict=True):
            ip(switch, "route", "replace", pods, "via", address)
        self._write_config()

    def start_containerd(self) -> None:
        """Start containerd, and import the sandbox image."""
        self._spawn("containerd", f"{BINARIES}/containerd", f"--config={INSIDE}/containerd.toml")
        until(f"containerd of {self.name}", self._no_containerd, 30)
        if PAUSE not in self.images():
            self.load(pause_archive(self.plane.binaries, self.state / self.name))

    def stop_containerd(self) -> None:
        """Stop containerd cleanly, so that its databases are complete on disk."""
        stop(require(self.state, f"{self.name}-containerd"), signal.SIGTERM)

    def start_kubelet(self) -> None:
        """Start kubelet and kube-proxy; the node registers itself."""
        self._spawn(
            "kubelet",
            f"{BINARIES}/kubelet",
            f"--config={INSIDE}/kubelet.yaml",
            f"--kubeconfig={INSIDE}/kubelet.kubeconfig",
            f"--hostname-override={self.name}",
            f"--node-ip={','.join(self.addresses)}",
            "--v=1",
        )
        self._spawn(
            "kube-proxy",
            f"{BINARIES}/kube-proxy",
            f"--kubeconfig={INSIDE}/proxy.kubeconfig",
            f"--cluster-cidr={self.plane.pod_ranges}",
            f"--hostname-override={self.name}",
            "--proxy-mode=iptables",
            # a namespace cannot set the machine's conntrack limits
            "--conntrack-max-per-core=0",
            "--conntrack-tcp-timeout-established=0",
            "--conntrack-tcp-timeout-close-wait=0",
            "--iptables-min-sync-period=100ms",
        )

    def power_off(self) -> None:
        """Kill all of the node's processes at the same time. The node's disk remains.

        The cgroups are removed. Otherwise the next kubelet would spend seconds searching for the
        container of each cgroup.
        """
        end_processes(self.state / self.name, self.cgroup)
        until(
            f"removal of the cgroups of {self.name}",
            lambda: " ".join(map(str, cgroups.remove(self.cgroup))),
            20,
        )

    def load(self, archive: Path) -> None:
        """Import and unpack a docker or OCI archive into this node's containerd."""
        argv = [*enter(self.holder), *self._ctr("images", "import", "-")]
        with archive.open("rb") as stdin:
            run(argv, stdin=stdin, timeout=900)

    def images(self) -> set[str]:
        """Return the names of the images on this node."""
        return set(run([*enter(self.holder), *self._ctr("images", "ls", "-q")]).split())

    def not_running(self) -> str:
        """Return the programs that have ended, with the end of each log; "" if all are running."""
        known = recorded(self.state)
        dead = [c for c in self.components if c not in known or not known[c].alive]
        return "; ".join(f"{c} has ended: {log_tail(self.state, c, 3)}" for c in dead)

    def _ctr(self, *arguments: str) -> list[str]:
        return [f"{BINARIES}/ctr", f"--address={SOCKET}", "--namespace=k8s.io", *arguments]

    def _no_containerd(self) -> str:
        if dead := (
            "" if recorded(self.state)[f"{self.name}-containerd"].alive else "it has ended: "
        ):
            return dead + log_tail(self.state, f"{self.name}-containerd")
        ready = Path(f"/proc/{self.holder.pid}/root{SOCKET}").exists()
        return "" if ready else f"{SOCKET} is not there"

    def _spawn(self, part: str, *argv: str) -> None:
        spawn(
            self.state, f"{self.name}-{part}", [*enter(self.holder), *argv], self.state / self.name
        )

    def _write_config(self) -> None:
        inside = self.state / self.name / INSIDE.lstrip("/")
        (inside / "net.d").mkdir(parents=True, exist_ok=True)
        (inside / "containerd.toml").write_text(CONTAINERD)
        (inside / "net.d/10-dijob.conflist").write_text(json.dumps(self._network()))
        (inside / "kubelet.yaml").write_text(yaml.safe_dump(self._kubelet()))
        pki = self.plane.pki
        copies = {
            "ca.crt": "ca.crt",
            f"system:node:{self.name}.kubeconfig": "kubelet.kubeconfig",
            "system:kube-proxy.kubeconfig": "proxy.kubeconfig",
        }
        for source, name in copies.items():
            (inside / name).touch(mode=0o600)
            (inside / name).write_bytes(pki[source].read_bytes())

    def _network(self) -> dict[str, object]:
        # ptp instead of bridge: pods on one node reach each other through routes, so kube-proxy's
        # rules apply without the kernel module br_netfilter.
        ipam = {
            "type": "host-local",
            "ranges": [[{"subnet": pods}] for pods in self.pods],
            "routes": [{"dst": family.all} for family in self.plane.endpoint.families],
        }
        return {
            "cniVersion": "0.4.0",
            "name": "dijob",
            "plugins": [
                {"type": "ptp", "ipMasq": False, "ipam": ipam},
                {"type": "portmap", "capabilities": {"portMappings": True}},
            ],
        }

    def _kubelet(self) -> dict[str, object]:
        family = self.plane.endpoint.families[0]
        return {
            "apiVersion": "kubelet.config.k8s.io/v1beta1",
            "kind": "KubeletConfiguration",
            "address": family.any,
            "authentication": {
                "anonymous": {"enabled": False},
                "webhook": {"enabled": True},
                "x509": {"clientCAFile": f"{INSIDE}/ca.crt"},
            },
            "authorization": {"mode": "Webhook"},
            "cgroupDriver": "cgroupfs",
            "cgroupRoot": self.cgroup,
            "clusterDNS": [family.dns],
            "clusterDomain": "cluster.local",
            "containerRuntimeEndpoint": f"unix://{SOCKET}",
            "failSwapOn": False,
            "failCgroupV1": False,
            "resolvConf": "/dev/null",
            "serializeImagePulls": False,
            # The machine's disk may be almost full, and there is no registry from which a collected
            # image could be pulled again.
            "imageGCHighThresholdPercent": 100,
            "imageGCLowThresholdPercent": 99,
            **disk.eviction(self.state),
        }


CONTAINERD = f"""
version = 3
disabled_plugins = ["io.containerd.snapshotter.v1.btrfs", "io.containerd.snapshotter.v1.zfs",
  "io.containerd.snapshotter.v1.devmapper", "io.containerd.snapshotter.v1.blockfile",
  "io.containerd.snapshotter.v1.erofs", "io.containerd.internal.v1.tracing",
  "io.containerd.nri.v1.nri"]
[grpc]
  address = "{SOCKET}"
[plugins."io.containerd.cri.v1.images".pinned_images]
  sandbox = "{PAUSE}"
[plugins."io.containerd.cri.v1.runtime"]
  # without CAP_SYS_RESOURCE no sandbox could start: its oom score may not be lowered
  restrict_oom_score_adj = true
  [plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc]
    runtime_type = "io.containerd.runc.v2"
    # not one of another version that is on PATH
    runtime_path = "{BINARIES}/containerd-shim-runc-v2"
  [plugins."io.containerd.cri.v1.runtime".cni]
    bin_dirs = ["/usr/lib/cni"]
    conf_dir = "{INSIDE}/net.d"
"""
