"""The addresses of a cluster's nodes, pods and Services by IP family."""

from collections.abc import Sequence
from dataclasses import dataclass

from cluster.errors import ClusterError

SWITCH, MACHINE, FIRST_NODE = 1, 254, 11  # hosts in the nodes' network


@dataclass(frozen=True)
class Family:
    """One IP family with a cluster's address ranges. Patterns are format strings."""

    name: str  # as Kubernetes writes it
    network: str  # addresses of nodes: (cluster, host)
    network_bits: int
    pods: str  # all pods
    node_pods: str  # range of a node's pods: (node)
    services: str
    service: str  # address of a Service: (host)
    all: str  # every address
    any: str  # to listen on all addresses
    flag: str  # the option of `ip`

    def host(self, cluster: int, host: int) -> str:
        """Return an address in the network of a cluster's nodes."""
        return self.network.format(cluster, host)

    def pods_of(self, node: int) -> str:
        """Return the address range of a node's pods; nodes are numbered from 1."""
        return self.node_pods.format(node)

    @property
    def apiserver(self) -> str:
        """The address of the service `kubernetes`."""
        return self.service.format(1)

    @property
    def dns(self) -> str:
        """The address of the service `kube-dns`."""
        return self.service.format(10)


IPV4 = Family(
    name="IPv4",
    network="10.95.{}.{}",
    network_bits=24,
    pods="10.244.0.0/16",
    node_pods="10.244.{}.0/24",
    services="10.96.0.0/16",
    service="10.96.0.{}",
    all="0.0.0.0/0",
    any="0.0.0.0",
    flag="-4",
)
IPV6 = Family(
    name="IPv6",
    network="fd00:95:0:1{:02x}::{:x}",
    network_bits=64,
    pods="fd00:244::/48",
    node_pods="fd00:244:0:{:x}::/64",
    services="fd00:96::/112",
    service="fd00:96::{:x}",
    all="::/0",
    any="::",
    flag="-6",
)
FAMILIES = {family.name: family for family in (IPV4, IPV6)}
ONLY_IPV4 = (IPV4.name,)


def families(names: Sequence[str]) -> tuple[Family, ...]:
    """Return the families with these names; the first is the cluster's primary one."""
    if not names or set(names) - FAMILIES.keys() or len(set(names)) < len(names):
        known = ", ".join(FAMILIES)
        raise ClusterError(f"IP families {','.join(names)}: one or both of {known}, each once")
    return tuple(FAMILIES[name] for name in names)


def in_url(address: str) -> str:
    """Return an address for a URL: IPv6 addresses are put in brackets."""
    return f"[{address}]" if ":" in address else address
