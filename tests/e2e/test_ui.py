"""`kubectl dijob ui` in a real browser with real pods: a job from Pending to Succeeded without a
reload, a killed rank, the keyboard, a phone, dark mode.
"""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal

import pytest
from browser import PHONE, SECONDS, WIDE, Tab, chromium, served
from identity import kill_program
from jobs import shell
from playwright.sync_api import Browser, Page, Route, expect
from space import Space

pytestmark = pytest.mark.e2e

PAUSED = "diengine.opendilab.org/paused"
# Its ranks keep their connections and print until a file appears.
WALK = """
light-peer --forever >/dev/null &
peer=$! step=0
while [ ! -e /tmp/go ]; do echo step $((step += 1)); sleep 0.3; done
kill $peer
echo arrived
"""
CRASH_TITLE = "RuntimeError: no reward;"
CRASH = f"""x.py:1: UserWarning: old
Traceback (most recent call last):
  File "main.py", line 7, in train
    learn()
{CRASH_TITLE}
  keys: obs"""
# Records the changes in a tab in order, including short ones.
WATCH = """
window.seen = [];
new MutationObserver(() => {
  const badge = document.querySelector(".job .badge");
  const kinds = [...document.querySelectorAll(".graph .node")].map((node) => node.dataset.kind);
  for (const now of [badge && badge.dataset.phase, kinds[1] && `rank 1 ${kinds[1]}`])
    if (now && !window.seen.includes(now)) window.seen.push(now);
}).observe(document.body, {subtree: true, childList: true, attributes: true});
"""
SCHEMES: tuple[Literal["light", "dark"], ...] = ("dark", "light")
SEEN = "some => some.some((one) => window.seen.includes(one))"


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    expect.set_options(timeout=SECONDS * 1000)
    with chromium() as browser:
        yield browser


def test_the_page_shows_a_job_from_pending_to_succeeded_with_a_killed_rank(
    space: Space, browser: Browser
) -> None:
    with served(space, "--measure") as server, browser.new_context() as context:
        tab = Tab.of(context)
        page = tab.page
        tab.size(WIDE)
        page.goto(server.address)
        page.evaluate(WATCH)
        expect(page.locator("main")).to_contain_text(f"No jobs in namespace {space.name}")
        assert "token" not in page.url
        appears(space, tab)
        runs(space, tab)
        heals(space, tab)
        assert not (grave := graves(tab)), "\n".join(grave)
        ends(space, tab)
        assert tab.hosts == {server.host}
        assert tab.complaints == []

        space.kubectl("delete", "dijob", "walk")
        expect(page.locator(".job .sentence")).to_contain_text("There is no DIJob walk")
        assert server.interrupt() == 130
        expect(page.locator("#trouble")).to_contain_text("kubectl dijob ui does not respond")


def appears(space: Space, tab: Tab) -> None:
    """A job appears in the list without a reload, and can be opened with the keyboard."""
    page, walk = tab.page, shell("walk", WALK, replicas=3)
    walk["metadata"]["annotations"] = {PAUSED: "true"}
    space.apply(walk)
    expect(page.locator(".jobs .badge")).to_have_attribute("data-phase", "Pending")
    assert not (grave := graves(tab)), "\n".join(grave)
    tab.tab_to(".jobs .name a")
    page.keyboard.press("Enter")
    expect(page.locator("h1")).to_have_text("walk")
    expect(page.locator("h1")).to_be_focused()
    expect(page.locator(".job .badge")).to_have_attribute("data-phase", "Pending")


def runs(space: Space, tab: Tab) -> None:
    """The job starts, and the log of a rank can be opened with the keyboard."""
    page = tab.page
    space.kubectl("annotate", "dijob", "walk", f"{PAUSED}-")
    expect(page.locator(".job .badge")).to_have_attribute("data-phase", "Running")
    expect(page.locator(".node.ready")).to_have_count(3)
    expect(page.locator(".edge.up")).to_have_count(3)
    expect(page.locator("#said")).to_contain_text("walk is Running")
    expect(page.locator("#log-title")).to_have_text("Log of rank 0")
    searches(tab)
    tab.tab_to('[aria-label="Log of rank 1"]')
    page.keyboard.press("Enter")
    expect(page.locator("#log-title")).to_be_focused()
    expect(page.locator(".lines")).to_contain_text("step 3")


