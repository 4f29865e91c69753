"""Checks the requirements of the cluster before anything is started, and installs missing Debian
packages.
"""

import os
import shutil
from pathlib import Path

from cluster.build import cache, target
from cluster.errors import ClusterError
from cluster.shell import Progress, run

# program -> Debian package
PACKAGES = {
    "runc": "runc",
    "iptables": "iptables",
    "ipset": "ipset",
    "conntrack": "conntrack",
    "ip": "iproute2",
    "nsenter": "util-linux",
    "unshare": "util-linux",
    "mount": "mount",
}
CNI = Path("/usr/lib/cni")
GIB = 1 << 30


def check_control_plane() -> None:
    """Check the requirements of a control plane on loopback: disk space, but not root."""
    check_disk(cache(), 6 if not target().exists() else 1)


def check_nodes(state_root: Path, progress: Progress) -> None:
    """Check the requirements of real nodes: root, disk space, a file system that supports
    overlayfs, and Debian packages. Missing packages are installed.
    """
    if os.geteuid() != 0:
        raise ClusterError(
            "real nodes need root, for network namespaces, mounts and cgroups. Run it again with"
            " sudo -E, or use `up --control-plane`, which needs no root and has no real nodes"
        )
    check_disk(cache(), 6 if not target().exists() else 1)
    check_disk(state_root, 6)
    kind = run(["stat", "-f", "-c", "%T", str(_existing(state_root))]).strip()
    if kind.startswith(("overlay", "nfs")):
        raise ClusterError(
            f"{state_root} is on {kind}, which does not support overlayfs for containers: "
            "set DIJOB_CLUSTER_DIR to a folder on ext4 or xfs"
        )
    install_packages(progress)


def check_disk(folder: Path, gib: int) -> None:
    """Raise ClusterError if the folder has less free disk space than this, in GiB."""
    existing = _existing(folder)
    free = shutil.disk_usage(existing).free
    if free < gib * GIB:
        raise ClusterError(
            f"not enough disk space: {existing} has {free / GIB:.1f} GiB free, and {gib} GiB are"
            " needed. Free some, or move the folder with XDG_CACHE_HOME (builds) or"
            " DIJOB_CLUSTER_DIR (the cluster)"
        )


def _existing(folder: Path) -> Path:
    return next(path for path in [folder, *folder.parents] if path.exists())


def missing_packages() -> list[str]:
    """Return the Debian packages whose programs are missing."""
    missing = {
        package for program, package in PACKAGES.items() if not shutil.which(program, path=_path())
    }
    if not (CNI / "ptp").exists():
        missing.add("containernetworking-plugins")
    return sorted(missing)


def _path() -> str:
    return os.environ.get("PATH", "") + ":/usr/sbin:/sbin"


def install_packages(progress: Progress) -> None:
    """Install missing packages with apt-get. On a system without apt, raise ClusterError with their
    names.
    """
    missing = missing_packages()
    if not missing:
        return
    if not shutil.which("apt-get"):
        raise ClusterError(
            f"missing packages (Debian's names): {', '.join(missing)}, and there is no apt-get."
            " Install them (CNI plugins into /usr/lib/cni), or use a Debian 12 machine or"
            " container"
        )
    progress.expected += 30
    progress.say(f"apt-get install {' '.join(missing)}")
    env = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    run(["apt-get", "update", "-q"], env=env, timeout=300)
    run(
        ["apt-get", "install", "-y", "-q", "--no-install-recommends", *missing],
        env=env,
        timeout=600,
    )
    if left := missing_packages():
        raise ClusterError(
            f"apt-get has installed {', '.join(missing)}, but programs of {', '.join(left)} are"
            " not on PATH"
        )
