"""Opens `kubectl dijob ui` for a test's namespace in a headless Chromium."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from archives import ROOT
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, BrowserContext, Page, sync_playwright
from space import Space

# Debian's Chromium, installed by make tools. Playwright's own would be a download of 170 MB.
CHROMIUM = "/usr/bin/chromium"
WIDE, PHONE = (1280, 900), (390, 844)
# The limit of a wait, with two other test files running.
SECONDS = 60.0
GRAVE = {"serious", "critical"}


@dataclass
class Server:
    """The command as a process, with the URL that it has printed."""

    process: subprocess.Popen[str]
    address: str

    @property
    def host(self) -> str:
        """Host name and port of the URL."""
        return urlsplit(self.address).netloc

    def interrupt(self) -> int:
        """Interrupt the process as Ctrl-C does, and return its exit code."""
        self.process.send_signal(signal.SIGINT)
        return self.process.wait(20)


@contextmanager
def served(space: Space, *flags: str) -> Iterator[Server]:
    """Run the command during a test."""
    where = ("-n", space.name, "--kubeconfig", str(space.cluster.kubeconfig), "--no-browser")
    argv = [sys.executable, "-m", "dijob.cli.main", "ui", *where, *flags]
    env = {**os.environ, "PYTHONPATH": str(ROOT / "operator")}
    process = subprocess.Popen(argv, stdout=subprocess.PIPE, text=True, env=env)
    assert process.stdout is not None
    try:
        yield Server(process, process.stdout.readline().strip())
    finally:
        process.kill()
        process.wait(20)
        process.stdout.close()


@contextmanager
def chromium() -> Iterator[Browser]:
    """Yield the browser. As root it has no sandbox; it opens only pages of this machine."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield browser
        browser.close()


@dataclass
class Tab:
    """A tab with its requests and console messages."""

    page: Page
    hosts: set[str] = field(default_factory=set)
    complaints: list[str] = field(default_factory=list)

    @staticmethod
    def of(context: BrowserContext) -> "Tab":
        """Open a new tab."""
        tab = Tab(context.new_page())
        tab.page.set_default_timeout(SECONDS * 1000)
        tab.page.on("request", lambda request: tab.hosts.add(urlsplit(request.url).netloc))
        tab.page.on("pageerror", lambda error: tab.complaints.append(str(error)))
        tab.page.on("console", lambda message: tab.complaints.append(message.text))
        return tab

    def size(self, width_height: tuple[int, int]) -> None:
        """Set the size of the tab in pixels."""
        self.page.set_viewport_size({"width": width_height[0], "height": width_height[1]})

    def grave(self) -> list[str]:
        """Return serious and critical findings of axe with rule and place."""
        found = Axe().run(self.page).response["violations"]
        return [
            f"{one['id']}: {node['target']}: {node['failureSummary']}"
            for one in found
            if one["impact"] in GRAVE
            for node in one["nodes"]
        ]

    def tab_to(self, selector: str, most: int = 60) -> None:
        """Press Tab until the element of a selector has the focus."""
        for _ in range(most):
            self.page.keyboard.press("Tab")
            if self.page.evaluate("s => document.activeElement.matches(s)", selector):
                return
        raise AssertionError(f"{most} times Tab do not lead to {selector}")
