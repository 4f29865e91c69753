"""`make chaos`: python -m faults.real_pods --seed N --minutes M, or --replay FILE."""

import argparse
import json
import os
import random
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from archives import archive
from cluster import EMBEDDED, Cluster, Options, up
from diary import kept
from leading import Leader
from release import install
from space import Api, opened

from faults.real_pods import plan, shapes, story
from faults.real_pods.observer import Observer
from faults.real_pods.plan import Fault, Field
from faults.real_pods.run import Run
from faults.real_pods.scene import Scene
from faults.real_pods.table import Result, markdown, rows

# A separate cluster, because the faults would disturb any other test.
NAME = "dijob-chaos"
IMAGES = ("light", "ditask", "launcher", "operator")
# A small disk, so that a fault can fill it quickly.
DISK_MB = 256
FOLDER = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "dijob/chaos"


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make chaos")
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(10**6))
    parser.add_argument("--minutes", type=float, default=10.0, help="minutes with new waves")
    parser.add_argument("--replay", type=Path, help="a story to repeat")
    parser.add_argument(
        "--story", type=Path, help=f"file for the story (default: {FOLDER}/SEED-TIME.jsonl)"
    )
    parser.add_argument("--json", type=Path, help="add the figures to this file")
    return parser.parse_args()


def drawn(options: argparse.Namespace, cluster: Cluster) -> tuple[int, Iterator[tuple[Fault, ...]]]:
    """Return the seed and the waves.

    With --replay, both are read from a story. Otherwise the waves are drawn from the seed.
    """
    if options.replay:
        lines = options.replay.read_text().splitlines()
        return story.seed_of(lines), iter(story.replayed(lines))
    pods = tuple(pod for shape in shapes.ALL for pod in shape.targets)
    return options.seed, plan.waves(options.seed, Field(pods, cluster.nodes))


def acted(cluster: Cluster, options: argparse.Namespace) -> Result:
    """Run all waves, and return the result."""
    api = Api.of(cluster)
    seed, waves = drawn(options, cluster)
    path = options.story or FOLDER / f"{seed}-{int(time.time())}.jsonl"
    path.parent.mkdir(parents=True, exist_ok=True)
    with opened(cluster, api, "chaos") as space, kept(space, "pods") as diary:
        told = story.Story(path)
        told.tell(story.BEGIN, seed=seed, minutes=options.minutes, file=str(path))
        scene = Scene(space, Leader(api), shapes.ALL)
        observer = Observer(scene, told.began)
        run = Run(scene, told, observer, diary, Result(seed, options.minutes))
        with observer.watching():
            run.start()
            begin = time.monotonic()
            for number, faults in enumerate(waves, 1):
                # A replay runs all waves of its story.
                if not options.replay and time.monotonic() - begin > options.minutes * 60:
                    break
                run.wave(number, faults)
        # The jobs are deleted only after the observer has ended, because their deletion is not a
        # fault.
        run.finish()
        told.tell(story.END, result=run.result.as_json())
    return run.result


def add(path: Path, result: Result) -> None:
    """Add the figures of a run to a file. They replace the figures of an earlier run with the same
    seed.
    """
    runs = json.loads(path.read_text())["runs"] if path.exists() else []
    # A run replaces an earlier run with the same seed, so that no seed is counted twice.
    runs = [run for run in runs if run["seed"] != result.seed] + [result.as_json()]
    path.write_text(json.dumps({"runs": runs}, indent=1) + "\n")


def main() -> int:
    """Return 0 if every row is within its bound. SIGTERM is handled like Ctrl-C, so that the
    cluster is removed.
    """
    options = arguments()
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    archives = tuple(archive(image) for image in IMAGES)
    made = Options(NAME, EMBEDDED, images=archives, disk_mb=DISK_MB)
    with up(made) as cluster:
        install(cluster, archives[-1], "replicas=2")
        result = acted(cluster, options)
    found = list(rows(result))
    print(markdown(found))
    for name, check in result.checks.items():
        for text in check.wrong:
            print(f"wrong: {name}: {text}")
    if options.json:
        add(options.json, result)
    return int(not all(row.good for row in found))


if __name__ == "__main__":
    sys.exit(main())
