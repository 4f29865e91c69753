"""Attacks on the page in the cluster, on a real API server: users see what they may read, no more.

The processes of the page have exactly the permissions that the chart grants.
"""

import http.client
import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import yaml
from apiserver.plane import Body, Plane, job
from browser import PHONE, WIDE, Tab, chromium
from chart.lab import CHART
from chart.test_chart_operator import kubeconfig
from cluster.waiting import until
from playwright.sync_api import expect
from ports import free_port
from running import running_module

pytestmark = pytest.mark.apiserver

HOME, ONE, TWO = "page-home", "page-one", "page-two"
PAGE = f"system:serviceaccount:{HOME}:dijob-ui"
SECRET = "the-secret-of-the-proxy"
SECONDS = 100
RBAC = "rbac.authorization.k8s.io"
DIJOBS = {"apiGroups": ["diengine.opendilab.org"], "resources": ["dijobs"]}
LISTS = [{**DIJOBS, "verbs": ["list", "watch"]}]
READS = [
    {**DIJOBS, "verbs": ["get", "list", "watch"]},
    {"apiGroups": [""], "resources": ["pods", "events"], "verbs": ["list", "watch"]},
    {"apiGroups": [""], "resources": ["pods/log"], "verbs": ["get"]},
]
# The users: their rules in one namespace, or in the whole cluster (""). Each is a service account
# with a token, and a user and a member of a group for the proxy.
USERS: dict[str, tuple[str, list[Body]]] = {
    "reader": (ONE, READS),
    "lister": (ONE, LISTS),
    "stranger": (ONE, []),
    "chief": ("", READS),
}
# A group that may read everything, and that the chart's values do not allow.
LOST_GROUP, TEAM = "page-chiefs", "page-team"


def grants(name: str, namespace: str, rules: list[Body]) -> Iterator[Body]:
    """Yield the role of a user and its binding."""
    kind = "Role" if namespace else "ClusterRole"
    meta = {"name": f"page-{name}", **({"namespace": namespace} if namespace else {})}
    groups = {"reader": TEAM, "chief": LOST_GROUP}
    subjects: list[Body] = [
        {"kind": "ServiceAccount", "name": name, "namespace": ONE},
        {"apiGroup": RBAC, "kind": "User", "name": f"page-{name}"},
    ]
    if group := groups.get(name):
        subjects.append({"apiGroup": RBAC, "kind": "Group", "name": group})
    api = f"{RBAC}/v1"
    yield {"apiVersion": api, "kind": kind, "metadata": meta, "rules": rules}
    ref = {"apiGroup": RBAC, "kind": kind, "name": f"page-{name}"}
    body = {"apiVersion": api, "kind": f"{kind}Binding", "metadata": meta}
    yield {**body, "roleRef": ref, "subjects": subjects}


@dataclass
class Answer:
    """A response: its status, and its text or the events of its stream up to the wanted one."""

    status: int
    text: str = ""
    events: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Page:
    """A running process of the page."""

    port: int

    def ask(
        self,
        path: str,
        given: list[tuple[str, str]],
        *wanted: str,
        host: str = "",
        enough: Callable[[dict[str, Any]], bool] = lambda events: True,
    ) -> Answer:
        """Send a request with exactly these headers, and read its stream up to an event, or further
        until the newest events are enough.
        """
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=SECONDS)
        try:
            connection.putrequest("GET", path, skip_host=True, skip_accept_encoding=True)
            for name, value in [("Host", host or f"127.0.0.1:{self.port}"), *given]:
                connection.putheader(name, value)
            connection.endheaders()
            response = connection.getresponse()
            if "event-stream" not in response.getheader("Content-Type", ""):
                return Answer(response.status, response.read().decode())
            answer, end = Answer(response.status), time.monotonic() + SECONDS
            while not (set(wanted) & answer.events.keys() and enough(answer.events)):
                assert time.monotonic() < end, f"{path}: only {answer.events}"
                kind = response.readline().decode()
                if kind.startswith("event: "):
                    data = json.loads(response.readline().decode().removeprefix("data: "))
                    # The page sends an empty problem at first.
                    if data != {"sentence": ""}:
                        answer.events[kind.removeprefix("event: ").strip()] = data
            return answer
        finally:
            connection.close()