def searches(tab: Tab) -> None:
    """The log can be searched and saved, and the other tabs are accessible."""
    page = tab.page
    expect(page.locator(".lines")).to_contain_text("step 12")
    page.get_by_label("Search in the log").fill("STEP 12")
    expect(page.locator("[data-hit]").first).to_be_attached()
    page.get_by_label("Search in the log").press("Enter")
    expect(page.locator("[data-now] mark")).to_have_text("step 12")
    with page.expect_download() as download:
        page.get_by_role("button", name="Download").click()
    assert download.value.suggested_filename == "walk-0.log"
    assert "Z step 12\n" in download.value.path().read_text()
    page.get_by_label("Search in the log").fill("")
    page.get_by_role("tab", name="Ranks").focus()
    for shown in ("Created", "AllRanksReady", "light:dev", "kubectl dijob doctor", "replicas:"):
        page.keyboard.press("ArrowRight")
        expect(page.get_by_role("tabpanel")).to_contain_text(shown)
        assert not (grave := tab.grave()), "\n".join(grave)
    page.keyboard.press("Home")


def heals(space: Space, tab: Tab) -> None:
    """A killed rank is restarted, its log continues, and its reports are a curve."""
    page = tab.page
    kill_program(space, "walk-1")
    page.wait_for_function(SEEN, arg=["rank 1 failed"])
    expect(page.locator(".node.ready")).to_have_count(3)
    expect(page.locator("tr[data-key='1'] .restarts")).to_have_text("1")
    # Measured in the pod, because the test cluster has no metrics API.
    expect(page.locator("tr[data-key='0'] .use")).to_contain_text("memory ")
    expect(page.locator(".lines").get_by_text("step 1", exact=True)).to_have_count(2)
    for number in (1, 2):
        report(space, number)
        expect(page.locator(".curve strong").first).to_have_text(f"{48.75 * number}")
    expect(page.locator(".curve .stroke")).to_have_count(2)


def ends(space: Space, tab: Tab) -> None:
    """The job succeeds on the same page."""
    page = tab.page
    for pod in space.names("walk"):
        space.touch(pod, "/tmp/go")
    expect(page.locator(".job .badge")).to_have_attribute("data-phase", "Succeeded")
    expect(page.locator(".lines")).to_contain_text("arrived")
    expect(page.locator(".node.done")).to_have_count(3)
    seen = page.evaluate("window.seen")
    phases = [word for word in seen if " " not in word and word != "Starting"]
    assert phases == ["Pending", "Running", "Succeeded"], seen


def graves(tab: Tab) -> list[str]:
    """Return accessibility findings, including those on a phone."""
    found = []
    for scheme in SCHEMES:
        tab.page.emulate_media(color_scheme=scheme)
        for size in (PHONE, WIDE):
            tab.size(size)
            beyond = tab.page.evaluate("document.documentElement.scrollWidth - innerWidth")
            said = [*tab.grave(), *([f"{beyond} px beyond the right edge"] if beyond > 0 else [])]
            found += [f"{scheme}, {size[0]} px: {one}" for one in said]
    return found


def report(space: Space, number: int) -> None:
    """Write a progress report, as the HTTP server does."""
    progress = {"line": f"iter {number}", "iteration": number, "episodeReturn": 48.75 * number}
    progress |= {"time": f"2026-11-25T12:00:0{number}Z"}
    patch = json.dumps({"status": {"progress": progress}})
    space.kubectl("patch", "dijob", "walk", "--subresource=status", "--type=merge", "-p", patch)


