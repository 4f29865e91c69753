"""Namespaces held open by one small process each, and the cables between them: no trace outlives
the process.
"""

import os
from collections.abc import Sequence
from pathlib import Path

from cluster.addresses import IPV4, IPV6
from cluster.controlplane import Endpoint
from cluster.process import Process, log_tail, spawn
from cluster.shell import run
from cluster.waiting import until

# What the kubelet would otherwise write into the machine's own kernel settings. It finds these
# values in their place, in the node's view alone.
_SYSCTLS = (
    "vm/overcommit_memory=1 vm/panic_on_oom=0 kernel/panic=10 kernel/panic_on_oops=1 "
    "kernel/keys/root_maxkeys=1000000 kernel/keys/root_maxbytes=25000000"
)

# $1 the node's folder, $2 the programs, $3 the size of the kubelet's own file system ("": it uses
# the machine's). The node gets a /run and a /var of its own, so that containerd and kubelet keep
# their usual paths and the machine's are not touched. A kubelet's own file system is not shared
# with the machine's view: the kubelet would find it there too, at a place that it cannot look at.
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
    """A network namespace for the control plane, with a bridge that is the cluster's switch."""
    script = 'ip link set lo up && ip link add br0 type bridge && exec "$1/pause"'
    return _hold(
        state, "network", ["unshare", "--net", "sh", "-c", script, "sh", str(binaries)], state
    )


def hold_node(state: Path, node: str, binaries: Path, disk: str) -> Process:
    """A network and a mount namespace for one node; `disk` as in `_NODE`."""
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
    """What to put before a command so that it runs in the holder's namespaces, under its own
    pid.
    """
    return ("nsenter", f"--target={holder.pid}", "--net", *(["--mount"] if mount else []), "--")


def ip(holder: Process | None, *arguments: str) -> str:
    """`ip` in a namespace; None is this machine's own."""
    prefix = enter(holder, mount=False) if holder else ()
    return run([*prefix, "ip", *arguments])


def plug(
    switch: Process, end: Process | None, names: tuple[str, str], network: Endpoint, host: int
) -> None:
    """A cable from the switch (port names[0]) to a namespace or the machine (interface names[1]),
    which is that host in the nodes' network.
    """
    port, device = names
    target = end.pid if end else os.getpid()
    ip(switch, "link", "add", port, "type", "veth", "peer", "name", device, "netns", str(target))
    ip(switch, "link", "set", port, "master", "br0", "up")
    give_addresses(end, device, network, host)


def give_addresses(end: Process | None, device: str, network: Endpoint, host: int) -> None:
    """Set an interface's IPs, and a MAC that follows from them, and bring it up.

    Left alone, a bridge takes the MAC of a port and changes it when a node leaves, and a node comes
    back with another one: either way the others would send into the void until their ARP entries
    are too old.
    """
    mac = f"02:00:0a:5f:{network.number:02x}:{host:02x}"
    ip(end, "link", "set", device, "address", mac)
    for family in network.families:
        address = f"{family.host(network.number, host)}/{family.network_bits}"
        # Nobody else has it, and until IPv6 has asked for that nothing can listen on it.
        unasked = ["nodad"] if family is IPV6 else []
        ip(end, family.flag, "address", "add", address, "dev", device, *unasked)
    ip(end, "link", "set", device, "up")


def free_network(preferred: int) -> int:
    """The number of a network for nodes (10.95.NUMBER.0/24, and IPv6's) that this machine has no
    address or route in.
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
