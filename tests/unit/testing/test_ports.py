"""Ports for the servers of tests: two processes of one run never get the same port."""

import socket
from pathlib import Path

import pytest
from ports import free_port, ports_of

WORKERS = ["", *(f"gw{number}" for number in range(11))]


def test_workers_share_no_port() -> None:
    ranges = [ports_of(worker) for worker in WORKERS]
    assert len(set().union(*ranges)) == sum(len(one) for one in ranges)


def test_the_kernel_gives_none_of_the_ports_to_a_client() -> None:
    first = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    assert max(port for worker in WORKERS for port in ports_of(worker)) < first


def test_a_process_gets_each_port_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTEST_XDIST_WORKER", "gw10")
    ports = [free_port() for _ in range(500)]
    assert len(set(ports)) == 500
    assert set(ports) <= set(ports_of("gw10"))


@pytest.mark.parametrize("address", ["127.0.0.1", "0.0.0.0"])
def test_a_port_in_use_is_left_out(monkeypatch: pytest.MonkeyPatch, address: str) -> None:
    taken, other = free_port(), free_port()
    monkeypatch.setattr("ports._candidates", lambda _: iter([taken, other]))
    with socket.create_server((address, taken)):
        assert free_port() == other
