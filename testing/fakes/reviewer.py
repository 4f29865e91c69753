"""Simulates an API server that reviews tokens and permissions."""

from dataclasses import dataclass, field
from typing import Any

from dijob.kube.api import RequestError
from dijob.kube.connection import OperatorRequest
from dijob.server.callers import REVIEWS

Body = dict[str, Any]
# Verb, resource and namespace.
Right = tuple[str, str, str]
JOBS, LOGS = "dijobs", "pods/log"
ADA = {("list", JOBS, "a"), ("get", JOBS, "a"), ("get", LOGS, "a")}
BOB = {("list", JOBS, "a"), ("get", JOBS, "a")}
ROOT = {("list", JOBS, ""), ("get", JOBS, "b"), ("get", LOGS, "b")}


@dataclass
class Reviewer:
    """Answers reviews as an API server does, using a table of each user's rights. A user's token is
    the user's name.
    """

    rights: dict[str, set[Right]] = field(
        default_factory=lambda: {"ada": ADA, "bob": BOB, "eve": set(), "root": ROOT}
    )
    down: bool = False
    asked: list[Body] = field(default_factory=list)

    async def call(self, call: OperatorRequest) -> Body:
        if self.down:
            raise RequestError(0, "ClientError", "refused")
        spec: Any = (call.body or {})["spec"]
        if call.path == REVIEWS:
            known = not spec.get("audiences") and spec["token"] in self.rights
            user = {"username": spec["token"], "groups": ["g"]}
            return {"status": {"authenticated": known, "user": user}}
        wanted = spec["resourceAttributes"]
        self.asked.append(wanted)
        sub = wanted.get("subresource")
        resource = wanted["resource"] + (f"/{sub}" if sub else "")
        rights = self.rights[spec["user"]]
        allowed = any(
            (wanted["verb"], resource, place) in rights for place in ("", wanted["namespace"])
        )
        return {"status": {"allowed": allowed}}
