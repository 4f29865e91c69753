"""Namespaces, each held open by a small process, and the virtual cables between them. Namespaces
and cables disappear with the processes.
"""

import os
from collections.abc import Sequence
from pathlib import Path

from cluster.addresses import IPV4, IPV6
from cluster.controlplane import Endpoint
from cluster.process import Process, log_tail, spawn
from cluster.shell import run
from cluster.waiting import until

# Kernel settings that the kubelet would otherwise change on the machine. In the node's mount
# namespace (and only there), the kubelet finds these values instead of the machine's.
_SYSCTLS = (
    "vm/overcommit_memory=1 vm/panic_on_oom=0 kernel/panic=10 kernel/panic_on_oops=1 "
    "kernel/keys/root_maxkeys=1000000 kernel/keys/root_maxbytes=25000000"
)

# $1 the node's folder, $2 the programs, $3 the size of the kubelet's own file system ("": it uses
# the machine's). The node gets its own /run and /var, so that containerd and kubelet use their
# usual paths without touching the machine's. The kubelet's own file system is mounted only at
# /var/lib/kubelet. If it were also mounted in the node's folder, the kubelet would find that mount
# too, and could not access its path.
_NODE = f"""
set -e
mount --make-rshared /
mkdir -p "$1/run" "$1/var/lib" "$1/var/log" "$1/var/tmp"
ln -sfn /run "$1/var/run"
mount -t tmpfs -o mode=0755 tmpfs "$1/run"
mkdir "$1/run/bin" "$1/run/sysctl" "$1/run/lock" "$1/run/netns"
mount --bind "$2" "$1/run/bin"
for pair in {_SYSCTLS}; do
    key=${{pair%=*}}
    file=$1/run/sysctl/$(echo "$key" | tr / .)
    echo "${{pair#*=}}" > "$file"
    mount --bind "$file" "/proc/sys/$key"
done
mount --rbind "$1/run" /run
mount --bind "$1/var" /var
if [ -n "$3" ]; then
    mount --make-private /var
    mkdir -p /var/lib/kubelet
    mount -t tmpfs -o mode=0755,size="$3" tmpfs /var/lib/kubelet
    mount --make-rshared /var/lib/kubelet
fi
echo 1 > /proc/sys/net/ipv4/ip_forward
if [ -e /proc/sys/net/ipv6 ]; then echo 1 > /proc/sys/net/ipv6/conf/all/forwarding; fi
ip link set lo up
exec /run/bin/pause
"""


def hold_network(state: Path, binaries: Path) -> Process:
    """Create a network namespace for the control plane, with a bridge as the cluster's switch."""
    script = 'ip link set lo up && ip link add br0 type bridge && exec "$1/pause"'
    return _hold(
        state, "network", ["unshare", "--net", "sh", "-c", script, "sh", str(binaries)], state
    )


def hold_node(state: Path, node: str, binaries: Path, disk: str) -> Process:
    """Create a network namespace and a mount namespace for one node.

    `disk` is explained at `_NODE`.
    """
    argv = [
        "unshare",
        "--net",
        "--mount",
        "--propagation=private",
        "sh",
        "-c",
        _NODE,
        "sh",
        str(state / node),
        str(binaries),
        disk,
    ]
    return _hold(state, f"{node}-namespace", argv, state / node)


def _hold(state: Path, name: str, argv: Sequence[str], owner: Path) -> Process:
    process = spawn(state, name, argv, owner)

    def not_yet() -> str:
        try:
            ready = Path(os.readlink(f"/proc/{process.pid}/exe")).name == "pause"
        except OSError:
            ready = False
        return "" if ready else f"pid {process.pid}: {log_tail(state, name)}"

    until(f"namespaces of {name}", not_yet, 10, pause=0.02)
    return process


def enter(holder: Process, mount: bool = True) -> tuple[str, ...]:
    """Return a prefix for a command that must run in the holder's namespaces and keep its pid."""
    return ("nsenter", f"--target={holder.pid}", "--net", *(["--mount"] if mount else []), "--")


def ip(holder: Process | None, *arguments: str) -> str:
    """Run `ip` in a namespace; None is the machine's own."""
    prefix = enter(holder, mount=False) if holder else ()
    return run([*prefix, "ip", *arguments])


def plug(
    switch: Process, end: Process | None, names: tuple[str, str], network: Endpoint, host: int
) -> None:
    """Connect the switch (port names[0]) to a namespace or the machine (interface names[1]).

    The namespace or the machine gets the host number `host` in the nodes' network.
    """
    port, device = names
    target = end.pid if end else os.getpid()
    ip(switch, "link", "add", port, "type", "veth", "peer", "name", device, "netns", str(target))
    ip(switch, "link", "set", port, "master", "br0", "up")
    give_addresses(end, device, network, host)


def give_addresses(end: Process | None, device: str, network: Endpoint, host: int) -> None:
    """Set an interface's IPs and a MAC derived from them, and bring the interface up.

    By default, a bridge takes the MAC of one of its ports, and changes it when a node leaves. A
    node has a random MAC by default, so it would come back with a different one. In both cases,
    other hosts would send to the old MAC until their ARP entries expire.
    """
    mac = f"02:00:0a:5f:{network.number:02x}:{host:02x}"
    ip(end, "link", "set", device, "address", mac)
    for family in network.families:
        address = f"{family.host(network.number, host)}/{family.network_bits}"
        # `nodad` turns off the check for duplicate addresses. No program can listen on an address
        # while the kernel is checking it.
        unasked = ["nodad"] if family is IPV6 else []
        ip(end, family.flag, "address", "add", address, "dev", device, *unasked)
    ip(end, "link", "set", device, "up")


def free_network(preferred: int) -> int:
    """Return the number of an unused network for nodes. The number is part of an IPv4 and of an
    IPv6 network (IPv4: 10.95.NUMBER.0/24). This machine has no address or route in either of them.
    """
    taken = [
        word
        for family in (IPV4, IPV6)
        for asked in (("-oneline", "address"), ("route", "show", "table", "all"))
        for word in ip(None, family.flag, *asked).split()
    ]

    def free(number: int) -> bool:
        starts = tuple(family.host(number, 0).removesuffix("0") for family in (IPV4, IPV6))
        return not any(word.startswith(starts) for word in taken)

    return next(number for i in range(256) if free(number := (preferred + i) % 256))
