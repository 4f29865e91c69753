"""`make golden`: stores in tests/golden/VERSION the DIJobs and pods that a release has written.

Each later version must read these objects correctly:
tests/unit/compatibility/test_golden_objects.py.
"""

import json
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from archives import ROOT, archive
from cluster import Options, up
from cluster.errors import ClusterError
from everykind import jobs, names
from former import VERSION, unpack
from identity import kill_program, running, until_healed
from jobs import peers, shell
from release import install
from space import MANAGED, Api, Body, Space, opened
from test_tasks import tasks

FOLDER = ROOT / "tests/golden"
KINDS = "pods,services,networkpolicies"
SECONDS = 300
# Intermediate statuses are written every 10 s at most (core/pace.py).
QUIET_SECONDS = 20
VERSIONS = "jsonpath={.items[*].metadata.resourceVersion}"


def main() -> int:
    """Return 0 when all objects are stored."""
    with tempfile.TemporaryDirectory() as place:
        sources = Path(place)
        unpack(sources)
        images = [archive("light"), *(archive(one, sources) for one in ("launcher", "operator"))]
        cluster = up(Options(name="dijob-golden", images=tuple(images)))
        try:
            install(cluster, images[-1], sources=sources)
            with opened(cluster, Api.of(cluster), "golden") as space:
                kept = arranged(space)
                until_quiet(space)
                keep(space, kept, FOLDER / VERSION)
        except ClusterError as error:
            print(f"golden: {error}", file=sys.stderr)
            return 1
        finally:
            cluster.down()
    print(f"{len(kept)} jobs are in {FOLDER / VERSION}")
    return 0


def arranged(space: Space) -> list[str]:
    """Create jobs of several kinds and in several phases. Return their names when all have reached
    their phases.
    """
    kinds = jobs(9)
    before = running(space, replicas=3)
    space.apply(
        *kinds,
        tasks("tasks", "exec light-peer --forever"),
        shell("succeeded", "true"),
        shell("failed", "exit 3", backoffLimit=0),
        peers("suspended", "--forever"),
        peers("charged", "--forever", backoffLimit=3),
        peers("nowhere", pod={"nodeSelector": {"no": "such-node"}}),
        shell("invalid", "true", pod={"volumes": [{"name": "dijob-bin", "emptyDir": {}}]}),
    )
    for name in (*names(kinds), "tasks", "suspended", "charged"):
        space.until_true(name, "Running", SECONDS)
    space.kubectl("delete", "pod", "world-1", "--wait=false")
    until_healed(space, "world", before, {"world-1", "world-2"}, 2)
    kill_program(space, "charged-1")
    until_said(space, "charged", restarts=1)
    space.until_true("charged", "PeersReady", SECONDS)
    space.kubectl("patch", "dijob", "suspended", "--type=merge", "-p", '{"spec":{"suspend":true}}')
    ends = {"succeeded": "Succeeded", "failed": "Failed", "suspended": "Suspended"}
    for name, phase in ends.items():
        until_said(space, name, phase=phase)
    space.until_left("suspended")
    for name in ("nowhere", "invalid"):
        until_said(space, name, phase="Pending")
    return [*names(kinds), "tasks", "world", "charged", *ends, "nowhere", "invalid"]


def until_said(space: Space, job: str, **fields: Any) -> None:
    """Poll until the job's status has these fields."""

    def problem() -> str:
        status = space.status(job)
        found = {field: status.get(field) for field in fields}
        return "" if found == fields else f"{found}"

    space.until(f"{job} has {fields}", problem, SECONDS)


def until_quiet(space: Space) -> None:
    """Poll until no job has been written for a while."""
    last, since = "", time.monotonic()

    def problem() -> str:
        nonlocal last, since
        versions = space.kubectl("get", "dijobs", "-o", VERSIONS)
        if versions != last:
            last, since = versions, time.monotonic()
        return "" if time.monotonic() - since > QUIET_SECONDS else versions

    space.until("no job is written", problem, SECONDS)


def keep(space: Space, jobs: list[str], folder: Path) -> None:
    """Write a file for each job with all of its objects."""
    folder.mkdir(parents=True, exist_ok=True)
    children = json.loads(space.kubectl("get", KINDS, "-l", MANAGED, "-o", "json"))["items"]
    for job in jobs:
        body = space.job(job)
        uid = body["metadata"]["uid"]
        mine = [each for each in children if uid in _owners(each)]
        for each in (body, *mine):
            each["metadata"].pop("managedFields", None)
        text = json.dumps({"dijob": body, "children": mine}, indent=1, sort_keys=True)
        (folder / f"{job}.json").write_text(text + "\n")


def _owners(body: Body) -> set[str]:
    return {owner["uid"] for owner in body["metadata"].get("ownerReferences", ())}


if __name__ == "__main__":
    sys.exit(main())
