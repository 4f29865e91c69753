"""The routes, and their description in OpenAPI 3.1.

The application and the description are built from the same table, so both always have the same
routes.
"""

from dataclasses import dataclass
from typing import Any, Final

from pydantic import BaseModel

from dijob import __version__
from dijob.server.requests import Posted, ProgressRequest, Replicas

OPENAPI_PATH: Final = "/openapi.json"
# Every operation can return any of these codes, because all operations share the same checks.
ANSWERS: Final = {
    "200": "Success.",
    "400": "The body is not JSON.",
    "401": "The API server does not recognize the token.",
    "403": "The token is not valid for this job.",
    "404": "The job does not exist, or the path contains neither a UID nor NAMESPACE.NAME.",
    "409": "The job has ended, or other clients keep changing it.",
    "413": "The body is too large.",
    "422": "The requested change is invalid; see message.",
    "429": "Too many requests; Retry-After says when to retry.",
    "503": "The API server does not respond.",
}


@dataclass(frozen=True)
class ApiRoute:
    """One operation of the API.

    `name` is the method of Server that handles the operation. `body` is the model of the request's
    body.
    """

    method: str
    what: str
    name: str
    summary: str
    body: type[BaseModel] | None = None

    @property
    def paths(self) -> tuple[str, str]:
        """The path of this API, and the path of di-server (pkg/server/server.go)."""
        return f"/v2alpha1/{{job}}/{self.what}", f"/v2alpha1/job/{{job}}/{self.what}"


# The PUT operation and the progress path do not exist in di-server. All other operations are those
# of di-server.
ROUTES: Final = (
    ApiRoute(
        "GET", "replicas", "get_replicas", "List ADDRESS:PORT of each replica, in rank order."
    ),
    ApiRoute(
        "POST", "replicas", "add_replicas", "Scale up by a number of replicas.", body=Replicas
    ),
    ApiRoute(
        "DELETE",
        "replicas",
        "delete_replicas",
        "Scale down by a number of replicas.",
        body=Replicas,
    ),
    ApiRoute("PUT", "replicas", "set_replicas", "Set the number of replicas.", body=Replicas),
    ApiRoute(
        "POST",
        "profilings",
        "post_profilings",
        "Store an object in status.profilings.",
        body=Posted,
    ),
    ApiRoute("POST", "progress", "post_progress", "Report progress.", body=ProgressRequest),
)


def build_document() -> dict[str, Any]:
    """Return the OpenAPI document."""
    paths: dict[str, dict[str, Any]] = {}
    for route in ROUTES:
        for path in route.paths:
            paths.setdefault(path, {})[route.method.lower()] = _describe_operation(route)
    token = {
        "type": "http",
        "scheme": "bearer",
        "description": "The projected token of a pod, or a person's token for the API server.",
    }
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "HTTP server of the DIJob operator",
            "version": __version__,
            "description": "Lets a running job change its size and report its progress.",
        },
        "paths": paths,
        "components": {"securitySchemes": {"token": token}, "schemas": {"Answer": _ANSWER}},
        "security": [{"token": []}],
    }


# The format of di-server's responses. Clients of di-server expect this format.
_ANSWER: Final = {
    "type": "object",
    "required": ["success", "code", "message", "data"],
    "properties": {
        "success": {"type": "boolean"},
        "code": {"type": "integer", "enum": [0, 1]},
        "message": {"type": "string"},
        "data": {},
    },
}


def _describe_operation(route: ApiRoute) -> dict[str, Any]:
    content = {"application/json": {"schema": {"$ref": "#/components/schemas/Answer"}}}
    job = {"name": "job", "in": "path", "required": True, "schema": {"type": "string"}}
    made: dict[str, Any] = {
        "summary": route.summary,
        "parameters": [{**job, "description": "The job's UID (DI_JOB_ID), or NAMESPACE.NAME."}],
        "responses": {
            code: {"description": text, "content": content} for code, text in ANSWERS.items()
        },
    }
    if route.body is not None:
        schema = route.body.model_json_schema()
        made["requestBody"] = {
            "required": True,
            "content": {"application/json": {"schema": schema}},
        }
    return made
