"""`make schedulers`: jobs with the engines Volcano and Coscheduling and the real schedulers, on a
real control plane with simulated nodes (docs/queues.md).

The schedulers are built from checkouts of their sources outside of this repository, which also
contain their CRDs. Each of them runs as a second scheduler. The script prints one line per step. It
ends with code 1 if a step fails.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import yaml
from apiserver import pool
from apiserver.plane import Plane, operator
from apiserver.pool import clear, lose, placed, room_for_four, succeed, suspend
from cluster import Cluster
from cluster.build import cache, find_go
from cluster.shell import Progress, run, until_established
from planes import control_plane

BUILD_SECONDS: Final = 3600
# How long a job without room is observed. Both schedulers try again at least every 10 s.
OBSERVED_SECONDS: Final = 20.0
# The longest wait for a step. The scheduler of Coscheduling backs off for up to 10 s.
STEP_SECONDS: Final = 90.0


@dataclass(frozen=True, eq=False)
class Scheduler:
    """A scheduler to test. `crds` is the folder of its CRDs in the checkout, and `group` its API
    group. `programs` are the packages of its programs, and functions that return their arguments,
    given the checkout, a kubeconfig, and a folder for a configuration.
    """

    engine: str
    option: str
    crds: str
    group: str
    programs: Mapping[str, Callable[[Path, Path, Path], list[str]]]

    @property
    def kind(self) -> str:
        """The engine's kind, as kubectl names it."""
        return f"podgroups.{self.group}"


def volcano(source: Path, kubeconfig: Path, _folder: Path) -> list[str]:
    """Return the arguments of Volcano's scheduler, with the configuration of its chart. It creates
    the queue `default` itself.
    """
    config = source / "installer/helm/chart/volcano/config/volcano-scheduler.conf"
    quiet = ("--leader-elect=false", "--listen-address=127.0.0.1:0", "--cache-dumper=false")
    return [f"--kubeconfig={kubeconfig}", f"--scheduler-conf={config}", *quiet, "--logtostderr"]


def volcano_controllers(_source: Path, kubeconfig: Path, _folder: Path) -> list[str]:
    """Return the arguments of Volcano's controllers. The scheduler gives no nodes to the jobs of a
    queue before the queue's controller has opened it.
    """
    own = "--controllers=queue-controller,pg-controller"
    return [f"--kubeconfig={kubeconfig}", own, "--leader-elect=false", "--logtostderr"]


def coscheduling(_source: Path, kubeconfig: Path, folder: Path) -> list[str]:
    """Return the arguments of scheduler-plugins, with the plugin Coscheduling as its README
    configures it.
    """
    config = folder / "config.yaml"
    name = "Coscheduling"
    plugins = {
        "multiPoint": {"enabled": [{"name": name}]},
        "queueSort": {"enabled": [{"name": name}], "disabled": [{"name": "*"}]},
    }
    profile = {
        "schedulerName": "scheduler-plugins-scheduler",
        "plugins": plugins,
        "pluginConfig": [{"name": name, "args": {"permitWaitingTimeSeconds": 10}}],
    }
    body = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "leaderElection": {"leaderElect": False},
        "clientConnection": {"kubeconfig": str(kubeconfig)},
        "profiles": [profile],
    }
    config.write_text(yaml.safe_dump(body))
    return [f"--config={config}", "--secure-port=0"]


SCHEDULERS: Final = (
    Scheduler(
        "Volcano",
        "volcano",
        "config/crd/volcano/bases",
        "scheduling.volcano.sh",
        {"scheduler": volcano, "controller-manager": volcano_controllers},
    ),
    Scheduler(
        "Coscheduling",
        "scheduler-plugins",
        "manifests/crds",
        "scheduling.x-k8s.io",
        {"scheduler": coscheduling},
    ),
)


def build(scheduler: Scheduler, package: str, source: Path) -> Path:
    """Return a program of the scheduler, which is built if this version of the source has none."""
    version = version_of(source)
    program = cache() / "schedulers" / f"{scheduler.option}-{version}" / package
    if not program.exists():
        say(
            scheduler,
            f"building {package} {version}, which takes 10 to 20 minutes with an empty Go cache",
        )
        program.parent.mkdir(parents=True, exist_ok=True)
        env = {"GOFLAGS": "-buildvcs=false", **os.environ}
        argv = [find_go(Progress(BUILD_SECONDS)), "-C", str(source), "build"]
        run([*argv, "-o", str(program), f"./cmd/{package}"], env=env, timeout=BUILD_SECONDS)
    return program


def version_of(source: Path) -> str:
    """Return the version of a checkout."""
    return run(["git", "-C", str(source), "describe", "--tags", "--always", "--dirty"]).strip()


