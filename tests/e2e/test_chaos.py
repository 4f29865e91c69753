"""Random faults, several at once, on three running jobs: a short form of `make chaos`."""

import time
from pathlib import Path

import pytest
from diary import kept
from faults.real_pods import leftovers, plan, shapes, story
from faults.real_pods.kinds import KINDS, Level
from faults.real_pods.observer import Observer
from faults.real_pods.plan import Field
from faults.real_pods.run import Run
from faults.real_pods.scene import Scene
from faults.real_pods.table import Result, markdown, rows
from leading import Leader
from space import Space

pytestmark = pytest.mark.e2e

# Faults that no other test here injects, or not into running jobs.
MINE = (
    "pod deleted without grace",
    "launcher killed",
    "shim killed",
    "network of a pod cut",
    "kubelet stopped",
    "containerd killed",
    "leader killed",
)
PER_WAVE = {Level.POD: 4, Level.NODE: 2, Level.OPERATOR: 1}


def test_jobs_are_whole_after_faults_of_every_kind_at_once(space: Space, tmp_path: Path) -> None:
    seed = time.time_ns() % 10**6
    pods = tuple(pod for shape in shapes.LIGHT for pod in shape.targets)
    kinds = tuple(KINDS[name] for name in MINE)
    faults = next(plan.waves(seed, Field(pods, space.cluster.nodes, kinds, PER_WAVE)))
    assert {fault.kind for fault in faults} == set(MINE)
    scene = Scene(space, Leader(space.api), shapes.LIGHT)
    with kept(space, "pods") as diary:
        told = story.Story(tmp_path / "story.jsonl")
        told.tell(story.BEGIN, seed=seed)
        observer = Observer(scene, told.began)
        run = Run(scene, told, observer, diary, Result(seed, 0.0))
        with observer.watching():
            run.start()
            run.wave(1, faults)
        run.finish(leftovers.alive)
    shown = f"seed {seed}\n{markdown(rows(run.result))}"
    assert sum(kind.done for kind in run.result.kinds.values()) > len(MINE) / 2, shown
    assert [name for name, kind in run.result.kinds.items() if kind.never] == [], shown
    assert {n: each.wrong for n, each in run.result.checks.items() if each.wrong} == {}, shown
