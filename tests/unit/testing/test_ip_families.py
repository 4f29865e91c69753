"""The addresses that the test cluster gives to nodes, pods and services."""

import ipaddress

import pytest
from cluster.addresses import FIRST_NODE, IPV4, IPV6, MACHINE, SWITCH, Family, families, in_url
from cluster.errors import ClusterError

BOTH = pytest.mark.parametrize("family", [IPV4, IPV6], ids=lambda family: family.name)


@BOTH
def test_the_hosts_of_a_cluster_share_a_network_that_is_no_other_clusters(family: Family) -> None:
    hosts = (SWITCH, FIRST_NODE, FIRST_NODE + 1, MACHINE)
    networks = set()
    for cluster in range(256):
        addresses = [family.host(cluster, host) for host in hosts]
        # As programs print them: tests compare texts.
        assert addresses == [str(ipaddress.ip_address(address)) for address in addresses]
        interfaces = {ipaddress.ip_interface(f"{a}/{family.network_bits}") for a in addresses}
        (network,) = {interface.network for interface in interfaces}
        networks.add(network)
    assert len(networks) == 256


@BOTH
def test_nodes_have_pods_of_their_own_and_services_are_apart(family: Family) -> None:
    pods, services = map(ipaddress.ip_network, (family.pods, family.services))
    first, second = (ipaddress.ip_network(family.pods_of(node)) for node in (1, 2))
    assert not first.overlaps(second)
    for network in (first, second):
        assert pods.supernet_of(network)  # type: ignore[arg-type]
    assert not pods.overlaps(services)
    assert ipaddress.ip_address(family.apiserver) == services[1]
    assert ipaddress.ip_address(family.dns) == services[10]


def test_the_first_family_is_the_primary_one() -> None:
    assert families(("IPv6", "IPv4")) == (IPV6, IPV4)


@pytest.mark.parametrize("names", [(), ("IPv5",), ("IPv4", "IPv4")], ids=str)
def test_a_wrong_choice_is_named(names: tuple[str, ...]) -> None:
    with pytest.raises(ClusterError, match="one or both of IPv4, IPv6"):
        families(names)


def test_only_ipv6_has_brackets_in_a_url() -> None:
    assert (in_url("10.0.0.1"), in_url("fd00::1")) == ("10.0.0.1", "[fd00::1]")
