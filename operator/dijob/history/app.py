"""The HTTP API of the history. Each response depends on the permissions of the requesting user."""

import asyncio
import logging
import math
import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Final

from aiohttp import web

from dijob import names
from dijob.api.numbers import parse_natural
from dijob.api.status import parse_time
from dijob.history import metrics
from dijob.history.store import Query, RecordStore, StoreError
from dijob.kube.api import RequestError
from dijob.server.callers import Callers, Person
from dijob.server.requests import RequestRejection

log = logging.getLogger(__name__)

ANSWER_SECONDS: Final = 20.0
MOST_LISTED: Final = 500
# Names of namespaces and jobs. The history compares them with stored names, and sends them to the
# API server as part of the access review.
_NAME: Final = "[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?"
_LABEL: Final = re.compile(r"([^=,\s]{1,317})=([^=,\s]{0,63})")
_UID: Final = re.compile(r"[0-9a-zA-Z-]{0,64}")
_REASONS: Final = {
    400: "BadRequest",
    401: "Unauthorized",
    403: "Forbidden",
    404: "NotFound",
    405: "MethodNotAllowed",
    429: "TooManyRequests",
    503: "ServiceUnavailable",
}

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


@dataclass
class HistoryApi:
    """The handlers of the routes."""

    callers: Callers
    store: RecordStore

    def app(self) -> web.Application:
        """Return the application with all routes."""
        app = web.Application(middlewares=[_count_response, _wrap_errors])
        one = f"{names.HISTORY_PATH}/{{namespace:{_NAME}}}/{{name:{_NAME}}}"
        for path, handler in (
            (names.HISTORY_PATH, self.list_jobs),
            (one, self.get_job),
            (f"{one}/logs", self.get_logs),
        ):
            app.router.add_get(path, handler, allow_head=False)
        return app

    async def list_jobs(self, request: web.Request) -> web.Response:
        """List records of one namespace, or of all. The user needs `list` on dijobs there."""
        query = parse_query(request.query)
        await self._check(request, "list", query.namespace)
        found = await asyncio.to_thread(self.store.list, query)
        return web.json_response({"items": [record.dump(brief=True) for record in found]})

    async def get_job(self, request: web.Request) -> web.Response:
        """Return one record. The user needs `get` on dijobs."""
        namespace, name = request.match_info["namespace"], request.match_info["name"]
        await self._check(request, "get", namespace, name)
        record = await self._find(request)
        logs = await asyncio.to_thread(self.store.logs, record.uid)
        # Reading the logs themselves requires another permission.
        listed = [tail.model_dump(mode="json", by_alias=True, exclude={"text"}) for tail in logs]
        return web.json_response({**record.dump(), "logs": listed})

    async def get_logs(self, request: web.Request) -> web.Response:
        """Return the logs of one job. The user needs `get` on dijobs and on pods/log."""
        namespace, name = request.match_info["namespace"], request.match_info["name"]
        await self._check(request, "get", namespace, name)
        await self._check_logs(request, namespace)
        record = await self._find(request)
        rank = _parse_rank(request.query.get("rank", ""))
        logs = await asyncio.to_thread(self.store.logs, record.uid)
        listed = [
            tail.model_dump(mode="json", by_alias=True)
            for tail in logs
            if rank is None or tail.rank == rank
        ]
        return web.json_response({"uid": record.uid, "items": listed})

    async def _find(self, request: web.Request) -> Any:
        namespace, name = request.match_info["namespace"], request.match_info["name"]
        uid = request.query.get("uid", "")
        if not _UID.fullmatch(uid):
            raise RequestRejection(400, "uid must be the uid of a job")
        record = await asyncio.to_thread(self.store.find, namespace, name, uid)
        if record is None:
            what = f"job {name} with the uid {uid}" if uid else f"job {name}"
            raise RequestRejection(404, f"the history has no {what} in namespace {namespace}")
        return record

    async def _check(self, request: web.Request, verb: str, namespace: str, name: str = "") -> None:
        wanted = {"group": names.GROUP, "resource": names.PLURAL, "verb": verb}
        place = f"in namespace {namespace}" if namespace else "in all namespaces"
        await self._demand(
            request, {**wanted, "namespace": namespace, "name": name}, f"{verb} dijobs {place}"
        )

    async def _check_logs(self, request: web.Request, namespace: str) -> None:
        wanted = {"group": "", "resource": "pods", "subresource": "log", "verb": "get"}
        await self._demand(
            request, {**wanted, "namespace": namespace}, f"get pods/log in namespace {namespace}"
        )

    async def _demand(self, request: web.Request, wanted: dict[str, str], what: str) -> None:
        """Raise RequestRejection unless the user has the permission `wanted`. `what` describes it
        in words. Permissions are not cached.
        """
        person = await self._person(request)
        if not await self.callers.may(person, wanted):
            raise RequestRejection(403, f"{person.user.get('username')} cannot {what}")

    async def _person(self, request: web.Request) -> Person:
        token = request.headers.get(names.HISTORY_TOKEN_HEADER, "")
        given = f"Bearer {token}" if token else request.headers.get("Authorization", "")
        if not given:
            raise RequestRejection(
                401, f"the request must have a header `{names.HISTORY_TOKEN_HEADER}: TOKEN`"
            )
        try:
            caller = await self.callers.of(given, request.remote or "")
        except RequestRejection as error:
            if error.status == 401:
                # The original message is about the tokens of pods, which are not valid here.
                raise RequestRejection(
                    401, "the API server does not recognize this token"
                ) from error
            raise
        if not isinstance(caller, Person):
            raise RequestRejection(403, "a pod's token for the HTTP server is not valid here")
        return caller


