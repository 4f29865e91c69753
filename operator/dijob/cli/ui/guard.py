"""Who may ask the page's server: whoever knows the token, by this machine's own name.

The page keeps the token and sends it with each request. It is no cookie: those of 127.0.0.1 go to
the servers of all its ports, whoever runs them.
"""

import secrets
from typing import Final
from urllib.parse import urlsplit

from aiohttp import web
from aiohttp.typedefs import Handler, Middleware

# A page of another name that leads to this address (DNS rebinding) names that in Host.
_NAMES: Final = frozenset({"127.0.0.1", "localhost", "::1"})
_SCHEME: Final = "Bearer "
API: Final = "/api/"
HEADERS: Final = {
    # Nothing is loaded but from this server, no script or style stands in the page itself.
    "Content-Security-Policy": "default-src 'self'; base-uri 'none'; form-action 'none';"
    " frame-ancestors 'none'; object-src 'none'",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}


def token() -> str:
    """A new token."""
    return secrets.token_urlsafe(32)


def refusal(request: web.BaseRequest, expected: str) -> tuple[int, str] | None:
    """Status and sentence for a request that is not answered; None for others."""
    if not _is_local(request.headers.get("Host", "")):
        return 403, "this server answers to 127.0.0.1 and localhost alone"
    if request.method != "GET":
        return 405, "nothing can be changed here"
    given = request.headers.get("Authorization", "")
    right = secrets.compare_digest(given.encode(), f"{_SCHEME}{expected}".encode())
    if request.path.startswith(API) and not right:
        return 401, "open the address that `kubectl dijob ui` has printed: its key is not this one"
    return None


def _is_local(host: str) -> bool:
    try:
        return urlsplit(f"//{host}").hostname in _NAMES
    except ValueError:
        return False


def middleware(expected: str) -> Middleware:
    """Refuses what `refusal` says."""

    @web.middleware
    async def guarded(request: web.Request, handler: Handler) -> web.StreamResponse:
        if (refused := refusal(request, expected)) is not None:
            return web.Response(status=refused[0], text=refused[1])
        return await handler(request)

    return guarded


async def protect(request: web.Request, response: web.StreamResponse) -> None:
    """Puts HEADERS into each answer."""
    response.headers.update(HEADERS)
