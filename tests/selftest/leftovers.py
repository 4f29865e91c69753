"""Everything that a test cluster could leave on this machine."""

import os
import subprocess
from pathlib import Path

from cluster import state
from cluster.waiting import until
from selftest.web import NAME


def machine() -> dict[str, object]:
    """Return everything that a cluster could leave on this machine, except for the resources of
    other running clusters.
    """
    names = clusters()
    found = _machine(names)
    # A control plane of other tests may have started or ended in the meantime.
    return found if clusters() == names else machine()


def until_as(before: dict[str, object]) -> None:
    """Wait until the machine is as before: resources that other tests are creating may look like
    ours for a moment.
    """

    def differs() -> str:
        now = machine()
        return "; ".join(
            f"{key}: {before[key]} became {now[key]}" for key in before if now[key] != before[key]
        )

    until("all as before", differs, 60)


def clusters() -> list[str]:
    return sorted(os.listdir(state.root())) if state.root().exists() else []


def _machine(names: list[str]) -> dict[str, object]:
    others = [state.root() / name for name in names if name != NAME]
    tokens = [state.token(place) for place in others]

    def ours(text: str) -> bool:
        # Created by Buildah.
        return not any(token in text for token in tokens) and "/var/lib/containers/" not in text

    rules = subprocess.run(
        ["iptables-save"], capture_output=True, text=True, check=True
    ).stdout.splitlines()
    settings = (
        "kernel/panic",
        "kernel/panic_on_oops",
        "vm/overcommit_memory",
        "net/ipv4/ip_forward",
    )
    mounts = [line.split()[4] for line in Path("/proc/self/mountinfo").read_text().splitlines()]
    groups = [
        f"{top}/{name}"
        for top, names, _ in os.walk("/sys/fs/cgroup")
        for name in names
        if "dijob" in name
    ]
    return {
        "processes": programs(others, tokens),
        "interfaces": set(filter(ours, os.listdir("/sys/class/net"))),
        "mounts": set(filter(ours, mounts)),
        "cgroups": set(filter(ours, groups)),
        "rules": [line for line in rules if not line.startswith(("#", ":"))],
        "settings": [Path("/proc/sys", name).read_text() for name in settings],
        "folders": {
            str(path) for top in ("/run", "/var/lib", "/var/log") for path in Path(top).iterdir()
        }
        - {str(state.root())},
        "clusters": [name for name in names if name == NAME],
    }


def programs(others: list[Path], tokens: list[str]) -> set[str]:
    """Return processes of the cluster's programs, except processes of other clusters, which are
    recognized by environment or cgroup.
    """
    kinds = ("cluster-bin", "pause", "containerd", "runc", "kwok")
    marks = [f"DIJOB_CLUSTER_STATE={place}".encode() for place in others]
    found = set()
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            environment, group = (entry / "environ").read_bytes(), (entry / "cgroup").read_text()
            theirs = any(mark in environment for mark in marks) or any(
                token in group for token in tokens
            )
            theirs = theirs or (entry / "cmdline").read_text().split("\0")[0].endswith(
                "kubectl"
            )  # clients of other tests
            if not theirs and Path(os.readlink(entry / "exe")).name.startswith(kinds):
                found.add(f"{entry.name} {(entry / 'cmdline').read_text()[:80]}")
        except OSError:
            continue
    return found
