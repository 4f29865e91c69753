"""Runs etcd, kube-apiserver, kube-controller-manager and kube-scheduler as processes, on the
loopback interface or in a network namespace.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import yaml
from ports import free_port

from cluster import kwok_stages
from cluster.addresses import ONLY_IPV4, Family, families, in_url
from cluster.errors import ClusterError
from cluster.pki import ADMIN, Pki
from cluster.process import log_tail, recorded, spawn
from cluster.shell import run
from cluster.waiting import until

MANIFESTS = Path(__file__).parent / "manifests"


@dataclass(frozen=True)
class Endpoint:
    """Where the control plane listens."""

    address: str  # the apiserver's address for clients
    port: int
    etcd_port: int
    etcd_peer_port: int
    local: bool  # on the loopback interface, for simulated nodes only
    ip_families: tuple[str, ...] = ONLY_IPV4  # of nodes, pods and Services, the primary one first
    number: int = 0  # of the nodes' network, if there is one

    @property
    def url(self) -> str:
        return f"https://{in_url(self.address)}:{self.port}"

    @property
    def families(self) -> tuple[Family, ...]:
        return families(self.ip_families)

    def hosts(self, host: int) -> tuple[str, ...]:
        """Return a host's addresses in the nodes' network, one per family."""
        return tuple(family.host(self.number, host) for family in self.families)


def loopback() -> Endpoint:
    """Return free ports on 127.0.0.1, so that several control planes can run in parallel."""
    return Endpoint("127.0.0.1", free_port(), free_port(), free_port(), local=True)


@dataclass(frozen=True)
class ControlPlane:
    """One control plane: state folder, programs, endpoint, and the command that enters its
    namespace.
    """

    state: Path
    binaries: Path
    endpoint: Endpoint
    enter: tuple[str, ...] = ()
    # Feature gates to enable in all programs, and API versions to enable in the apiserver.
    gates: tuple[str, ...] = ()
    apis: tuple[str, ...] = ()

    @property
    def pki(self) -> Pki:
        return Pki(self.state / "pki")

    @property
    def pod_ranges(self) -> str:
        """Return the pods' IP ranges as the value of a command line option."""
        return ",".join(family.pods for family in self.endpoint.families)

    def start(self) -> None:
        """Start etcd and the apiserver without waiting for them."""
        etcd = f"http://127.0.0.1:{self.endpoint.etcd_port}"
        peer = f"http://127.0.0.1:{self.endpoint.etcd_peer_port}"
        self._spawn(
            "etcd",
            {
                "data-dir": self.state / "etcd",
                "listen-client-urls": etcd,
                "advertise-client-urls": etcd,
                "listen-peer-urls": peer,
                "initial-advertise-peer-urls": peer,
                "initial-cluster": f"default={peer}",
                "unsafe-no-fsync": "true",  # the data is deleted with the cluster
                "quota-backend-bytes": 4 << 30,
                "log-level": "warn",
            },
        )
        self._spawn("kube-apiserver", self._apiserver_flags(etcd))

    def _apiserver_flags(self, etcd: str) -> dict[str, object]:
        pki, families = self.pki, self.endpoint.families
        flags: dict[str, object] = {
            "etcd-servers": etcd,
            "bind-address": "127.0.0.1" if self.endpoint.local else families[0].any,
            "advertise-address": self.endpoint.address,
            "secure-port": self.endpoint.port,
            "service-cluster-ip-range": ",".join(family.services for family in families),
            "allow-privileged": "true",
            "authorization-mode": "Node,RBAC",
            "enable-admission-plugins": "NodeRestriction",
            "client-ca-file": pki["ca.crt"],
            "token-auth-file": pki["tokens.csv"],
            "tls-cert-file": pki["apiserver.crt"],
            "tls-private-key-file": pki["apiserver.key"],
            "kubelet-client-certificate": pki["kubelet-client.crt"],
            "kubelet-client-key": pki["kubelet-client.key"],
            "kubelet-preferred-address-types": "InternalIP",
            "service-account-issuer": "https://kubernetes.default.svc.cluster.local",
            "service-account-key-file": pki["sa.key"],
            "service-account-signing-key-file": pki["sa.key"],
            "audit-policy-file": MANIFESTS / "audit.yaml",
            "audit-log-path": self.state / "audit.log",
            "audit-log-maxsize": 10_000,  # MB; never rotated, so that tests count every request
        }
        if self.endpoint.local:  # a Service may not point at loopback
            flags["endpoint-reconciler-type"] = "none"
        else:  # no kube-proxy runs here, so requests to an APIService go directly to its pods
            flags["enable-aggregator-routing"] = "true"
        if self.apis:
            flags["runtime-config"] = ",".join(f"{api}=true" for api in self.apis)
        return flags | self._feature_flags()

    def _feature_flags(self) -> dict[str, object]:
        gates = ",".join(f"{gate}=true" for gate in self.gates)
        return {"feature-gates": gates} if gates else {}

    def start_controllers(self) -> None:
        """Start the controller manager and the scheduler, with client rate limits that are high
        enough for scale tests.
        """
        pki = self.pki
        # With a control plane on loopback, kwok's nodes rarely renew their leases
        # (kwok_stages.py).
        patience = (
            {"node-monitor-grace-period": f"{kwok_stages.LEASE_SECONDS}s"}
            if self.endpoint.local
            else {}
        )
        self._spawn(
            "kube-controller-manager",
            {
                **patience,
                "kubeconfig": pki["system:kube-controller-manager.kubeconfig"],
                "secure-port": 0,
                "leader-elect": "false",
                "use-service-account-credentials": "true",
                "root-ca-file": pki["ca.crt"],
                "service-account-private-key-file": pki["sa.key"],
                "cluster-cidr": self.pod_ranges,
                "allocate-node-cidrs": "false",
                "kube-api-qps": 1000,
                "kube-api-burst": 2000,
                "concurrent-gc-syncs": 20,
                "horizontal-pod-autoscaler-sync-period": "5s",  # 15 s by default
                **self._feature_flags(),
            },
        )
        config = self.state / "scheduler.yaml"
        client = {
            "kubeconfig": str(pki["system:kube-scheduler.kubeconfig"]),
            "qps": 5000,
            "burst": 5000,
        }
        config.write_text(
            yaml.safe_dump(
                {
                    "apiVersion": "kubescheduler.config.k8s.io/v1",
                    "kind": "KubeSchedulerConfiguration",
                    "leaderElection": {"leaderElect": False},
                    "clientConnection": client,
                }
            )
        )
        flags = {"config": config, "secure-port": 0, **self._feature_flags()}
        self._spawn("kube-scheduler", flags)

    def _spawn(self, program: str, flags: dict[str, object]) -> None:
        arguments = [f"--{name}={value}" for name, value in flags.items()]
        spawn(self.state, program, [*self.enter, str(self.binaries / program), *arguments])

    def kubectl(self, *arguments: str, stdin: str | None = None, timeout: float = 60) -> str:
        """Run kubectl as admin, and return its output."""
        config = self.pki[f"{ADMIN}.kubeconfig"]
        return run(
            [str(self.binaries / "kubectl"), f"--kubeconfig={config}", *arguments],
            stdin=stdin,
            env={"HOME": str(self.state), "PATH": "/usr/bin:/bin"},
            timeout=timeout,
        )

    def wait_ready(self, timeout: float = 60) -> None:
        """Wait for /readyz. If a program has ended, raise with the end of its log."""
        until("the apiserver's /readyz", self.not_ready, timeout)

    def not_ready(self) -> str:
        """Return why /readyz is not ok, or "" if it is."""
        for name, process in recorded(self.state).items():
            if name in ("etcd", "kube-apiserver") and not process.alive:
                return f"{name} has ended: {log_tail(self.state, name)}"
        return _reason(lambda: self.kubectl("get", "--raw=/readyz", "--request-timeout=3s"))

    def wait_default_account(self, timeout: float = 60) -> None:
        """Wait until pods can be created in the default namespace."""
        account = ("get", "serviceaccount", "default", "-o", "name")
        until(
            "the default service account", lambda: _reason(lambda: self.kubectl(*account)), timeout
        )


def _reason(call: Callable[[], str]) -> str:
    try:
        call()
    except ClusterError as no:
        return str(no)
    return ""
