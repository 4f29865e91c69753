"""Access control of the page's server: a token, and the host names of this machine.

Other users of the machine, and any web page in the user's browser, can reach a port on loopback.
The page sends the token in a header. A cookie would not be safe (docs/decisions/036): browsers send
the cookies of 127.0.0.1 to all ports of this address. The servers on these ports may belong to
other users.
"""

import secrets
from typing import Final
from urllib.parse import urlsplit

from aiohttp import web
from aiohttp.typedefs import Handler, Middleware

# The names that are allowed in the Host header. In a DNS rebinding attack, a foreign name resolves
# to 127.0.0.1, and the header contains this foreign name.
LOCAL_NAMES: Final = frozenset({"127.0.0.1", "localhost", "::1"})
_SCHEME: Final = "Bearer "
API: Final = "/api/"
HEADERS: Final = {
    # Everything is loaded from this server, and there are no inline scripts or styles. So text from
    # the cluster cannot run code, even if it is inserted as HTML by mistake.
    "Content-Security-Policy": "default-src 'self'; base-uri 'none'; form-action 'none';"
    " frame-ancestors 'none'; object-src 'none'",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}


def new_token() -> str:
    """Return a new random token of 256 bits."""
    return secrets.token_urlsafe(32)


def find_rejection(request: web.BaseRequest, expected: str) -> tuple[int, str] | None:
    """Return the status and the message of a rejection, or None if the request is allowed."""
    if not _is_local(request.headers.get("Host", "")):
        return 403, "this server responds only to the host names 127.0.0.1, localhost and ::1"
    if request.method != "GET":
        return 405, "only GET is allowed: this server is read-only"
    given = request.headers.get("Authorization", "")
    # Compared in constant time, so that the token cannot be guessed byte by byte.
    right = secrets.compare_digest(given.encode(), f"{_SCHEME}{expected}".encode())
    # The files of the page are the same for all users, and need no token.
    if request.path.startswith(API) and not right:
        return 401, "the key is missing or wrong: open the URL that `kubectl dijob ui` printed"
    return None


def _is_local(host: str) -> bool:
    # Any port is allowed, because ssh may forward a different one.
    try:
        return urlsplit(f"//{host}").hostname in LOCAL_NAMES
    except ValueError:
        return False


def build_middleware(expected: str) -> Middleware:
    """Return the middleware that rejects requests according to `find_rejection`."""

    @web.middleware
    async def guarded(request: web.Request, handler: Handler) -> web.StreamResponse:
        if (refused := find_rejection(request, expected)) is not None:
            return web.Response(status=refused[0], text=refused[1])
        return await handler(request)

    return guarded


async def add_security_headers(request: web.Request, response: web.StreamResponse) -> None:
    """Add HEADERS to a response. Errors from aiohttp itself also pass through here."""
    response.headers.update(HEADERS)
