"""Authentication and authorization of requests.

A pod presents its projected token, and can access only its own job. A person presents a token for
the API server, and needs the RBAC permission for dijobs/scale. The server delegates both checks to
the API server (TokenReview, SubjectAccessReview), so it stores no secrets and has no access rules
of its own.
"""

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from dijob import names
from dijob.api.job_names import NAME_PATTERN
from dijob.core.render.server import AUDIENCE
from dijob.kube.api import Api, RequestError
from dijob.kube.connection import OperatorRequest
from dijob.kube.kinds import PODS
from dijob.process.clock import SYSTEM, Clock
from dijob.server.requests import Limit, Rate, RequestRejection

REVIEWS: Final = "/apis/authentication.k8s.io/v1/tokenreviews"
ACCESS: Final = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
# How long the result of a TokenReview is reused. So the token of a pod that is gone may be accepted
# for this long. The API server caches its own result for 10 s as well.
KNOWN_SECONDS: Final = 10.0
MOST_KNOWN: Final = 10_000
# The rate of new tokens from one address is limited, because each new token costs the API server
# two requests.
UNKNOWN: Final = Rate(5.0, 50.0)
# The rate of requests from one person is limited, because each request costs a
# SubjectAccessReview.
ASKED: Final = Rate(20.0, 100.0)
# Only names that match these patterns are used in the path of an API request. A "/" in a name could
# lead to another namespace.
JOB: Final = re.compile(rf"([a-z0-9](?:[-a-z0-9]{{0,61}}[a-z0-9])?)\.({NAME_PATTERN})")
UID: Final = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
# The keys under which a TokenReview returns the pod that a token is bound to (KEP-1205).
POD_NAME: Final = "authentication.kubernetes.io/pod-name"
POD_UID: Final = "authentication.kubernetes.io/pod-uid"
NAME_A_JOB: Final = "name the job as NAMESPACE.NAME or, in the job's pods, by its UID (DI_JOB_ID)"


@dataclass(frozen=True)
class JobName:
    """The namespace and name of a job. `uid` is "" if the request has only the name."""

    namespace: str
    name: str
    uid: str = ""

    def __str__(self) -> str:
        return f"{self.namespace}.{self.name}"


@dataclass(frozen=True)
class Rank:
    """A caller that is a pod of a job."""

    pod: str
    job: JobName


@dataclass(frozen=True)
class Person:
    """Any other caller that the API server authenticates. `user` is from the caller's
    TokenReview.
    """

    user: Mapping[str, Any]


Caller = Rank | Person