@contextmanager
def served(log: Path, *flags: str) -> Iterator[Page]:
    """Run the page as a process."""
    port = free_port()
    told = (f"--port={port}", *flags, "--health-port=0")
    with running_module("dijob_extras.ui.cluster", log, *told):
        until("the page responds", lambda: _silent(port, log), SECONDS)
        yield Page(port)


def _silent(port: int, log: Path) -> str:
    try:
        return "" if Page(port).ask("/", []).status == 200 else "no page"
    except OSError as error:
        return f"{error}\n{log.read_text()}"


@dataclass(frozen=True)
class World:
    """The cluster, the page in both modes, and the tokens of the users."""

    plane: Plane
    token: Page
    proxy: Page
    tokens: dict[str, str] = field(repr=False)
    known: dict[tuple[str, ...], bool] = field(default_factory=dict)

    def may(self, user: str, namespace: str, *what: str) -> bool:
        """Return what `kubectl auth can-i` says. Both modes of the page are compared with it."""
        if (key := (user, namespace, *what)) not in self.known:
            where = ("-n", namespace) if namespace else ("-A",)
            account = f"system:serviceaccount:{ONE}:{user}"
            said = self.plane.ask("auth", "can-i", *what, *where, "--as", account)
            assert said.text.splitlines()[-1] in ("yes", "no"), said.text
            self.known[key] = said.ok
        return self.known[key]

    def bearer(self, user: str) -> list[tuple[str, str]]:
        return [("Authorization", f"Bearer {self.tokens[user]}")]


def proxied(user: str, groups: str = "", secret: str = SECRET) -> list[tuple[str, str]]:
    """Return the headers of the proxy."""
    given = [("X-Dijob-Proxy-Secret", secret), ("X-Forwarded-User", user)]
    return [*given, *([("X-Forwarded-Groups", groups)] if groups else [])]


@pytest.fixture(scope="module")
def world(plane: Plane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    folder, lab = tmp_path_factory.mktemp("page"), plane.lab
    proxied_values = {"secretName": "x", "groups": [TEAM]}
    values = {"enabled": True, "auth": "proxy", "proxy": proxied_values}
    text = lab.helm(
        *("template", "dijob", str(CHART), "-n", HOME, "-s", "templates/ui.yaml"),
        f"--set-json=ui={json.dumps(values)}",
    )
    rights = [
        one for one in yaml.safe_load_all(text) if one["kind"] not in ("Deployment", "Service")
    ]
    spaces = [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
        for name in (HOME, ONE, TWO)
    ]
    accounts = [
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name, "namespace": ONE}}
        for name in USERS
    ]
    jobs = [job("job", service="Auto") for _ in range(2)]
    for body, namespace in zip(jobs, (ONE, TWO), strict=True):
        body["metadata"]["namespace"] = namespace
    roles = [one for name, (where, rules) in USERS.items() for one in grants(name, where, rules)]
    plane.apply(*spaces, *rights, *accounts, *roles, *jobs)
    try:
        for namespace in (ONE, TWO):
            where = ("dijob/job", "-n", namespace, "--for=condition=Running", "--timeout=60s")
            lab.kubectl("wait", *where)
        tokens = {name: lab.kubectl("create", "token", name, "-n", ONE) for name in USERS}
        tokens["page"] = lab.kubectl("create", "token", "dijob-ui", "-n", HOME)
        (folder / "secret").write_text(f"{SECRET}\n")
        config = kubeconfig(lab, folder, "dijob-ui", HOME)
        proxy = (
            "--auth=proxy",
            f"--proxy-secret-file={folder / 'secret'}",
            f"--proxy-group={TEAM}",
        )
        with (
            served(folder / "token.log", f"--kubeconfig={config}") as by_token,
            served(folder / "proxy.log", f"--kubeconfig={config}", *proxy) as by_proxy,
        ):
            yield World(plane, by_token, by_proxy, tokens)
    finally:
        names = [f"namespace/{name}" for name in (HOME, ONE, TWO)]
        lab.kubectl("delete", *names, "--wait=false")
        wide = ("clusterrole/{0}", "clusterrolebinding/{0}")
        gone = [one.format(name) for name in ("page-chief", "dijob-ui-impersonate") for one in wide]
        lab.kubectl("delete", *gone)


