"""What can be asked, as OpenAPI 3.1: the routes, and the document that describes them."""

from dataclasses import dataclass
from typing import Any, Final

from pydantic import BaseModel

from dijob import __version__
from dijob.server.requests import Posted, ProgressRequest, Replicas

OPENAPI_PATH: Final = "/openapi.json"
ANSWERS: Final = {
    "200": "It is done.",
    "400": "The body is no JSON.",
    "401": "The apiserver does not know the token.",
    "403": "The token is not for this job.",
    "404": "There is no such job, or it is not named as NAMESPACE.NAME or by its uid.",
    "409": "The job has ended, or others change it all the time.",
    "413": "The body is too large.",
    "422": "The job cannot be so, and why.",
    "429": "Too many requests; Retry-After says when there may be more.",
    "503": "The apiserver does not answer.",
}


@dataclass(frozen=True)
class Route:
    """One thing to be asked. `name` is that of the method of Server; `body` what is sent."""

    method: str
    what: str
    name: str
    summary: str
    body: type[BaseModel] | None = None

    @property
    def paths(self) -> tuple[str, str]:
        """As the project's design has it, and as di-server has it (pkg/server/server.go)."""
        return f"/v2alpha1/{{job}}/{self.what}", f"/v2alpha1/job/{{job}}/{self.what}"


ROUTES: Final = (
    Route("GET", "replicas", "get_replicas", "ADDRESS:PORT of each replica, by rank."),
    Route("POST", "replicas", "add_replicas", "Ask for so many replicas more.", body=Replicas),
    Route(
        "DELETE", "replicas", "delete_replicas", "Ask for so many replicas fewer.", body=Replicas
    ),
    Route("PUT", "replicas", "set_replicas", "Ask for so many replicas in all.", body=Replicas),
    Route(
        "POST", "profilings", "post_profilings", "Keep an object in status.profilings.", body=Posted
    ),
    Route("POST", "progress", "post_progress", "Say how far it is.", body=ProgressRequest),
)


def document() -> dict[str, Any]:
    """The description of all routes."""
    paths: dict[str, dict[str, Any]] = {}
    for route in ROUTES:
        for path in route.paths:
            paths.setdefault(path, {})[route.method.lower()] = _operation(route)
    token = {
        "type": "http",
        "scheme": "bearer",
        "description": "A pod's projected token, or a person's.",
    }
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "The DIJob operator's HTTP server",
            "version": __version__,
            "description": "A running job changes its own size, and says how far it is.",
        },
        "paths": paths,
        "components": {"securitySchemes": {"token": token}, "schemas": {"Answer": _ANSWER}},
        "security": [{"token": []}],
    }


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


def _operation(route: Route) -> dict[str, Any]:
    content = {"application/json": {"schema": {"$ref": "#/components/schemas/Answer"}}}
    job = {"name": "job", "in": "path", "required": True, "schema": {"type": "string"}}
    made: dict[str, Any] = {
        "summary": route.summary,
        "parameters": [{**job, "description": "The job's uid (DI_JOB_ID), or NAMESPACE.NAME."}],
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