@contextmanager
def running(scheduler: Scheduler, source: Path, cluster: Cluster, folder: Path) -> Iterator[Path]:
    """Install the CRDs, run the scheduler, and yield the log of its programs."""
    crds = source / scheduler.crds
    cluster.run_kubectl("apply", "--server-side", "-f", str(crds))
    until_established(cluster.run_kubectl, scheduler.kind)
    log = folder / f"{scheduler.option}.log"
    with log.open("wb") as out:
        processes = [
            subprocess.Popen(
                [str(build(scheduler, package, source)), *argv(source, cluster.kubeconfig, folder)],
                stdout=out,
                stderr=out,
            )
            for package, argv in scheduler.programs.items()
        ]
        try:
            yield log
        finally:
            for process in processes:
                process.kill()
                process.wait()


def say(scheduler: Scheduler, text: str) -> None:
    """Print a line of the result."""
    print(f"{scheduler.engine}: {text}", flush=True)


def play(scheduler: Scheduler, plane: Plane) -> None:
    """Run the scenario. An AssertionError says which step has failed."""
    begun = time.monotonic()

    def done(text: str) -> None:
        say(scheduler, f"{text} ({time.monotonic() - begun:.0f} s)")

    first, second = (f"{scheduler.option}-{number}" for number in (1, 2))
    try:
        plane.apply(pool.gang(first, scheduler.engine))
        plane.until_condition(first, "Running", "True", "all 3 ranks", seconds=STEP_SECONDS)
        done("ok: of two jobs of 3 ranks with room for 4, the first runs")
        plane.apply(pool.gang(second, scheduler.engine))
        plane.until_condition(second, "GangScheduled", "False", "NoRoom", seconds=STEP_SECONDS)
        observe_no_node(plane, second)
        message = plane.condition(second, "GangScheduled")["message"]
        done(f"ok: the second holds no node for {OBSERVED_SECONDS:.0f} s: {message}")
        succeed(plane, *sorted(placed(plane, first)))
        plane.until_condition(second, "Running", "True", "all 3 ranks", seconds=STEP_SECONDS)
        done("ok: it runs after the first has succeeded")
        succeed(plane, f"{second}-2")
        plane.until_condition(second, "Running", "True", "rank 2 has finished")
        lose(plane, f"{second}-1", STEP_SECONDS)
        plane.until_condition(second, "PeersReady", "True", seconds=STEP_SECONDS)
        count = sizes(scheduler, plane, second)[second]
        done(f"ok: a rank that is lost after another has succeeded runs again (minMember {count})")
        suspend(plane, second, "true")
        plane.until_condition(second, "GangScheduled", "False", "Suspended")
        plane.until("no PodGroup", lambda: not sizes(scheduler, plane, second), lambda: ())
        suspend(plane, second, "false")
        plane.until_condition(second, "GangScheduled", "True", "Placed", seconds=STEP_SECONDS)
        plane.until_condition(second, "Running", "True", seconds=STEP_SECONDS)
        ((name, count),) = sizes(scheduler, plane, second).items()
        done(f"ok: suspended and resumed, with the new PodGroup {name} (minMember {count})")
    finally:
        clear(plane, first, second)


def observe_no_node(plane: Plane, name: str) -> None:
    """Check for a while that no pod of the job gets a node."""
    until = time.monotonic() + OBSERVED_SECONDS
    while time.monotonic() < until:
        found = placed(plane, name)
        assert not found, f"{sorted(found)} have nodes"
        time.sleep(0.5)


def sizes(scheduler: Scheduler, plane: Plane, name: str) -> dict[str, int]:
    """Return the names of a job's PodGroups, with their sizes."""
    selector = f"diengine.opendilab.org/job={name}"
    columns = "-o=custom-columns=N:.metadata.name,M:.spec.minMember"
    text = plane.kubectl("get", scheduler.kind, "-l", selector, "--no-headers", columns)
    rows = (line.split() for line in text.splitlines() if not line.startswith("No resources"))
    return {name: int(count) for name, count in rows}


def main() -> int:
    """Play the scenario with each scheduler whose source is given."""
    parser = argparse.ArgumentParser(description=__doc__)
    for scheduler in SCHEDULERS:
        parser.add_argument(f"--{scheduler.option}", type=Path, help="checkout of its source")
    given = vars(parser.parse_args())
    sources = {one: given[one.option.replace("-", "_")] for one in SCHEDULERS}
    chosen = {one: source.resolve() for one, source in sources.items() if source}
    for one, source in chosen.items():
        for package in one.programs:
            build(one, package, source)
    failed = False
    with tempfile.TemporaryDirectory() as name, control_plane("schedulers", nodes=1) as cluster:
        folder = Path(name)
        for one, source in chosen.items():
            log = folder / f"operator-{one.option}.log"
            with (
                running(one, source, cluster, folder) as own,
                operator(cluster.kubeconfig, log),
                room_for_four(Plane(cluster, log)) as plane,
            ):
                say(one, f"version {version_of(source)}")
                try:
                    play(one, plane)
                except AssertionError as error:
                    failed = True
                    say(one, f"FAILED: {error}\n{own.read_text()[-3000:]}")
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