# What each request reads, as arguments of `kubectl auth can-i`, and how a shown response looks.
LIST = (("list", "dijobs"),)
LOG = (("get", "dijobs"), ("list", "pods"), ("get", "pods", "--subresource=log"))
REQUESTS = {
    "/api/jobs": ("", LIST),
    f"/api/jobs/{ONE}": (ONE, LIST),
    f"/api/jobs/{TWO}": (TWO, LIST),
    "/api/totals": ("", LIST),
    f"/api/jobs/{ONE}/job": (ONE, LIST),
    f"/api/jobs/{TWO}/job": (TWO, LIST),
    f"/api/jobs/{ONE}/job/text/0": (ONE, LOG),
    f"/api/jobs/{TWO}/job/text/0": (TWO, LOG),
}
SHOWN = ("jobs", "totals", "job", "lines")


def shown(answer: Answer) -> bool:
    """Return whether a response contains data of the cluster.

    Simulated nodes have no logs, so a log is shown if the API server tried to get it.
    """
    said = [answer.text, *(str(one) for one in answer.events.values())]
    if any("forbidden" in one or "cannot" in one for one in said) and "job" not in answer.events:
        return False
    return bool(set(SHOWN) & answer.events.keys()) or answer.status in (200, 502)


@pytest.mark.parametrize("mode", ["token", "proxy"])
@pytest.mark.parametrize("user", USERS)
def test_a_user_sees_exactly_what_kubectl_auth_can_i_allows(
    world: World, user: str, mode: str
) -> None:
    page = world.token if mode == "token" else world.proxy
    given = world.bearer(user) if mode == "token" else proxied(f"page-{user}")
    found, allowed = {}, {}
    for path, (namespace, rights) in REQUESTS.items():
        allowed[path] = all(world.may(user, namespace, *one) for one in rights)
        found[path] = shown(page.ask(path, given, *SHOWN, "trouble", "end", "gone"))
    assert found == allowed
    assert any(allowed.values()) == (user != "stranger")


@pytest.mark.parametrize("user", ["reader", "lister"])
def test_the_page_of_a_job_has_only_the_objects_that_the_user_may_read(
    world: World, user: str
) -> None:
    denied = [one for one in ("pods", "events") if not world.may(user, ONE, "list", one)]

    def complete(events: dict[str, Any]) -> bool:
        # The page shows the job before it has the API server's responses about pods and events.
        told = events["job"]
        seen = any(rank["pod"] for rank in told["ranks"])
        return len(told["unseen"]) >= len(denied) and (seen or "pods" in denied)

    path = f"/api/jobs/{ONE}/job"
    answer = world.token.ask(path, world.bearer(user), "job", enough=complete)
    assert "kind: DIJob" in answer.events["spec"]["yaml"]
    told = answer.events["job"]
    assert [any(f'"{one}"' in text for text in told["unseen"]) for one in denied] == [True] * len(
        denied
    )
    pods = [rank["pod"] for rank in told["ranks"] if rank["pod"]]
    assert bool(pods) == (user == "reader")


@pytest.mark.parametrize("user", ["reader", "lister", "stranger"])
def test_a_followed_log_of_another_namespace_is_denied(world: World, user: str) -> None:
    answer = world.token.ask(f"/api/jobs/{TWO}/job/log/0", world.bearer(user), "end", "lines")
    assert "forbidden" in answer.events["end"]["sentence"]


def test_totals_are_for_users_who_may_list_all_jobs(world: World) -> None:
    answer = world.token.ask("/api/totals", world.bearer("chief"), "totals")
    rows = {row["namespace"]: row for row in answer.events["totals"]["rows"]}
    assert {ONE, TWO} <= rows.keys()
    assert rows[ONE]["jobs"] == rows[ONE]["active"] == 1


FORGED = [
    pytest.param([("Impersonate-User", "page-chief")], id="impersonation"),
    pytest.param([("Impersonate-Group", "system:masters")], id="impersonation of a group"),
    pytest.param(proxied("page-chief"), id="the headers of a proxy"),
    pytest.param([("X-Remote-User", "page-chief")], id="the headers of a front proxy"),
    pytest.param([("Cookie", "session=page-chief")], id="a cookie"),
]


