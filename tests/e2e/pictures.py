"""`make screenshots`: the pictures in docs/tools.md, taken with real pods in a separate cluster.
With PAGES=FOLDER, every page is also stored there for inspection, in two sizes, light and dark.

DI-engine's DQN (examples/cartpole-tasks.yaml) trains on four pods. One of them is deleted, and the
picture is taken during the recovery. The other jobs in the list are small, and each shows one
state.
"""

import base64
import itertools
import sys
import tempfile
from pathlib import Path
from typing import Final, Literal

from archives import ROOT, archive
from browser import Tab, chromium, served
from cluster import Options, up
from cluster.errors import ClusterError
from identity import kill_program
from jobs import peers, shell
from playwright.sync_api import Browser, expect
from release import install
from space import HOME, Api, Space
from volumes import claimed, volume

FOLDER: Final = ROOT / "docs/pictures"
IMAGES: Final = ("light", "ditask", "launcher", "operator")
NAMESPACE: Final = "research"
SECONDS: Final = 900.0
MOST_BYTES: Final = 250_000
NAME: Final = "cartpole-tasks"
HISTORY: Final = ("history.enabled=true", "history.sqlite.existingClaim=records")
# The return and the iteration at which the policy is well trained. The job's target is higher than
# any return.
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
        cluster.run_kubectl("create", "namespace", NAMESPACE)
        cluster.run_kubectl("create", "namespace", HOME)
        api = Api.of(cluster)
        space, home = Space(cluster, api, NAMESPACE), Space(cluster, api, HOME)
        with (
            tempfile.TemporaryDirectory() as place,
            tempfile.TemporaryDirectory() as records,
            volume(space, "cartpole", Path(place)),
            claimed(home, "records", Path(records)),
        ):
            install(cluster, images[-1], *HISTORY)
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
    with served(space) as server, chromium() as browser:
        healing(space, browser, server.address)
        phone(browser, server.address)
        if len(sys.argv) > 1:
            every_page(space, browser, server.address, Path(sys.argv[1]))


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


# Jobs by what they show.
SHOWN: Final = {"running": "star", "failed": "typo", "pending": "wide", "succeeded": "evaluate"}
SIZES: Final = {"wide": (1440, 900), "phone": (390, 844)}
SCHEMES: Final[tuple[Literal["light", "dark"], ...]] = ("light", "dark")


def every_page(space: Space, browser: Browser, address: str, folder: Path) -> None:
    """Store a picture of each page in each size and color scheme."""
    folder.mkdir(parents=True, exist_ok=True)
    for (size, pixels), scheme in itertools.product(SIZES.items(), SCHEMES):
        tab = Tab.of(browser.new_context(color_scheme=scheme))
        tab.page.set_default_timeout(SECONDS * 1000)
        tab.size(pixels)
        tab.page.goto(address)
        expect(tab.page.locator(".jobs tbody tr")).to_have_count(5)
        start = tab.page.url

        def store(page: str, tab: Tab = tab, name: str = f"{size}-{scheme}") -> None:
            file = folder / f"{page}-{name}.png"
            tab.page.screenshot(path=file, full_page=True, animations="disabled")
            print(file)

        store("list")
        for page, job in SHOWN.items():
            tab.page.goto(start)
            tab.page.get_by_role("link", name=job, exact=True).click()
            expect(tab.page.locator(".lines, .job .sentence").first).to_be_visible()
            # The first lines of the log, if there is one.
            tab.page.wait_for_timeout(3000)
            store(page)
        tab.page.goto(start)
        tab.page.get_by_role("link", name="History", exact=True).click()
        past = tab.page.get_by_role("link", name=SHOWN["failed"], exact=True)
        expect(past).to_be_visible()
        store("history")
        past.click()
        expect(tab.page.locator("main")).to_contain_text("dingo")
        store("history-of-a-job")
        tab.page.goto(start)
        tab.page.get_by_role("link", name=NAME).click()
        expect(tab.page.locator(".node.ready")).to_have_count(4)
        store("training")
        space.kubectl("delete", "pod", f"{NAME}-collector-0", "--wait=false", "--grace-period=1")
        tab.page.wait_for_function(HEALS)
        store("recovering")
        expect(tab.page.locator(".node.ready")).to_have_count(4)
        tab.page.context.close()


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
