"""What a "no" from the apiserver means for a job: whose fault, what to say, and when to ask
again.
"""

import re
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta

from dijob import names
from dijob.api.printed import one_line
from dijob.core.backoff import doubled
from dijob.core.observed.views import Refusal, Refused

# 400 and 422 do not change while the object is the same: asked again after this.
FINAL_SECONDS = 300.0
# Admission controllers, whose rejections end when something else changes. Policies answer with 422,
# webhooks with any code.
ADMISSION = re.compile(r"AdmissionPolicy '|^admission webhook ")
# Nobody tells when a foreign object that has our name goes: we see our own only.
TAKEN_SECONDS = (5.0, 60.0)
# An old pod has 30 s to end, unless its template says otherwise; 4 s more are little.
TERMINATING_SECONDS = (1.0, 4.0)
# No event tells when a missing object appears, or a quota is free. With spread, a creation is asked
# for again after 30 s at the latest, and a thousand such jobs cost 40 requests per second.
FORBIDDEN_SECONDS = (1.0, 25.0)
UNAVAILABLE_SECONDS = (1.0, 60.0)
# What somebody undoes so much later is another affair.
FORGET_SECONDS = 600.0


def name_in_use(
    why: Refused, what: str, now: datetime, before: Refusal | None = None, about: str = ""
) -> Refusal:
    """The name that we want belongs to another object (`what`: "pod x-0"), going or staying.
    `about` says what that one waits for, or whose it is; "": unknown.
    """
    attempts = before.attempts + 1 if before and before.why is why else 1
    if why is Refused.TERMINATING:
        again = now + timedelta(seconds=doubled(attempts, TERMINATING_SECONDS))
        message = f"waiting for the old {what} to end" + (f": {about}" if about else "")
        return Refusal(why=why, message=message, retry_at=again, attempts=attempts)
    again = now + timedelta(seconds=doubled(attempts, TAKEN_SECONDS))
    message = (
        f"{what} already exists and belongs to {about or 'somebody else'}: delete or rename it, or"
        " give the job another name"
    )
    return Refusal(why=Refused.TAKEN, message=message, retry_at=again, attempts=attempts)


def renamed(text: str, name: str, other: str) -> str:
    """Return a text with another name in the place of an object's name."""
    return re.sub(rf"(?<![-.\w]){re.escape(name)}(?![-\w])", other, text)


def of_sibling(no: Refusal, name: str, other: str) -> Refusal:
    """The same answer to the creation of another object, which need not be tried."""
    return replace(no, message=renamed(no.message, name, other))


def of_port(name: str, there: int, wanted: int, now: datetime, before: Refusal | None) -> Refusal:
    """The Service of the job's own Redis server, which was made for another port."""
    attempts = before.attempts + 1 if before and before.why is Refused.OUTDATED else 1
    again = now + timedelta(seconds=doubled(attempts, TAKEN_SECONDS))
    message = (
        f"service {name} has port {there}, but spec.messageQueue.port is {wanted}: delete the"
        " service and the network policy of the same name, and the operator re-creates both"
        f" (kubectl delete networkpolicy,service {name})"
    )
    return Refusal(why=Refused.OUTDATED, message=message, retry_at=again, attempts=attempts)


def of_creation(
    status: int,
    message: str,
    before: Refusal | None,
    now: datetime,
    spread: Callable[[float], float] = float,
) -> Refusal:
    """The API server's rejection of a creation (`status`: HTTP code, 0 for none).

    400 and 422 are wrong as they stand, unless a policy or a webhook has rejected the object. That,
    403 (a missing service account, priority class or runtime class, a quota), 429 and 5xx end
    without a change of the object: asked again after 1, 2, 4 ... seconds, to which `spread` adds
    jitter.
    """
    admission = status == 403 or (400 <= status < 500 and ADMISSION.search(message))
    if status in (400, 422) and not admission:
        attempts = before.attempts + 1 if before else 1
        again = now + timedelta(seconds=FINAL_SECONDS)
        return Refusal(
            why=Refused.REJECTED,
            message=one_line(message),
            retry_at=again,
            attempts=attempts,
            since=now,
        )
    why = Refused.FORBIDDEN if admission else Refused.UNAVAILABLE
    bounds = FORBIDDEN_SECONDS if admission else UNAVAILABLE_SECONDS
    return _for_now(why, message, before, now, lambda times: spread(doubled(times, bounds)))


def of_change(status: int, message: str, before: Refusal | None, now: datetime) -> Refusal:
    """The apiserver's answer to a change of what is there (a patch, a deletion), in its own words.

    What is changed is written by the operator, not by the user: a policy, a webhook or a limit says
    no, whatever the code (an admission policy's is 422 unless it says otherwise), and may say yes
    the next time.
    """
    lasting = 400 <= status < 500 and status != 429
    return _for_now(Refused.FORBIDDEN if lasting else Refused.UNAVAILABLE, message, before, now)


REVERTED = (
    "something reverts it after each write by the operator: exclude it from the webhook or"
    " controller that does so"
)


def of_pods(what: str) -> str:
    """REVERTED for a pod's "labels" or "annotations"."""
    return (
        f"something reverts its {what} under {names.GROUP}/ after each write by the operator:"
        " exclude them from the webhook or controller that does so"
    )


def reverted(message: str, before: Refusal | None, now: datetime) -> Refusal:
    """A change was accepted and has been made again, since something reverts it: that is as good as
    rejected.
    """
    lately = before and now - before.retry_at < timedelta(seconds=FORGET_SECONDS)
    return _for_now(Refused.FORBIDDEN, message, before if lately else None, now)


def _usual_wait(attempts: int) -> float:
    return doubled(attempts, UNAVAILABLE_SECONDS)


def _for_now(
    why: Refused,
    message: str,
    before: Refusal | None,
    now: datetime,
    wait: Callable[[int], float] = _usual_wait,
) -> Refusal:
    """Asked again after `wait` seconds, by the number of attempts."""
    attempts = before.attempts + 1 if before else 1
    since = before.since if before and before.why is why else now
    again = now + timedelta(seconds=wait(attempts))
    return Refusal(
        why=why, message=one_line(message), retry_at=again, attempts=attempts, since=since
    )
