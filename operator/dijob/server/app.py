"""The routes, and what all of them share: authentication, limits and the form of a response."""

import asyncio
import logging
import math
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, Final, TypeVar

from aiohttp import web
from pydantic import BaseModel, ValidationError

from dijob.kube.api import RequestError
from dijob.process.clock import SYSTEM, Clock
from dijob.server import metrics
from dijob.server.callers import Callers, JobName, Rank
from dijob.server.openapi import OPENAPI_PATH, ROUTES, build_document
from dijob.server.reports import Reports
from dijob.server.requests import Limit, Posted, ProgressRequest, Rate, Replicas, RequestRejection
from dijob.server.sizes import Sizes

log = logging.getLogger(__name__)

# A valid body is far smaller than this limit. A larger body is rejected before it is parsed.
BODY_BYTES: Final = 64 * 1024
# The runtime's client gives up after 10 s (dijob_runtime/server.py). This limit is shorter, so that
# the caller gets a message.
ANSWER_SECONDS: Final = 8.0
# Limit for the requests about one job. Each such request costs the API server at least one request.
OF_A_JOB: Final = Rate(10.0, 30.0)

# `guarded` sets these keys for the handlers: the job of the request, and the calling pod ("" for a
# person).
JOB: Final = web.RequestKey("job", JobName)
POD: Final = web.RequestKey("pod", str)

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
T = TypeVar("T", bound=BaseModel)