class Callers:
    """Identifies callers and checks their permissions through the API server.

    The results of TokenReviews are cached for KNOWN_SECONDS. Permissions are not cached, so that
    the revocation of a role takes effect on the next request.
    """

    def __init__(self, api: Api, clock: Clock = SYSTEM) -> None:
        self._api = api
        self._clock = clock
        self._known: dict[str, tuple[float, Caller | RequestRejection]] = {}
        self._unknown = Limit(UNKNOWN)
        self._asked = Limit(ASKED)

    async def of(self, authorization: str, address: str) -> Caller:
        """Return the caller with this Authorization header and network address.

        Raises RequestRejection if the API server does not recognize the token, or if the address
        has sent too many new tokens.
        """
        scheme, _, token = authorization.partition(" ")
        if scheme.lower() != "bearer" or not token.strip():
            raise RequestRejection(
                401, "the request must have a header `Authorization: Bearer TOKEN`"
            )
        # The key of the cache is a hash, so that the cache holds no tokens.
        key, now = hashlib.sha256(token.encode()).hexdigest(), self._clock.monotonic()
        until, known = self._known.get(key, (0.0, None))
        if known is None or until < now:
            if wait := self._unknown.take(address, now):
                raise RequestRejection(429, "too many new tokens from this address", wait)
            known = await self._look_up(token.strip())
            if len(self._known) >= MOST_KNOWN:
                self._known = {k: one for k, one in self._known.items() if one[0] > now}
            if len(self._known) < MOST_KNOWN:
                self._known[key] = now + KNOWN_SECONDS, known
        if isinstance(known, RequestRejection):
            raise known
        return known

    async def job(self, caller: Caller, given: str, verb: str) -> JobName:
        """Return the job that a path names. Raises RequestRejection if the caller may not access
        this job.

        A person needs the permission `verb` (get or update) for the job's scale subresource.
        """
        named = JOB.fullmatch(given)
        if isinstance(caller, Rank):
            if given in (caller.job.uid, str(caller.job)):
                return caller.job
            if named or UID.fullmatch(given):
                raise RequestRejection(
                    403, f"the token of this pod is valid only for its own job, {caller.job}"
                )
        if named is None or isinstance(caller, Rank):
            raise RequestRejection(404, f"there is no job {given!r}: {NAME_A_JOB}")
        user, job = str(caller.user.get("username")), JobName(named[1], named[2])
        wanted = {
            "group": names.GROUP,
            "resource": names.PLURAL,
            "subresource": "scale",
            "namespace": job.namespace,
            "name": job.name,
            "verb": verb,
        }
        if not await self.may(caller, wanted):
            raise RequestRejection(
                403,
                f"{user} cannot {verb} dijobs/scale of {job.name} in namespace {job.namespace}: ask"
                " for a role with this permission, such as `edit`",
            )
        return job

    async def may(self, person: Person, wanted: Mapping[str, str]) -> bool:
        """Return whether a person has a permission. `wanted` contains the resource attributes of
        the SubjectAccessReview. Raises RequestRejection if the person has sent too many requests.
        """
        user = person.user
        name = str(user.get("username"))
        if wait := self._asked.take(name, self._clock.monotonic()):
            raise RequestRejection(429, f"too many requests from {name}", wait)
        spec = {
            "user": user.get("username"),
            "groups": user.get("groups"),
            "uid": user.get("uid"),
            "extra": user.get("extra"),
            "resourceAttributes": dict(wanted),
        }
        body = {"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview"}
        answer = await self._api.call(OperatorRequest("POST", ACCESS, {**body, "spec": spec}))
        return bool((answer.get("status") or {}).get("allowed"))

    async def _look_up(self, token: str) -> Caller | RequestRejection:
        user = await self._review(token, AUDIENCE)
        if user is not None:
            return await self._rank(user)
        user = await self._review(token, "")
        if user is not None:
            return Person(user)
        return RequestRejection(
            401,
            "the API server does not recognize this token: in a pod, use the token in the file that"
            f" DI_SERVER_TOKEN_FILE names (audience {AUDIENCE}); elsewhere, use a token for the API"
            " server",
        )

    async def _review(self, token: str, audience: str) -> Mapping[str, Any] | None:
        """Return the user of a token, or None if the token is not valid for the audience.

        "" is the audience of the API server itself.
        """
        spec: dict[str, Any] = {"token": token}
        if audience:
            spec["audiences"] = [audience]
        body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": spec}
        status = (await self._api.call(OperatorRequest("POST", REVIEWS, body))).get("status") or {}
        if not status.get("authenticated"):
            return None
        # An API server that does not support audiences returns a status without audiences. The
        # token is then valid for the API server, but not necessarily for this audience.
        if audience and audience not in (status.get("audiences") or ()):
            return None
        found: Mapping[str, Any] = status.get("user") or {}
        return found

    async def _rank(self, user: Mapping[str, Any]) -> Caller | RequestRejection:
        """Return the pod to which a token is bound, with the pod's job, or the reason to reject the
        token.
        """
        extra = user.get("extra") or {}
        pod, uid = (str((extra.get(key) or [""])[0]) for key in (POD_NAME, POD_UID))
        parts = str(user.get("username")).split(":")
        if not (pod and uid) or parts[:2] != ["system", "serviceaccount"] or len(parts) != 4:
            return RequestRejection(401, f"a token with audience {AUDIENCE} must be bound to a pod")
        try:
            body = await self._api.get(PODS.path(parts[2], pod))
        except RequestError as error:
            if error.not_found:
                return RequestRejection(401, f"the pod of this token, {pod}, is gone")
            raise
        meta = body["metadata"]
        # The API server still accepts the token for a while after the pod has been deleted.
        if meta["uid"] != uid or "deletionTimestamp" in meta:
            return RequestRejection(401, f"the pod of this token, {pod}, is gone")
        for owner in meta.get("ownerReferences") or ():
            ours = owner.get("kind") == names.KIND and owner.get("apiVersion") == names.API_VERSION
            job = JobName(parts[2], str(owner.get("name")), str(owner.get("uid")))
            # The API server does not validate the name in an ownerReference. The name is
            # checked here, because it becomes part of a path.
            if ours and owner.get("controller") and JOB.fullmatch(str(job)):
                return Rank(pod, job)
        return RequestRejection(403, f"the pod of this token, {pod}, does not belong to a DIJob")
