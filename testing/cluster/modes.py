"""Starts clusters: one function per mode starts the components, and waits until they are ready."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import yaml

from cluster import disk, go_program, imagestore, kind, kwok_nodes, kwok_stages, state
from cluster.addresses import IPV4, MACHINE, ONLY_IPV4, SWITCH, families
from cluster.cluster import CONTROL_PLANE, EMBEDDED, KIND, Cluster
from cluster.controlplane import MANIFESTS, ControlPlane, Endpoint, loopback
from cluster.errors import ClusterError
from cluster.namespace import enter, free_network, give_addresses, hold_network, plug
from cluster.node import Node
from cluster.pki import Pki
from cluster.process import log_tail, recorded, spawn
from cluster.shell import Progress, run, until_established
from cluster.waiting import until

WORKERS = ("node-1", "node-2")
NODE_SECONDS = 60
IMPORT_BYTES_PER_SECOND = 40e6  # on 2 cores, including the unpacking


@dataclass(frozen=True)
class Start:
    """The parameters of a new cluster. `place` exists and is empty."""

    name: str
    place: Path
    binaries: Path
    kwok_nodes: int
    images: tuple[Path, ...]
    disk_mb: int
    ip_families: tuple[str, ...] = ONLY_IPV4
    loopback_pods: bool = False
    gates: tuple[str, ...] = ()
    apis: tuple[str, ...] = ()
    crds: tuple[Path, ...] = ()

    def plane(self, endpoint: Endpoint, inside: tuple[str, ...] = ()) -> ControlPlane:
        """Return the control plane. The command `inside` enters its namespaces."""
        return ControlPlane(
            self.place, self.binaries, endpoint, inside, gates=self.gates, apis=self.apis
        )


def start_control_plane(start: Start, progress: Progress) -> Cluster:
    """Start a control plane on loopback, with nodes simulated by kwok."""
    names = tuple(f"kwok-{n}" for n in range(start.kwok_nodes))
    kwok = go_program.kwok(progress) if names else None
    endpoint = loopback()
    cluster = Cluster(start.name, CONTROL_PLANE, start.place, start.binaries, names, endpoint)
    cluster.save()
    plane = start.plane(endpoint)
    plane.pki.create(endpoint.url, [endpoint.address, IPV4.apiserver], ())
    plane.start()
    progress.say(f"starting etcd and kube-apiserver on {endpoint.url}")
    plane.wait_ready()
    for file in start.crds:
        plane.kubectl("create", "-f", str(file))
        until_established(plane.kubectl, yaml.safe_load(file.read_text())["metadata"]["name"])
    plane.start_controllers()
    if kwok:
        (start.place / "kwok.yaml").write_text(kwok_stages.config(start.loopback_pods))
        plane.kubectl("create", "-f", "-", stdin=kwok_nodes.nodes(names))
        spawn(
            start.place,
            "kwok",
            [
                str(kwok),
                f"--config={start.place / 'kwok.yaml'}",
                f"--kubeconfig={cluster.kubeconfig}",
            ],
        )
    _wait_whole(cluster, plane, progress)
    return cluster


def start_embedded(start: Start, progress: Progress) -> Cluster:
    """Start a control plane, a switch and two real nodes, each in its own namespaces."""
    number = free_network(int(state.token(start.place)[:2], 16))
    address = families(start.ip_families)[0].host(number, SWITCH)
    endpoint = Endpoint(address, 6443, 2379, 2380, False, start.ip_families, number)
    cluster = Cluster(start.name, EMBEDDED, start.place, start.binaries, WORKERS, endpoint)
    cluster.save()
    disk.give(start.place, start.disk_mb)
    services = (family.apiserver for family in endpoint.families)
    Pki(start.place / "pki").create(
        endpoint.url, ["127.0.0.1", *services, *endpoint.hosts(SWITCH)], WORKERS
    )
    switch = hold_network(start.place, start.binaries)
    give_addresses(switch, "br0", endpoint, SWITCH)
    plug(switch, None, ("machine", state.interface(start.place)), endpoint, MACHINE)
    plane = start.plane(endpoint, enter(switch, mount=False))
    plane.start()
    progress.say(f"starting etcd and kube-apiserver on {endpoint.url}")
    nodes = [Node(plane, number) for number in range(1, len(WORKERS) + 1)]
    for node in nodes:
        node.connect(len(nodes))
    _start_containerds(nodes, start.images, progress)
    plane.wait_ready()
    plane.start_controllers()
    _start_dns(plane)
    for node in nodes:
        node.start_kubelet()
    _wait_whole(cluster, plane, progress)
    until("CoreDNS", lambda: _dns_not_ready(plane), 30)
    cluster.note_loaded(start.images)
    return cluster


def _start_containerds(nodes: Sequence[Node], archives: Sequence[Path], progress: Progress) -> None:
    """Start containerd on every node, with the images loaded."""
    with imagestore.exclusive():
        _fill_nodes(nodes, archives, progress)
    for node in nodes:
        node.start_containerd()
    progress.say(f"containerd is running on {' and '.join(node.name for node in nodes)}")


def _fill_nodes(nodes: Sequence[Node], archives: Sequence[Path], progress: Progress) -> None:
    """Link the images from a store. Images that no store has are imported only once, on the first
    node.
    """
    first = nodes[0]
    store, missing = imagestore.best(archives)
    if missing:
        if store:
            imagestore.link(store, first.images_root)
        first.start_containerd()
        for archive in missing:
            progress.expected += archive.stat().st_size / IMPORT_BYTES_PER_SECOND
            progress.say(f"importing {archive.name}; later starts reuse it")
            first.load(archive)
        first.stop_containerd()
        store = imagestore.save(first.images_root, archives)
        nodes = nodes[1:]
    if store:
        for node in nodes:
            imagestore.link(store, node.images_root)
        progress.say(f"{len(archives)} image archives linked from {store}")


def _start_dns(plane: ControlPlane) -> None:
    """Start CoreDNS in the control plane's namespace, so that names can still be resolved when a
    node is lost.
    """
    address, family = plane.endpoint.address, plane.endpoint.families[0]
    made = (MANIFESTS / "dns.yaml").read_text().replace("CONTROL_PLANE_IP", address)
    made = made.replace("SERVICE_IP", family.dns).replace("IP_FAMILY", family.name)
    plane.kubectl("create", "-f", "-", stdin=made)
    corefile = (MANIFESTS / "Corefile").read_text().replace("CONTROL_PLANE_IP", address)
    path = plane.state / "Corefile"
    path.write_text(corefile.replace("KUBECONFIG", str(plane.pki["coredns.kubeconfig"])))
    spawn(
        plane.state, "coredns", [*plane.enter, str(plane.binaries / "coredns"), "-conf", str(path)]
    )


def _dns_not_ready(plane: ControlPlane) -> str:
    if not recorded(plane.state)["coredns"].alive:
        return log_tail(plane.state, "coredns")
    ask = (
        "exec 3<>/dev/tcp/127.0.0.1/8181; printf 'GET /ready HTTP/1.0\\r\\n\\r\\n' >&3; grep -q"
        " '200 OK' <&3"
    )
    try:
        run([*plane.enter, "bash", "-c", ask], timeout=5)
    except ClusterError as no:
        return str(no)
    return ""


def _wait_whole(cluster: Cluster, plane: ControlPlane, progress: Progress) -> None:
    seen: set[str] = set()

    def not_whole() -> str:
        known = recorded(cluster.state)
        if dead := [name for name, process in known.items() if not process.alive]:
            raise ClusterError(f"{dead[0]} has exited: {log_tail(cluster.state, dead[0])}")
        ready = cluster.ready_nodes()
        for node in sorted(ready - seen) if cluster.mode == EMBEDDED else ():
            progress.say(f"{node} is Ready")
        seen.update(ready)
        return (
            f"not Ready: {' '.join(sorted(set(cluster.nodes) - ready))}"
            if set(cluster.nodes) - ready
            else ""
        )

    until("all nodes Ready", not_whole, NODE_SECONDS)
    plane.wait_default_account()


def start_kind(start: Start, progress: Progress) -> Cluster:
    """Start a kind cluster, with kubectl and helm from this project's build."""
    endpoint = Endpoint("127.0.0.1", 0, 0, 0, local=True)
    cluster = Cluster(start.name, KIND, start.place, start.binaries, (), endpoint)
    cluster.kubeconfig.parent.mkdir()
    progress.say("kind create cluster")
    names = kind.up(start.name, cluster.kubeconfig)
    cluster = Cluster(start.name, KIND, start.place, start.binaries, names, endpoint)
    cluster.save()
    kind.load(start.name, start.images)
    return cluster


STARTERS = {EMBEDDED: start_embedded, CONTROL_PLANE: start_control_plane, KIND: start_kind}