@pytest.mark.parametrize("forged", FORGED)
def test_forged_headers_give_a_token_no_more_permissions(
    world: World, forged: list[tuple[str, str]]
) -> None:
    # The administrator's stream is open in the same process.
    assert world.token.ask("/api/jobs", world.bearer("chief"), "jobs").status == 200
    for path in ("/api/jobs", "/api/totals", f"/api/jobs/{TWO}"):
        answer = world.token.ask(path, [*world.bearer("reader"), *forged])
        assert (answer.status, "forbidden" in answer.text) == (403, True), path
        assert world.token.ask(path, forged).status == 401


@pytest.mark.parametrize(
    ("given", "status"),
    [
        pytest.param([("X-Forwarded-User", "page-chief")], 401, id="no secret"),
        pytest.param(proxied("page-chief", secret=SECRET[:-1]), 401, id="a wrong secret"),
        pytest.param([("Authorization", "Bearer {reader}"), ("X-Forwarded-User", "page-chief")],
                     401, id="a token instead of the secret"),
        pytest.param(proxied("system:admin"), 403, id="a reserved user"),
        pytest.param(proxied(PAGE), 403, id="a service account"),
        pytest.param(proxied("page-reader", "system:masters"), 403, id="a reserved group"),
        pytest.param(proxied("page-reader", LOST_GROUP), 403, id="a group that is not allowed"),
        pytest.param(proxied("page-reader", TEAM), 403, id="an allowed group without the right"),
        pytest.param([*proxied("page-reader"), ("X-Forwarded-User", "page-chief")], 400,
                     id="two users"),
        pytest.param([*proxied("page-reader"), ("Impersonate-User", "page-chief")], 403,
                     id="impersonation by the client"),
        pytest.param(proxied("page-reader\tpage-chief"), 403, id="a control character"),
    ],
)  # fmt: skip
def test_forged_headers_do_not_name_another_user(
    world: World, given: list[tuple[str, str]], status: int
) -> None:
    filled = [(name, value.format(**world.tokens)) for name, value in given]
    for path in ("/api/jobs", f"/api/jobs/{TWO}"):
        assert world.proxy.ask(path, filled).status == status


def test_an_allowed_group_gives_its_permissions(world: World) -> None:
    path = f"/api/jobs/{ONE}"
    assert world.proxy.ask(path, proxied("page-stranger")).status == 403
    assert world.proxy.ask(path, proxied("page-stranger", TEAM), "jobs").status == 200


@pytest.mark.parametrize(
    "path",
    [
        pytest.param(f"/api/jobs/{ONE}/../{TWO}/job", id="two points"),
        pytest.param(f"/api/jobs/{ONE}/..%2f{TWO}%2fjob", id="an encoded slash"),
        pytest.param(f"/api/jobs/{ONE}/%2e%2e/{TWO}/job", id="encoded points"),
        pytest.param(f"//api/jobs/{TWO}/job", id="two slashes"),
        pytest.param(f"/api/jobs/{ONE}/job/log/../../../{TWO}/job", id="points after a log"),
        pytest.param(f"/api/jobs/{ONE}?namespace={TWO}", id="a query"),
        pytest.param("/api/jobs/kube-system/..;/secrets", id="a matrix parameter"),
        pytest.param(f"http://evil.test/api/jobs/{TWO}", id="an absolute address"),
        pytest.param("/../../operator/dijob/names.py", id="a file"),
    ],
)
def test_no_path_leads_to_another_namespace(world: World, path: str) -> None:
    given = world.bearer("reader")
    answer = world.token.ask(path, given, "jobs", "job", "trouble", "gone")
    # Either there is no such path, or the API server denies it, or it is the user's own namespace.
    jobs = answer.events.get("jobs", {"jobs": []})["jobs"]
    assert {one["namespace"] for one in jobs} <= {ONE}
    assert answer.events.get("job", {"namespace": ONE})["namespace"] == ONE
    assert answer.status in (400, 403, 404) or "?" in path


