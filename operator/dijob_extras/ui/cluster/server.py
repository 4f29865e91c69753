"""The HTTP server of the page in the cluster: every request has the permissions of its user."""

from collections.abc import AsyncIterator, Callable, Collection
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlsplit

from aiohttp import web
from aiohttp.typedefs import Handler, Middleware

from dijob_extras.ui.cluster.sessions import UserSessions
from dijob_extras.ui.cluster.users import AccessDenied, Headers, PageUser
from dijob_extras.ui.guard import API, LOCAL_NAMES, add_security_headers
from dijob_extras.ui.server import NAME, PageSource, add_data_routes, add_files, jobs_handler

# A function that returns the user of a request, or raises AccessDenied.
FindUser = Callable[[Headers], PageUser]
# The values of Sec-Fetch-Site for requests from the page itself, and for a URL that a user typed.
_OWN_SITES: Final = ("same-origin", "none")


@dataclass(frozen=True)
class PageAccess:
    """Who may use the page, and under which host names."""

    auth: str
    """How users authenticate: token or proxy. If it is token, the page shows a form in which users
    enter their tokens.
    """
    find_user: FindUser
    hosts: Collection[str]
    sessions: UserSessions


def build_cluster_application(access: PageAccess) -> web.Application:
    """Return the application that serves the page in the cluster to many users."""

    @asynccontextmanager
    async def open_source(request: web.Request) -> AsyncIterator[PageSource]:
        user = access.find_user(request.headers)
        namespace = request.match_info.get("namespace", "")
        if name := request.match_info.get("name"):
            opened = access.sessions.open_job(user, namespace, name)
        else:
            opened = access.sessions.open_list(user, namespace)
        async with opened as source:
            yield source

    async def find_me(request: web.Request) -> web.StreamResponse:
        user = access.find_user(request.headers)
        return web.json_response({"name": await access.sessions.find_name(user)})

    app = web.Application(middlewares=[_build_middleware(access.hosts)])
    app.on_response_prepare.append(add_security_headers)
    add_files(app, access.auth)
    add_data_routes(app, open_source)
    app.router.add_get(f"{API}me", find_me, allow_head=False)
    # A user without permission to list the jobs of all namespaces chooses one namespace.
    path = f"{API}jobs/{{namespace:{NAME}}}"
    app.router.add_get(path, jobs_handler(open_source), allow_head=False)
    return app


def _build_middleware(hosts: Collection[str]) -> Middleware:
    allowed = {*hosts, *LOCAL_NAMES}

    @web.middleware
    async def guarded(request: web.Request, handler: Handler) -> web.StreamResponse:
        if (refused := find_refusal(request, allowed)) is not None:
            return web.Response(status=refused[0], text=refused[1])
        try:
            return await handler(request)
        except AccessDenied as denied:
            return web.Response(status=denied.status, text=str(denied))

    return guarded


def find_refusal(request: web.BaseRequest, hosts: Collection[str]) -> tuple[int, str] | None:
    """Return the status and the message if the request is forbidden for all users, else None."""
    if _host_name(request.headers.getall("Host", [])) not in hosts:
        return 403, "this host name is not in the chart value ui.hosts"
    if request.method != "GET":
        return 405, "only GET is allowed: this page is read-only"
    # A login proxy recognizes its users by a cookie, which browsers also send with requests
    # from other sites. Such a site could not read the response, but could open many streams.
    site = request.headers.get("Sec-Fetch-Site", "none")
    if request.path.startswith(API) and site not in _OWN_SITES:
        return 403, "requests from other sites are not allowed"
    return None


def _host_name(given: list[str]) -> str:
    try:
        return urlsplit(f"//{given[0]}").hostname or "" if len(given) == 1 else ""
    except ValueError:
        return ""