def parse_query(given: Any) -> Query:
    """Return the query in the parameters of a request. Raises RequestRejection."""
    namespace, name = given.get("namespace", ""), given.get("name", "")
    for value in (namespace, name):
        if value and not re.fullmatch(_NAME, value):
            raise RequestRejection(400, f"{value[:80]!r} is not a valid object name")
    since = given.get("since", "")
    if since and parse_time(since) is None:
        raise RequestRejection(400, "since must be a time such as 2026-01-31T10:00:00Z")
    most = parse_natural(given.get("limit", "100"), 4)
    if most is None or not 1 <= most <= MOST_LISTED:
        raise RequestRejection(400, f"limit must be a number from 1 to {MOST_LISTED}")
    return Query(
        namespace=namespace,
        name=name,
        phases=tuple(given.getall("phase", ())),
        since=since,
        owner=given.get("owner", ""),
        labels=_parse_labels(given.get("labels", "")),
        most=most,
    )


def _parse_labels(text: str) -> tuple[tuple[str, str], ...]:
    parts = [_LABEL.fullmatch(part) for part in text.split(",")] if text else []
    found = [part for part in parts if part]
    if len(found) != len(parts):
        raise RequestRejection(400, "labels must be KEY=VALUE, separated by commas")
    return tuple((part[1], part[2]) for part in found)


def _parse_rank(text: str) -> int | None:
    rank = parse_natural(text, 4) if text else None
    if text and rank is None:
        raise RequestRejection(400, f"rank must be a number from 0 to {names.MAX_REPLICAS - 1}")
    return rank


@web.middleware
async def _wrap_errors(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Turn every error into a Status object, which clients of the API server understand."""
    try:
        async with asyncio.timeout(ANSWER_SECONDS):
            return await handler(request)
    except RequestRejection as refusal:
        return error_response(refusal.status, refusal.message, refusal.retry_after)
    except web.HTTPException as error:
        return error_response(error.status, f"{request.method} {request.path}: {error.reason}")
    except (StoreError, RequestError, TimeoutError) as error:
        log.warning("%s %s: %s", request.method, request.path, error)
        what = "the API server" if isinstance(error, RequestError) else "the store of the history"
        return error_response(503, f"{what} does not respond: try again later", 5.0)
    except Exception:
        log.exception("%s %s failed", request.method, request.path)
        return error_response(500, "the history had an internal error: see the history's log")


@web.middleware
async def _count_response(request: web.Request, handler: Handler) -> web.StreamResponse:
    response = await handler(request)
    route = request.match_info.route.resource
    metrics.REQUESTS.labels(route.canonical if route else "none", str(response.status)).inc()
    return response


def error_response(status: int, message: str, retry_after: float = 0.0) -> web.Response:
    """Return an error as a Status object of Kubernetes."""
    body = {
        "kind": "Status",
        "apiVersion": "v1",
        "status": "Failure",
        "reason": _REASONS.get(status, "InternalError"),
        "message": message,
        "code": status,
    }
    headers = {"Retry-After": str(math.ceil(retry_after))} if retry_after else {}
    return web.json_response(body, status=status, headers=headers)