def test_other_hosts_and_other_sites_get_nothing(world: World) -> None:
    given = world.bearer("reader")
    assert world.token.ask("/api/me", given, host="evil.test").status == 403
    assert world.token.ask("/", [], host="evil.test").status == 403
    foreign = [*given, ("Sec-Fetch-Site", "cross-site")]
    assert world.token.ask("/api/me", foreign).status == 403
    assert json.loads(world.token.ask("/api/me", given).text) == {
        "name": f"system:serviceaccount:{ONE}:reader"
    }


def test_the_page_itself_may_read_nothing(world: World) -> None:
    """Its token cannot be used to read jobs, and the page never sends a request without a user."""
    own = world.bearer("page")
    for path in ("/api/jobs", f"/api/jobs/{ONE}", "/api/totals"):
        assert world.token.ask(path, own).status == 403
    allowed = {"users", "groups"}
    rights = world.plane.lab.rights(PAGE, ONE)
    assert {(resource, verb) for resource, verb in rights} == {
        (one, "impersonate") for one in allowed
    }
    log = world.plane.cluster.audit_log.read_text().splitlines()
    alone = [
        entry["requestURI"]
        for entry in map(json.loads, log)
        if entry["user"]["username"] == PAGE
        and "impersonatedUser" not in entry
        # Sent above, and as the question who the user is.
        and "/dijobs" not in entry["requestURI"]
        and "selfsubject" not in entry["requestURI"]
    ]
    assert alone == []


def test_a_user_logs_in_with_a_token_and_an_administrator_sees_the_totals(world: World) -> None:
    expect.set_options(timeout=SECONDS * 1000)
    address = f"http://127.0.0.1:{world.token.port}"
    with chromium() as browser, browser.new_context() as context:
        tab = Tab.of(context)
        page = tab.page
        for size in (PHONE, WIDE):
            tab.size(size)
            page.goto(address)
            expect(page.get_by_label("Token of the cluster")).to_be_visible()
            assert not (grave := tab.grave()), "\n".join(grave)
        log_in(tab, "not-a-token")
        expect(page.get_by_role("alert")).to_contain_text("does not accept the token")
        log_in(tab, world.tokens["reader"])
        # The list of all namespaces is denied, and the page asks for a namespace.
        expect(page.locator(".list .lead").first).to_contain_text("enter its name")
        page.get_by_label("Jobs of namespace").fill(ONE)
        page.get_by_role("button", name="Show").click()
        expect(page.get_by_role("link", name="job", exact=True)).to_be_visible()
        expect(page.locator("#user-name")).to_contain_text(":reader")
        assert not (grave := tab.grave()), "\n".join(grave)
        page.get_by_role("link", name="job", exact=True).click()
        expect(page.locator(".job .badge")).to_have_attribute("data-phase", "Running")
        page.get_by_role("link", name="All jobs").click()
        expect(page).to_have_url(f"{address}/#/{ONE}")
        # Another tab is not logged in, and neither is this one after the user has logged out.
        other = context.new_page()
        other.goto(address)
        expect(other.get_by_label("Token of the cluster")).to_be_visible()
        other.close()
        page.get_by_role("button", name="Log out").click()
        expect(page.get_by_label("Token of the cluster")).to_be_visible()
        assert page.evaluate("sessionStorage.length + localStorage.length") == 0
        assert context.cookies() == []
        totals(tab, address, world.tokens["chief"])
        # Chromium logs the responses 401 and 403.
        assert [one for one in tab.complaints if "40" not in one] == []


def log_in(tab: Tab, token: str) -> None:
    tab.page.get_by_label("Token of the cluster").fill(token)
    tab.page.get_by_role("button", name="Log in").click()


def totals(tab: Tab, address: str, token: str) -> None:
    """An administrator opens the table of namespaces from the list."""
    page = tab.page
    page.goto(f"{address}/#/")
    log_in(tab, token)
    page.get_by_role("link", name="GPU hours and goodput by namespace").click()
    expect(page.locator(".totals tbody th").filter(has_text=ONE)).to_be_visible()
    expect(page.locator(".totals thead")).to_contain_text("GPU hours")
    expect(page.locator(".totals tfoot")).to_contain_text("All")
    for size in (PHONE, WIDE):
        tab.size(size)
        assert not (grave := tab.grave()), "\n".join(grave)
        beyond = page.evaluate("document.documentElement.scrollWidth - innerWidth")
        assert beyond <= 0
