"""Interprets rejections by the API server: their kind, their message, and when to retry.

Retries are needed because nothing reports when a quota has room again, when a missing object is
created, or when a policy changes. The bounds below balance a quick recovery against the load that
a thousand waiting jobs put on the API server.
"""

import re
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta

from dijob import names
from dijob.api.printed import one_line
from dijob.core.backoff import doubled_wait
from dijob.core.observed.views import ApiRejection, RejectionCause

# A rejection with 400 or 422 does not change while the object stays the same, so a retry is rarely
# useful.
FINAL_SECONDS = 300.0
# Messages from admission controllers, which may accept the same object later. Policies respond with
# 422, webhooks with any code.
ADMISSION = re.compile(r"AdmissionPolicy '|^admission webhook ")
# The watch shows only the operator's own objects, so the deletion of a foreign object that has our
# name is not reported.
TAKEN_SECONDS = (5.0, 60.0)
# An old pod usually has 30 s to terminate. Waiting up to 4 s longer than necessary is acceptable.
TERMINATING_SECONDS = (1.0, 4.0)
# With jitter, a creation is retried after 30 s at the latest, and a thousand waiting jobs cost 40
# requests per second.
FORBIDDEN_SECONDS = (1.0, 25.0)
UNAVAILABLE_SECONDS = (1.0, 60.0)
# If this much time passes before a change is reverted again, the revert counts as a new problem,
# and the back-off starts again.
FORGET_SECONDS = 600.0


def name_in_use(
    why: RejectionCause,
    what: str,
    now: datetime,
    before: ApiRejection | None = None,
    about: str = "",
) -> ApiRejection:
    """Return the rejection for an object whose name is already in use. `what` is the kind and the
    name, such as "pod x-0". `about` says what the deletion of the existing object waits for, or who
    owns that object; "": unknown.
    """
    attempts = before.attempts + 1 if before and before.why is why else 1
    if why is RejectionCause.TERMINATING:
        retry_at = now + timedelta(seconds=doubled_wait(attempts, TERMINATING_SECONDS))
        message = f"waiting for the old {what} to terminate" + (f": {about}" if about else "")
        return ApiRejection(why=why, message=message, retry_at=retry_at, attempts=attempts)
    retry_at = now + timedelta(seconds=doubled_wait(attempts, TAKEN_SECONDS))
    message = (
        f"{what} already exists and belongs to {about or 'somebody else'}: delete it, or"
        " give the job another name"
    )
    return ApiRejection(
        why=RejectionCause.TAKEN, message=message, retry_at=retry_at, attempts=attempts
    )


def replace_name(text: str, name: str, other: str) -> str:
    """Return the text with an object's name replaced by another name."""
    return re.sub(rf"(?<![-.\w]){re.escape(name)}(?![-\w])", other, text)


def of_sibling(no: ApiRejection, name: str, other: str) -> ApiRejection:
    """Return a copy of the rejection for a similar object, named `other`. So the operator need not
    try to create that object.
    """
    return replace(no, message=replace_name(no.message, name, other))


def of_port(
    name: str, there: int, wanted: int, now: datetime, before: ApiRejection | None
) -> ApiRejection:
    """Return the rejection for the Service of the job's own Redis server if that Service was
    created for a different port. The operator has no permission to change Services.
    """
    attempts = before.attempts + 1 if before and before.why is RejectionCause.OUTDATED else 1
    retry_at = now + timedelta(seconds=doubled_wait(attempts, TAKEN_SECONDS))
    message = (
        f"service {name} has port {there}, but spec.messageQueue.port is {wanted}: delete the"
        " service and the network policy of the same name, and the operator re-creates both"
        f" (kubectl delete networkpolicy,service {name})"
    )
    return ApiRejection(
        why=RejectionCause.OUTDATED, message=message, retry_at=retry_at, attempts=attempts
    )


def of_creation(
    status: int,
    message: str,
    before: ApiRejection | None,
    now: datetime,
    spread: Callable[[float], float] = float,
) -> ApiRejection:
    """Return the API server's rejection of a creation (`status`: HTTP code, 0 for no response).

    With 400 and 422 the object is invalid, unless a policy or a webhook has rejected it. A policy
    or a webhook may accept the same object later. After 403, 429 or 5xx, the API server may accept
    the same object later. (Causes of 403 include an exceeded quota, and a missing service account,
    priority class or runtime class.) In all these cases, the creation is retried after 1, 2, 4 ...
    seconds, to which `spread` adds jitter.
    """
    admission = status == 403 or (400 <= status < 500 and ADMISSION.search(message))
    if status in (400, 422) and not admission:
        attempts = before.attempts + 1 if before else 1
        retry_at = now + timedelta(seconds=FINAL_SECONDS)
        return ApiRejection(
            why=RejectionCause.REJECTED,
            message=one_line(message),
            retry_at=retry_at,
            attempts=attempts,
            since=now,
        )
    why = RejectionCause.FORBIDDEN if admission else RejectionCause.UNAVAILABLE
    bounds = FORBIDDEN_SECONDS if admission else UNAVAILABLE_SECONDS
    return _for_now(why, message, before, now, lambda times: spread(doubled_wait(times, bounds)))


def of_change(
    status: int, message: str, before: ApiRejection | None, now: datetime
) -> ApiRejection:
    """Return the API server's rejection of a patch or a deletion of an existing object.

    The operator's own change is always valid. So a policy, a webhook or a limit has rejected it,
    and may accept it the next time. The code does not matter, because 422 is also the default of
    admission policies.
    """
    lasting = 400 <= status < 500 and status != 429
    return _for_now(
        RejectionCause.FORBIDDEN if lasting else RejectionCause.UNAVAILABLE, message, before, now
    )


REVERTED = (
    "something reverts the change after each write by the operator: add an exception to the webhook"
    " or controller that does so"
)


def of_pods(what: str) -> str:
    """Return the message about a pod whose labels or annotations (`what`) are reverted after each
    write.
    """
    return (
        f"a webhook or controller reverts the pod's {what} under {names.GROUP}/ after each write by"
        f" the operator: exclude these {what} from that webhook or controller"
    )


def reverted(message: str, before: ApiRejection | None, now: datetime) -> ApiRejection:
    """Return a rejection for a change that the API server accepted, but that a webhook or another
    controller reverts. Without the rejection, the operator and that webhook or controller would
    overwrite each other's changes endlessly.
    """
    lately = before and now - before.retry_at < timedelta(seconds=FORGET_SECONDS)
    return _for_now(RejectionCause.FORBIDDEN, message, before if lately else None, now)


def _usual_wait(attempts: int) -> float:
    return doubled_wait(attempts, UNAVAILABLE_SECONDS)


def _for_now(
    why: RejectionCause,
    message: str,
    before: ApiRejection | None,
    now: datetime,
    wait: Callable[[int], float] = _usual_wait,
) -> ApiRejection:
    """Return a temporary rejection. The request is retried after wait(attempts) seconds."""
    attempts = before.attempts + 1 if before else 1
    since = before.since if before and before.why is why else now
    retry_at = now + timedelta(seconds=wait(attempts))
    return ApiRejection(
        why=why, message=one_line(message), retry_at=retry_at, attempts=attempts, since=since
    )
