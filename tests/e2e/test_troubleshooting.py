"""docs/troubleshooting.md: real jobs report each text that the page shows."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from archives import ROOT
from jobs import LIGHT, REQUESTS, Body, job, mounted, peers, shell
from space import Space

PAGE = ROOT / "docs/troubleshooting.md"
FOREVER = "trap 'exit 0' TERM; sleep infinity & wait"


def rows(page: Path) -> dict[str, list[str]]:
    """Return the texts in the page's tables by the heading above them. "…" replaces parts that
    differ between jobs.
    """
    sections = re.split(r"(?m)^## ", page.read_text())[1:]
    found = {
        section.split("\n", 1)[0]: re.findall(r"(?m)^\| `([^`]+)` \|", section)
        for section in sections
    }
    return {heading: texts for heading, texts in found.items() if texts}


def crash(name: str, command: str, **spec: Any) -> Body:
    return job(name, {"command": ["python3", "-c", command]}, **spec)


def finishing(name: str) -> Body:
    """Return a job whose rank 2 exits at once, and whose other ranks never exit."""
    return shell(name, f'if [ "$DI_RANK" = 2 ]; then exit 0; fi; {FOREVER}', replicas=3)


def deaf(name: str) -> Body:
    """Return a job whose program ignores SIGTERM, so that its pods take 20 s to end."""
    return shell(name, "trap '' TERM; sleep 60 & wait; wait", pod={GRACE: 20})


def foreign(name: str) -> Body:
    """Return a pod of another owner with the name of a rank's pod."""
    main = {"name": "theirs", "image": LIGHT, "command": ["sleep", "600"], **REQUESTS}
    pod = {"containers": [{**main, "imagePullPolicy": "IfNotPresent"}], GRACE: 0}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": pod}


HANGING = "import dijob_runtime, time; dijob_runtime.report(iteration=7); time.sleep(600)"
GRACE = "terminationGracePeriodSeconds"
HOST = {"hostNetwork": True}  # at most one rank per node, of which there are two
CODE = mounted("absent", "/code")
# The jobs of each section. Each name is used only once.
JOBS: dict[str, list[Body]] = {
    "The job does not start": [
        job("pull", {"image": "127.0.0.1:9/absent:1", "command": ["true"]}),
        peers("nodes", pod={"nodeSelector": {"gpu": "h100"}}),
        job("mount", {"command": ["true"], **CODE[0]}, pod=CODE[1]),
        peers("account", pod={"serviceAccountName": "trainer"}),
        peers("late", startupDeadlineSeconds=5, pod={"nodeSelector": {"gpu": "h100"}}),
        peers("held", suspend=True),
        shell("wrong", "ditask --parallel-workers 2", parallelWorkers=3),
        peers("full", replicas=3, scheduleTimeoutSeconds=5, pod=HOST),
        peers("claims", pod={"resourceClaims": [{"name": "gpu", "resourceClaimName": "absent"}]}),
        peers("ghost", pod={"nodeName": "absent"}),
        foreign("taken-1"),
        peers("taken"),
        deaf("again"),
    ],
    "The job fails": [
        crash("module", "import mymod", replicas=1, backoffLimit=2),
        crash("killed", "import os; os.kill(os.getpid(), 9)", replicas=1, backoffLimit=0),
        shell("slow", FOREVER, replicas=1, activeDeadlineSeconds=2),
    ],
    "The job runs": [
        finishing("part"),
        shell("alone", "true || ditask --package p --main p.main", launcher="Off"),
        peers("heals", "--forever", replicas=3),
        crash("stands", HANGING, replicas=1, stallSeconds=10),
    ],
}


def texts(space: Space, names: list[str]) -> list[str]:
    """Return the messages of the conditions and events of these jobs."""
    said = [c["message"] for name in names for c in space.status(name).get("conditions", ())]
    printed = space.kubectl(
        "get", "events", "-o", r'jsonpath={range .items[*]}{.involvedObject.name} {.message}{"\n"}'
    )
    events = (line.partition(" ") for line in printed.splitlines())
    return [*said, *(message for name, _, message in events if name in names)]


def is_said(row: str, said: list[str]) -> bool:
    pattern = ".*".join(map(re.escape, row.split("…")))
    return any(re.fullmatch(pattern, text, re.DOTALL) for text in said)


def unsaid(space: Space, heading: str, seen: set[str]) -> str:
    """Return the rows of a section that no job has reported yet. `seen` collects all others."""
    said = texts(space, [each["metadata"]["name"] for each in JOBS[heading]])
    seen.update(row for row in rows(PAGE)[heading] if is_said(row, said))
    left = [row for row in rows(PAGE)[heading] if row not in seen]
    return "" if not left else "\n".join(["not said:", *left, "said:", *sorted(set(said))])


def lose_a_rank(space: Space) -> None:
    """Delete a pod as soon as the job is running."""
    space.until_true("heals", "Running", 60)
    space.kubectl("delete", "pod", "heals-1", "--wait=false")


def apply_again(space: Space) -> None:
    """Recreate the job while its old pods are ending."""
    space.until_true("again", "Running", 60)
    space.kubectl("delete", "dijob", "again", "--wait=false")
    space.apply(deaf("again"))


AFTER: dict[str, tuple[Callable[[Space], None], ...]] = {
    "The job does not start": (apply_again,),
    "The job runs": (lose_a_rank,),
}


def test_every_section_has_its_jobs() -> None:
    assert rows(PAGE).keys() == JOBS.keys()


@pytest.mark.parametrize("heading", JOBS)
def test_each_text_of_the_page_is_reported_by_a_real_job(space: Space, heading: str) -> None:
    space.apply(*JOBS[heading])
    for act in AFTER.get(heading, ()):
        act(space)
    seen: set[str] = set()
    space.until("each row of the page", lambda: unsaid(space, heading, seen), 300)
