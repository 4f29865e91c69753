"""Who asks, and whether about this job: a pod with its projected token, about its own job; a person
with a token of the apiserver, as RBAC has it for dijobs/scale.
"""

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from dijob import names
from dijob.api.job_names import NAME_PATTERN
from dijob.core.render.server import AUDIENCE
from dijob.server.limits import Limit, Rate
from dijob.server.refusal import Refusal
from dijob.shell.api import Api, ApiError
from dijob.shell.clock import SYSTEM, Clock
from dijob.shell.connection import Call
from dijob.shell.kinds import PODS

REVIEWS: Final = "/apis/authentication.k8s.io/v1/tokenreviews"
ACCESS: Final = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
# So long an answer of the apiserver about a token holds. A pod's token ends with the pod; the
# apiserver itself keeps that answer for 10 s.
KNOWN_SECONDS: Final = 10.0
MOST_KNOWN: Final = 10_000
# Tokens that are not known cost the apiserver two requests each: so many from one address.
UNKNOWN: Final = Rate(5.0, 50.0)
# Each request of a person costs the apiserver one more: so many of one user.
ASKED: Final = Rate(20.0, 100.0)
# Nothing else gets into a path: a "/" in a name could lead to another namespace.
JOB: Final = re.compile(rf"([a-z0-9](?:[-a-z0-9]{{0,61}}[a-z0-9])?)\.({NAME_PATTERN})")
UID: Final = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
# TokenReview's names for what is in a token that is bound to a pod (KEP-1205).
POD_NAME: Final = "authentication.kubernetes.io/pod-name"
POD_UID: Final = "authentication.kubernetes.io/pod-uid"
NAME_A_JOB: Final = "name the job as NAMESPACE.NAME, or in its own pods by its uid (DI_JOB_ID)"


@dataclass(frozen=True)
class JobName:
    """A job; `uid` is "" where only its name is known."""

    namespace: str
    name: str
    uid: str = ""

    def __str__(self) -> str:
        return f"{self.namespace}.{self.name}"


@dataclass(frozen=True)
class Rank:
    """A pod of a job."""

    pod: str
    job: JobName


@dataclass(frozen=True)
class Person:
    """Whoever else the apiserver knows, as it describes them."""

    user: Mapping[str, Any]


Caller = Rank | Person


