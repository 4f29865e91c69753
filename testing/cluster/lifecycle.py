"""Brings clusters up: checks, builds, starts, waits. After any error, nothing is left behind."""

import signal
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

from cluster import kind, needs, state, teardown
from cluster.addresses import ONLY_IPV4
from cluster.build import build, chosen
from cluster.cluster import CONTROL_PLANE, EMBEDDED, KIND, Cluster, check_archives, find
from cluster.errors import ClusterError
from cluster.modes import STARTERS, Start
from cluster.shell import Progress
from cluster.waiting import until

LOAD_BYTES_PER_SECOND = 18e6  # on 2 cores, into two running nodes, including the unpacking
UP_SECONDS = {EMBEDDED: 10, CONTROL_PLANE: 6, KIND: 90}


@dataclass(frozen=True)
class Options:
    """The parameters of a cluster. Mode "" means kind if it can be used, else embedded."""

    name: str = "dijob"
    mode: str = ""
    kwok_nodes: int = 10  # in the control-plane mode
    # Archives that every node has at the start; Cluster.load adds more.
    images: tuple[Path, ...] = ()
    # The size of the separate file system for the kubelet of each embedded node. A test can fill it
    # (cluster/disk.py). 0: the kubelet uses the machine's file system.
    disk_mb: int = 0
    quiet: bool = False
    # In the embedded mode: IP families of nodes, pods and Services, the primary one first.
    ip_families: tuple[str, ...] = ONLY_IPV4
    # In the control-plane mode: simulated pods have loopback addresses, so that a process on this
    # machine can simulate their launchers.
    loopback_pods: bool = False
    # Enable the release's optional features (Release.gates).
    features: bool = True
    # In the control-plane mode: CRDs to create before the controllers start. The garbage collector
    # looks for new kinds only every 30 s, so the first deletion would take that long.
    crds: tuple[Path, ...] = ()


def up(options: Options) -> Cluster:
    """Return a healthy cluster with this name: the existing one if healthy, otherwise a new one."""
    mode = options.mode or (KIND if kind.usable() else EMBEDDED)
    if mode == EMBEDDED and "kubelet" not in chosen().programs:
        raise ClusterError(
            f"Kubernetes {chosen().minor} has only simulated nodes: use mode {CONTROL_PLANE}"
        )
    check_archives(options.images)
    progress = Progress(UP_SECONDS[mode], options.quiet)
    place = state.folder(options.name)
    with state.exclusive(place):
        if (known := find(options.name)) and (alive := _still_good(known, mode, options, progress)):
            _load(alive, options.images, progress)
            return alive
        if teardown.leftovers(place):
            progress.say(f"{options.name}: removing the files of an earlier run")
            teardown.remove(place)
        _check(mode, place, progress)
        binaries, release = build(progress), chosen()
        with _undone_on_failure(place, mode, options.name):
            place.mkdir(parents=True)
            cluster = STARTERS[mode](
                Start(
                    options.name,
                    place,
                    binaries,
                    options.kwok_nodes,
                    options.images,
                    options.disk_mb,
                    options.ip_families,
                    options.loopback_pods,
                    gates=release.gates if options.features else (),
                    apis=release.apis if options.features else (),
                    crds=options.crds,
                ),
                progress,
            )
    progress.say(f"{options.name} is up; KUBECONFIG={cluster.kubeconfig}")
    return cluster


def _still_good(known: Cluster, mode: str, options: Options, progress: Progress) -> Cluster | None:
    has = known.endpoint.ip_families
    if known.mode != mode:
        problems = [f"it is in mode {known.mode}"]
    elif mode == EMBEDDED and has != options.ip_families:
        problems = [f"it has {' and '.join(has)}"]
    else:
        problems = known.problems()
    if problems:
        progress.say(f"{known.name} is broken: {problems[0].splitlines()[0]}")
        return None
    for node in sorted(known.stopped()):
        progress.say(f"{known.name}: starting {node}, which was stopped")
        known.start_node(node)
    if known.nodes:
        until("Ready nodes", lambda: " ".join(sorted(set(known.nodes) - known.ready_nodes())), 60)
    progress.say(f"{known.name} is already up and healthy; KUBECONFIG={known.kubeconfig}")
    return known


def _load(cluster: Cluster, archives: Sequence[Path], progress: Progress) -> None:
    """Load the archives that the nodes do not have yet, one after the other."""
    new = cluster.not_loaded(archives)
    progress.expected += sum(archive.stat().st_size for archive in new) / LOAD_BYTES_PER_SECOND
    for archive in new:
        progress.say(
            f"importing {archive.name} ({archive.stat().st_size / 1e6:.0f} MB) into every node"
        )
        cluster.load([archive])


def _check(mode: str, place: Path, progress: Progress) -> None:
    if mode == EMBEDDED:
        needs.check_nodes(place.parent, progress)
    elif mode == CONTROL_PLANE:
        needs.check_control_plane()
    elif not kind.usable():
        raise ClusterError(
            "mode kind needs kind and docker on PATH, and a working Docker engine (`docker info`)"
        )


@contextmanager
def _undone_on_failure(place: Path, mode: str, name: str) -> Iterator[None]:
    """Remove everything after an error, Ctrl-C or SIGTERM."""

    def interrupted(number: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    in_main = threading.current_thread() is threading.main_thread()
    before = signal.signal(signal.SIGTERM, interrupted) if in_main else None
    try:
        yield
    except BaseException:
        if mode == KIND:
            kind.down(name)
        teardown.remove(place)
        raise
    finally:
        if before is not None:
            signal.signal(signal.SIGTERM, before)
