"""`make screenshots`: the pictures of docs/tools.md, taken with real pods in a separate cluster.

DI-engine's DQN (examples/cartpole-tasks.yaml) trains on four pods. One of them is deleted, and the
picture is taken during the recovery. The other jobs in the list are small, and each shows one
state.
"""

import base64
import json
import re
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from archives import ROOT, archive
from browser import Tab, chromium, served
from cluster import Options, up
from cluster.errors import ClusterError
from identity import kill_program
from jobs import peers, shell
from playwright.sync_api import Browser, expect
from release import install
from space import Api, Space
from volumes import volume

FOLDER: Final = ROOT / "docs/pictures"
IMAGES: Final = ("light", "ditask", "launcher", "operator")
NAMESPACE: Final = "research"
SECONDS: Final = 900.0
MOST_BYTES: Final = 250_000
NAME: Final = "cartpole-tasks"
EVALUATOR: Final = f"{NAME}-evaluator-0"
EVALUATION: Final = re.compile(
    r"Train Iter\((\d+)\)\s+Env Step\((\d+)\)\s+Episode Return\(([0-9.]+)\)"
)
# Return and iteration at which the policy is well trained. No return reaches this job's target.
ENOUGH, TARGET = [100, 1500], 'value: "501"'
LEARNED: Final = """(least) => {
  const now = [...document.querySelectorAll(".curve strong")].map((one) => Number(one.textContent));
  return now.length === 3 && now[0] >= least[0] && now[1] >= least[1];
}"""
WEBP: Final = """async (png) => {
  const picture = new Image();
  picture.src = `data:image/png;base64,${png}`;
  await picture.decode();
  const canvas = document.createElement("canvas");
  [canvas.width, canvas.height] = [picture.width, picture.height];
  canvas.getContext("2d").drawImage(picture, 0, 0);
  return canvas.toDataURL("image/webp", 0.92);
}"""
# Rank 2 has not been replaced yet, and rank 3, which dials it, has not restarted yet.
HEALS: Final = """() => {
  const kind = (rank) => document.querySelector(`.node[data-rank="${rank}"]`)?.dataset.kind;
  return ["failed", "waiting"].includes(kind(2)) && kind(3) === "renewing";
}"""


def main() -> int:
    """Return 0 when both pictures are taken."""
    images = [archive(one) for one in IMAGES]
    cluster = up(Options(name="dijob-pictures", images=tuple(images)))
    try:
        install(cluster, images[-1])
        cluster.run_kubectl("create", "namespace", NAMESPACE)
        space = Space(cluster, Api.of(cluster), NAMESPACE)
        with tempfile.TemporaryDirectory() as place, volume(space, "cartpole", Path(place)):
            taken(space)
    except ClusterError as error:
        print(f"pictures: {error}", file=sys.stderr)
        return 1
    finally:
        cluster.down()
    return 0


def taken(space: Space) -> None:
    """Take the pictures."""
    expect.set_options(timeout=SECONDS * 1000)
    arranged(space)
    with reported(space), served(space) as server, chromium() as browser:
        healing(space, browser, server.address)
        phone(browser, server.address)


def arranged(space: Space) -> None:
    """Start jobs in several states."""
    space.apply(
        shell("evaluate", "echo done", replicas=2),
        shell("typo", "echo \"No module named 'dingo'\"; exit 1", backoffLimit=0, replicas=2),
    )
    space.until_true("evaluate", "Succeeded", SECONDS)
    space.until_true("typo", "Failed", SECONDS)
    space.apply(
        peers("wide", replicas=8, pod={"nodeSelector": {"gpu": "h100"}}),
        peers("star", "--forever", replicas=3, topology="star"),
    )
    examples = [ROOT / "examples/volume.yaml", ROOT / f"examples/{NAME}.yaml"]
    text = "\n---\n".join(file.read_text() for file in examples)
    space.kubectl("apply", "-f", "-", stdin=text.replace('value: "195"', TARGET))
    space.until_true(NAME, "Running", SECONDS)


@contextmanager
def reported(space: Space) -> Iterator[None]:
    """Write the evaluator's results to the job's progress at once. (The HTTP server writes them
    once a minute.)
    """
    over = threading.Event()

    def report() -> None:
        told = 0
        while not over.wait(0.5):
            found = EVALUATION.findall(space.logs(EVALUATOR))
            for iteration, step, value in found[told:]:
                report_one(space, int(iteration), int(step), float(value))
            told = len(found)

    thread = threading.Thread(target=report)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def report_one(space: Space, iteration: int, step: int, value: float) -> None:
    """Write one line of the evaluator's log to `status.progress`."""
    line = f"iter {iteration}, step {step}, return {value:g}"
    progress: dict[str, Any] = {"line": line, "iteration": iteration, "envStep": step}
    progress |= {"episodeReturn": value, "time": f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%S.%fZ}"}
    patch = json.dumps({"status": {"progress": progress}})
    what = ("dijob", NAME, "--subresource=status", "--type=merge")
    space.kubectl("patch", *what, "-p", patch)


def healing(space: Space, browser: Browser, address: str) -> None:
    """Show a job's page during the recovery of a lost rank."""
    tab = Tab.of(browser.new_context(color_scheme="light"))
    tab.page.set_default_timeout(SECONDS * 1000)
    tab.size((1360, 1500))
    tab.page.goto(address)
    tab.page.get_by_role("link", name=NAME).click()
    kill_program(space, f"{NAME}-collector-1")
    tab.page.wait_for_function(LEARNED, arg=ENOUGH)
    expect(tab.page.locator(".node.ready")).to_have_count(4)
    tab.page.goto(f"{tab.page.url}/log/1")
    tab.page.evaluate("scrollTo(0, 0)")
    space.kubectl("delete", "pod", f"{NAME}-collector-0", "--wait=false", "--grace-period=1")
    tab.page.wait_for_function(HEALS)
    save(tab, "ui-job.webp")


def phone(browser: Browser, address: str) -> None:
    """Show the list on a phone in dark mode."""
    context = browser.new_context(color_scheme="dark", device_scale_factor=2)
    tab = Tab.of(context)
    tab.size((390, 760))
    tab.page.goto(address)
    expect(tab.page.locator(".jobs tbody tr")).to_have_count(5)
    save(tab, "ui-phone.webp")


def save(tab: Tab, name: str) -> None:
    """Save the page as WebP, which is half as large as PNG and is encoded by the browser."""
    seen = base64.b64encode(tab.page.screenshot(animations="disabled")).decode()
    blank = tab.page.context.new_page()
    made = base64.b64decode(blank.evaluate(WEBP, seen).partition(",")[2])
    blank.close()
    assert len(made) <= MOST_BYTES, f"{name} has {len(made)} bytes"
    (FOLDER / name).write_bytes(made)
    print(f"docs/pictures/{name}: {len(made) // 1000} kB")


if __name__ == "__main__":
    sys.exit(main())