def test_a_failed_job_shows_its_exception_first_and_the_list_is_searchable(
    space: Space, browser: Browser
) -> None:
    crash = f"cat <<'END' >&2\n{CRASH}\nEND\nexit 3"
    space.apply(shell("broken", crash, replicas=2, backoffLimit=0), shell("other", "true"))
    space.until_true("broken", "Failed")
    with served(space) as server, browser.new_context() as context:
        tab = Tab.of(context)
        page = tab.page
        with loading(page):
            page.goto(server.address)
            page.get_by_label("Search jobs").fill("/bin/bash true")
            expect(page.locator(".lead").first).to_have_text("Loading.")
        expect(page.locator(".jobs tbody tr")).to_have_count(1)
        expect(page.locator(".jobs .name a")).to_have_text("other")
        page.get_by_label("Search jobs").fill("no reward")
        expect(page.locator(".jobs tbody tr")).to_have_count(1)
        assert not (grave := graves(tab)), "\n".join(grave)
        page.get_by_role("link", name="broken").click()
        rank = space.status("broken")["firstFailure"]["rank"]
        expect(page.locator(".failure h2")).to_have_text(f"Rank {rank} exited 3: {CRASH_TITLE}")
        assert page.locator(".exception").inner_text() == f"{CRASH_TITLE}\n  keys: obs"
        expect(page.locator(".failure")).to_contain_text("Warnings of libraries")
        expect(page.locator("#log-title")).to_have_text(f"Log of rank {rank}")
        expect(page.locator(".lines")).to_contain_text("keys: obs")
        expect(page.locator(f"tr[data-key='{rank}'] .state")).to_have_text("Exit code 3 (Error)")
        assert not (grave := graves(tab)), "\n".join(grave)
        with loading(page):
            page.evaluate("location.hash = '#/-history'")
            page.get_by_label("Search the history").fill("no reward")
            expect(page.locator(".lead")).to_have_text("Loading.")
        expect(page.locator(".lead")).to_contain_text("history")
        assert tab.complaints == []


@contextmanager
def loading(page: Page) -> Iterator[None]:
    """Delay the data of the page during the block."""
    delayed: list[Route] = []
    page.route("**/api/**", lambda route: delayed.append(route))
    yield
    for route in delayed:
        route.continue_()
    page.unroute("**/api/**")


def test_without_the_key_nothing_is_shown_and_a_lost_rank_names_the_ranks_that_restart(
    space: Space, browser: Browser
) -> None:
    space.apply(shell("walk", WALK, replicas=3))
    space.until_true("walk", "PeersReady")
    with served(space) as server, browser.new_context() as context:
        stranger = Tab.of(context).page
        stranger.goto(f"http://{server.host}/#/{space.name}/walk")
        expect(stranger.locator("#trouble")).to_contain_text("open the URL")
        expect(stranger.locator(".node")).to_have_count(0)

        page = Tab.of(context).page
        page.goto(server.address)
        page.goto(f"http://{server.host}/#/{space.name}/walk")
        expect(page.locator(".node.ready")).to_have_count(3)
        page.evaluate(WATCH)
        page.locator(".node[data-rank='1']").click()
        expect(page.locator(".caption")).to_contain_text("rank 2 restarts with it")
        space.kubectl("delete", "pod", "walk-1", "--wait=false")
        page.wait_for_function(SEEN, arg=["rank 1 renewing", "rank 1 failed"])
        expect(page.locator(".figures")).to_contain_text("Peer list renewals1")
        expect(page.get_by_title("The addresses of all ranks")).to_have_text("Peer list")
        expect(page.locator(".node.ready")).to_have_count(3)
        expect(page.locator(".story")).to_contain_text("ranks 1-2 restart")
        expect(page.locator(".story")).to_contain_text("Peer list revision 2")
        expect(page.locator(".share")).to_contain_text("lost rank 1 at")
        expect(page.locator(".rank-bar")).to_have_count(3)
        expect(page.locator("rect.lost[height='12']")).to_have_count(3)  # ranks 1, 2; the legend
