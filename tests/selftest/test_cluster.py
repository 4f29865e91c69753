"""The test cluster itself: real nodes whose pods reach each other, and a complete clean-up."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from cluster import EMBEDDED, Cluster, Options, cgroups, find, imagestore, state, teardown, up
from cluster.build import cache
from cluster.images import BUSYBOX, busybox_archive
from cluster.process import marked, recorded
from cluster.waiting import until
from selftest.leftovers import machine, until_as
from selftest.web import NAME, fetch, field, in_pod, server, service, wait_fetch

pytestmark = pytest.mark.e2e


@pytest.fixture(scope="module")
def image() -> Path:
    # Kept, because each new file would get its own image store.
    return busybox_archive(cache() / "test-images")


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with up(Options(NAME, EMBEDDED)) as running:
        yield running


@pytest.fixture(scope="module")
def web(cluster: Cluster, image: Path) -> Cluster:
    """Yield the cluster with a web server on each node, a headless and a normal Service."""
    cluster.load([image])
    objects = [server("web-1", "node-1"), server("web-2", "node-2")]
    objects += [service("web", clusterIP="None"), service("balanced")]
    cluster.run_kubectl("apply", "-f", "-", stdin=yaml.safe_dump_all(objects))
    cluster.run_kubectl(
        "wait", "--for=condition=Ready", "pod", "--all", "--timeout=60s", timeout=70
    )
    return cluster


def test_both_nodes_are_ready_and_a_second_up_changes_nothing(cluster: Cluster) -> None:
    assert cluster.ready_nodes() == {"node-1", "node-2"}
    before = recorded(cluster.state)
    again = up(Options(NAME, EMBEDDED))
    assert again == cluster
    assert recorded(cluster.state) == before


@pytest.mark.parametrize(("pod", "other"), [("web-1", "web-2"), ("web-2", "web-1")])
def test_a_headless_name_resolves_to_the_pod_on_the_other_node(
    web: Cluster, pod: str, other: str
) -> None:
    address = field(web, f"pod {other}", ".status.podIP")
    look = f"busybox nslookup {other}.web.default.svc.cluster.local | tail -n +3"

    def unknown() -> str:
        found = in_pod(web, pod, look)
        return "" if f"Address: {address}" in found else found

    until(f"{pod} finds {other}", unknown, 30)
    wait_fetch(web, pod, address, f"I am {other}")


def test_a_name_that_does_not_exist_fails_at_once(web: Cluster) -> None:
    assert "NXDOMAIN" in in_pod(
        web, "web-1", "busybox nslookup nobody.web.default.svc.cluster.local 2>&1; true"
    )
    assert "NXDOMAIN" in in_pod(web, "web-1", "busybox nslookup example.com 2>&1; true")


def test_a_service_address_reaches_the_pods_of_both_nodes(web: Cluster) -> None:
    address = field(web, "service balanced", ".spec.clusterIP")
    seen: set[str] = set()

    def not_both() -> str:
        seen.add(fetch(web, "web-1", address).rpartition("I am ")[2].strip())
        return "" if {"web-1", "web-2"} <= seen else f"{address} answered as {sorted(seen)}"

    until("answers of both pods", not_both, 30)


def test_a_pod_reaches_the_apiserver_with_its_own_account(web: Cluster) -> None:
    assert field(web, "service kubernetes", ".spec.clusterIP") == "10.96.0.1"
    assert "open" in in_pod(web, "web-2", "busybox nc -w 3 10.96.0.1 443 < /dev/null && echo open")
    assert "I am web-2" in web.run_kubectl(
        "get", "--raw", "/api/v1/namespaces/default/pods/web-2:80/proxy/"
    )


def test_pids_are_those_of_the_container(web: Cluster) -> None:
    pids = web.pids("default", "web-1", "web")
    assert [Path(f"/proc/{pid}/cmdline").read_text().split("\0")[1] for pid in pids] == ["httpd"]
    assert b"HOSTNAME=web-1" in Path(f"/proc/{pids[0]}/environ").read_bytes().split(b"\0")


def test_a_killed_sandbox_gives_the_same_pod_a_new_address(web: Cluster) -> None:
    uid, address = (field(web, "pod web-1", path) for path in (".metadata.uid", ".status.podIP"))
    web.kill_sandbox("default", "web-1")

    def unchanged() -> str:
        now = field(web, "pod web-1", ".status.podIP")
        return "" if now not in ("", address) else f"podIP is {now}"

    until("a new podIP", unchanged, 30)
    assert field(web, "pod web-1", ".metadata.uid") == uid
    wait_fetch(web, "web-2", field(web, "pod web-1", ".status.podIP"), "I am web-1")


def test_a_stopped_node_is_gone_at_once_and_comes_back_with_its_images(web: Cluster) -> None:
    address = field(web, "pod web-2", ".status.podIP")
    web.stop_node("node-2")
    assert not marked(web.state / "node-2")
    group = web.node("node-2").cgroup.strip("/")
    assert [top for top in cgroups.hierarchies() if (top / group).exists()] == []
    assert "I am" not in fetch(web, "web-1", address)
    assert web.problems() == []
    web.start_node("node-2")
    assert BUSYBOX in web.node("node-2").images()

    def not_back() -> str:
        restarts = int(field(web, "pod web-2", ".status.containerStatuses[0].restartCount"))
        ready = field(web, "pod web-2", ".status.containerStatuses[0].ready")
        return "" if restarts >= 1 and ready == "true" else f"restarts {restarts}, ready {ready}"

    until("web-2 restarted", not_back, 60)
    wait_fetch(web, "web-1", field(web, "pod web-2", ".status.podIP"), "I am web-2")


# From here on, each test ends this cluster, or starts its own.


@pytest.fixture
def before(request: pytest.FixtureRequest) -> dict[str, object]:
    if (known := find(NAME)) is not None:
        known.down()
    return machine()


def test_nothing_is_left_after_down_and_no_pod_can_change_the_stored_images(
    before: dict[str, object], image: Path
) -> None:
    with up(Options(NAME, EMBEDDED, images=(image,))) as running:
        objects = [server("web-1", "node-1"), server("web-2", "node-2")]
        running.run_kubectl("apply", "-f", "-", stdin=yaml.safe_dump_all(objects))
        running.run_kubectl(
            "wait", "--for=condition=Ready", "pod", "--all", "--timeout=60s", timeout=70
        )
        in_pod(running, "web-1", "echo changed > /bin/sh")
        assert in_pod(running, "web-1", "busybox cat /bin/sh") == "changed\n"
        assert "changed" not in in_pod(running, "web-2", "busybox head -c 100 /bin/sh")
        store, missing = imagestore.best([image])
        assert store is not None
        assert not missing
        stored = list((store / "root").glob("*overlayfs/snapshots/*/fs/bin/sh"))
        assert [path.read_bytes()[:4] for path in stored] == [b"\x7fELF"]
        assert machine() != before
    until_as(before)


def begin_up(name: str, started: str) -> subprocess.Popen[bytes]:
    """Run `up` as a command, and stop it when the program `started` has started."""
    path = os.pathsep.join(sys.path)
    argv = [sys.executable, "-m", "cluster", "up", "--name", name, "--mode", EMBEDDED]
    command = subprocess.Popen(
        argv, env={**os.environ, "PYTHONPATH": path}, stderr=subprocess.DEVNULL
    )
    place = state.folder(name)

    def not_begun() -> str:
        return "" if started in recorded(place) else f"running: {sorted(recorded(place))}"

    until(f"start of {started}", not_begun, 60, pause=0.01)
    return command


@pytest.mark.parametrize(
    "started", ["network", "kube-apiserver", "node-1-containerd", "node-2-kubelet"]
)
def test_ctrl_c_during_up_leaves_nothing(before: dict[str, object], started: str) -> None:
    with begin_up(NAME, started) as command:
        command.send_signal(signal.SIGINT)
        assert command.wait(200) == 130
    until_as(before)


@pytest.mark.parametrize("started", ["network", "node-1-containerd", "node-2-kubelet"])
def test_down_cleans_up_after_a_killed_up(before: dict[str, object], started: str) -> None:
    with begin_up(NAME, started) as command:
        command.kill()
    teardown.remove(state.folder(NAME))
    until_as(before)


@pytest.mark.parametrize("victim", ["etcd", "node-2-containerd"])
def test_up_replaces_a_cluster_of_which_a_part_was_killed(
    before: dict[str, object], victim: str
) -> None:
    first = up(Options(NAME, EMBEDDED))
    old = field(first, "namespace kube-system", ".metadata.uid")
    first.stop_component(victim)
    assert [text for text in first.problems() if text.startswith(f"{victim} has exited")]
    with up(Options(NAME, EMBEDDED)) as second:
        assert second.problems() == []
        assert field(second, "namespace kube-system", ".metadata.uid") != old
    until_as(before)