@dataclass
class Server:
    """The handlers of the routes. Requests reach them only through `guarded`."""

    callers: Callers
    sizes: Sizes
    reports: Reports
    clock: Clock = SYSTEM

    def __post_init__(self) -> None:
        self._of_a_job = Limit(OF_A_JOB)

    def app(self) -> web.Application:
        """Return the application with all routes."""
        app = web.Application(
            middlewares=[count_response, wrap_errors, self.guarded], client_max_size=BODY_BYTES
        )
        for route in ROUTES:
            for path in route.paths:
                app.router.add_route(route.method, path, getattr(self, route.name))
        app.router.add_get(OPENAPI_PATH, describe_api, allow_head=False)
        return app

    @web.middleware
    async def guarded(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Authenticate and authorize a request. Only the API description needs no token.

        Requests for unknown paths skip both checks, so they get a 404 response without any request
        to the API server.
        """
        if request.match_info.http_exception is not None or handler is describe_api:
            return await handler(request)
        caller = await self.callers.of(
            request.headers.get("Authorization", ""), request.remote or ""
        )
        verb = "get" if request.method == "GET" else "update"
        job = await self.callers.job(caller, request.match_info["job"], verb)
        if wait := self._of_a_job.take(str(job), self.clock.monotonic()):
            raise RequestRejection(429, f"too many requests for DIJob {job}", wait)
        request[JOB], request[POD] = job, caller.pod if isinstance(caller, Rank) else ""
        return await handler(request)

    async def get_replicas(self, request: web.Request) -> web.Response:
        return success_response(
            "successfully get replicas", await self.sizes.addresses(request[JOB])
        )

    async def add_replicas(self, request: web.Request) -> web.Response:
        asked = await body_of(request, Replicas)
        size = await self.sizes.change(request[JOB], asked.replicas)
        return success_response("successfully add replicas", {"replicas": size})

    async def delete_replicas(self, request: web.Request) -> web.Response:
        asked = await body_of(request, Replicas)
        size = await self.sizes.change(request[JOB], -asked.replicas)
        return success_response("successfully delete replicas", {"replicas": size})

    async def set_replicas(self, request: web.Request) -> web.Response:
        asked = await body_of(request, Replicas)
        size = await self.sizes.set(request[JOB], asked.replicas)
        return success_response("successfully set replicas", {"replicas": size})

    async def post_profilings(self, request: web.Request) -> web.Response:
        posted = await body_of(request, Posted)
        data = posted.model_dump()
        if field := next(_not_finite(data), ""):
            raise RequestRejection(400, f"{field}: the number is too large or not finite")
        await self.reports.profiling(request[JOB], request[POD], data)
        return success_response("successfully report profilings")

    async def post_progress(self, request: web.Request) -> web.Response:
        report = await body_of(request, ProgressRequest)
        await self.reports.progress(request[JOB], report.progress)
        return success_response("successfully report progress")


async def describe_api(_: web.Request) -> web.Response:
    """Return the API description, which contains no data from the cluster and needs no token."""
    return web.json_response(build_document())


@web.middleware
async def wrap_errors(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Turn every error into a response in the common form. A request that takes longer
    than ANSWER_SECONDS is an error, too.
    """
    try:
        async with asyncio.timeout(ANSWER_SECONDS):
            return await handler(request)
    except RequestRejection as refusal:
        return error_response(refusal)
    except web.HTTPException as error:
        return error_response(RequestRejection(error.status, _error_message(request, error)), error)
    except TimeoutError:
        return error_response(
            RequestRejection(503, f"the request was not completed within {ANSWER_SECONDS:g} s", 1.0)
        )
    except RequestError as error:
        log.warning("%s %s: API server error: %s", request.method, request.path, error)
        return error_response(RequestRejection(503, f"API server error: {error.message}", 1.0))
    except Exception:
        log.exception("%s %s failed", request.method, request.path)
        return error_response(RequestRejection(500, "internal server error (see the server's log)"))


@web.middleware
async def count_response(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Count the response by its route.

    The path identifies the job, so a label that contains the path would create a separate series
    for each job.
    """
    with metrics.SECONDS.time():
        response = await handler(request)
    route = request.match_info.route.resource
    metrics.REQUESTS.labels(route.canonical if route else "none", str(response.status)).inc()
    return response


def success_response(message: str, data: Any = None) -> web.Response:
    """Return a successful response in di-server's format (pkg/server/types/types.go)."""
    return web.json_response({"success": True, "code": 0, "message": message, "data": data})


def error_response(
    refusal: RequestRejection, error: web.HTTPException | None = None
) -> web.Response:
    """Return an error response in di-server's format."""
    body = {"success": False, "code": 1, "message": refusal.message, "data": None}
    headers = {"Allow": error.headers["Allow"]} if error and "Allow" in error.headers else {}
    if refusal.retry_after:
        headers["Retry-After"] = str(math.ceil(refusal.retry_after))
    if refusal.status == HTTPStatus.UNAUTHORIZED:
        headers["WWW-Authenticate"] = "Bearer"
    return web.json_response(body, status=refusal.status, headers=headers)


async def body_of(request: web.Request, model: type[T]) -> T:
    """Return the body of a request, parsed and validated. Raises RequestRejection for an invalid
    body.
    """
    try:
        body = await request.read()
    except ConnectionError as error:
        log.info("%s %s: the client hung up before the end of the body", *_request_line(request))
        raise RequestRejection(400, "the body is incomplete") from error
    except web.RequestPayloadError as error:
        log.info("%s %s: the body cannot be read: %r", *_request_line(request), str(error))
        raise RequestRejection(400, "the body cannot be read") from error
    try:
        return model.model_validate_json(body)
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False)[0]
        field = ".".join(str(part) for part in first["loc"])
        # If the body is not JSON, the status is 400, and the error does not name a field.
        status = 400 if first["type"] == "json_invalid" else 422
        raise RequestRejection(status, f"{field or 'the body'}: {first['msg']}") from error


def _request_line(request: web.Request) -> tuple[str, str]:
    return request.method, request.path


def _not_finite(value: object, path: str = "") -> Iterator[str]:
    """Yield the paths of numbers that JSON cannot express. A parser reads 1e999 as infinity."""
    if isinstance(value, Mapping):
        for key, below in value.items():
            yield from _not_finite(below, f"{path}.{key}" if path else str(key))
    elif isinstance(value, list):
        for index, below in enumerate(value):
            yield from _not_finite(below, f"{path}.{index}")
    elif isinstance(value, float) and not math.isfinite(value):
        yield path


def invalid_http_response(status: int, message: str) -> web.Response:
    """Return the response to a request that is not valid HTTP."""
    return error_response(RequestRejection(status, message or "the request is not valid HTTP"))


def _error_message(request: web.Request, error: web.HTTPException) -> str:
    if error.status == HTTPStatus.NOT_FOUND:
        return f"path {request.path} does not exist: see {OPENAPI_PATH} for all paths"
    if error.status == HTTPStatus.REQUEST_ENTITY_TOO_LARGE:
        return f"the body must be at most {BODY_BYTES} bytes"
    if error.status == HTTPStatus.METHOD_NOT_ALLOWED:
        return f"{request.method} is not allowed here; use {error.headers.get('Allow', '')}"
    return error.reason