class Callers:
    """Asks the apiserver who has a token, and what a person may do; remembers it for a moment."""

    def __init__(self, api: Api, clock: Clock = SYSTEM) -> None:
        self._api = api
        self._clock = clock
        self._known: dict[str, tuple[float, Caller | Refusal]] = {}
        self._unknown = Limit(UNKNOWN)
        self._asked = Limit(ASKED)

    async def of(self, authorization: str, address: str) -> Caller:
        """Who sends this header from this address; Refusal where nobody whom the apiserver
        knows.
        """
        scheme, _, token = authorization.partition(" ")
        if scheme.lower() != "bearer" or not token.strip():
            raise Refusal(401, "the request must have a header `Authorization: Bearer TOKEN`")
        key, now = hashlib.sha256(token.encode()).hexdigest(), self._clock.monotonic()
        until, known = self._known.get(key, (0.0, None))
        if known is None or until < now:
            if wait := self._unknown.take(address, now):
                raise Refusal(429, "too many new tokens come from this address", wait)
            known = await self._look_up(token.strip())
            if len(self._known) >= MOST_KNOWN:
                self._known = {k: one for k, one in self._known.items() if one[0] > now}
            if len(self._known) < MOST_KNOWN:
                self._known[key] = now + KNOWN_SECONDS, known
        if isinstance(known, Refusal):
            raise known
        return known

    async def job(self, caller: Caller, given: str, verb: str) -> JobName:
        """The job that a path names, where the caller may do this with its size; else Refusal."""
        named = JOB.fullmatch(given)
        if isinstance(caller, Rank):
            if given in (caller.job.uid, str(caller.job)):
                return caller.job
            if named or UID.fullmatch(given):
                raise Refusal(
                    403, f"the token of this pod is for its own job, {caller.job}, and no other"
                )
        if named is None or isinstance(caller, Rank):
            raise Refusal(404, f"there is no job {given!r}: {NAME_A_JOB}")
        user, job = str(caller.user.get("username")), JobName(named[1], named[2])
        if wait := self._asked.take(user, self._clock.monotonic()):
            raise Refusal(429, f"too many requests come from {user}", wait)
        await self._may(caller, verb, job)
        return job

    async def _look_up(self, token: str) -> Caller | Refusal:
        user = await self._review(token, AUDIENCE)
        if user is not None:
            return await self._rank(user)
        user = await self._review(token, "")
        if user is not None:
            return Person(user)
        return Refusal(
            401,
            "the apiserver does not know this token: a pod's is in its file DI_SERVER_TOKEN_FILE"
            f" (audience {AUDIENCE}), a person's is one that the apiserver itself takes",
        )

    async def _review(self, token: str, audience: str) -> Mapping[str, Any] | None:
        """The user of a token; None where it is none for this audience ("": the apiserver)."""
        spec: dict[str, Any] = {"token": token}
        if audience:
            spec["audiences"] = [audience]
        body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": spec}
        status = (await self._api.call(Call("POST", REVIEWS, body))).get("status") or {}
        if not status.get("authenticated"):
            return None
        # An apiserver that knows nothing of audiences names none.
        if audience and audience not in (status.get("audiences") or ()):
            return None
        found: Mapping[str, Any] = status.get("user") or {}
        return found

    async def _rank(self, user: Mapping[str, Any]) -> Caller | Refusal:
        """The pod to which a token is bound, and its job."""
        extra = user.get("extra") or {}
        pod, uid = (str((extra.get(key) or [""])[0]) for key in (POD_NAME, POD_UID))
        parts = str(user.get("username")).split(":")
        if not (pod and uid) or parts[:2] != ["system", "serviceaccount"] or len(parts) != 4:
            return Refusal(401, f"a token of audience {AUDIENCE} must be bound to a pod")
        try:
            body = await self._api.get(PODS.path(parts[2], pod))
        except ApiError as error:
            if error.not_found:
                return Refusal(401, f"the pod {pod} of this token is gone")
            raise
        meta = body["metadata"]
        if meta["uid"] != uid or "deletionTimestamp" in meta:
            return Refusal(401, f"the pod {pod} of this token is gone")
        for owner in meta.get("ownerReferences") or ():
            ours = owner.get("kind") == names.KIND and owner.get("apiVersion") == names.API_VERSION
            job = JobName(parts[2], str(owner.get("name")), str(owner.get("uid")))
            # The apiserver takes any name of an owner.
            if ours and owner.get("controller") and JOB.fullmatch(str(job)):
                return Rank(pod, job)
        return Refusal(403, f"the pod {pod} of this token belongs to no DIJob")

    async def _may(self, person: Person, verb: str, job: JobName) -> None:
        user = person.user
        wanted = {
            "group": names.GROUP,
            "resource": names.PLURAL,
            "subresource": "scale",
            "namespace": job.namespace,
            "name": job.name,
            "verb": verb,
        }
        spec = {
            "user": user.get("username"),
            "groups": user.get("groups"),
            "uid": user.get("uid"),
            "extra": user.get("extra"),
            "resourceAttributes": wanted,
        }
        body = {"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview"}
        answer = await self._api.call(Call("POST", ACCESS, {**body, "spec": spec}))
        if not (answer.get("status") or {}).get("allowed"):
            raise Refusal(
                403,
                f"{user.get('username')} may not {verb} dijobs/scale of {job.name} in namespace"
                f" {job.namespace}: ask for a role with that right, such as `edit`",
            )
