"""What a call ends with when it does not do what it is asked: each error's text is one sentence for
people.
"""

from http import HTTPStatus
from typing import Any, Final


class DijobError(Exception):
    """All errors of this package."""


class BadFile(DijobError):
    """A file, or an object in it, cannot be sent as it is. The sentence names file and field."""


class BadName(DijobError):
    """What is given as an object's name can be none."""


class Unreachable(DijobError):
    """The apiserver does not answer, or no kubeconfig leads to one."""


class TimedOut(DijobError):
    """What was waited for has not come in time."""


class ApiError(DijobError):
    """The apiserver's "no".

    `status` is the HTTP status, `reason` the apiserver's word for it, `message` its sentence.
    """

    def __init__(self, status: int, reason: str, message: str) -> None:
        super().__init__(message)
        self.status, self.reason, self.message = status, reason, message


class NotFound(ApiError):
    """There is no such object, or no such kind in this cluster."""


# The reason of a NotFound where the whole kind is missing.
NO_SUCH_KIND: Final = "NoSuchKind"


class Refused(ApiError):
    """A rule of the object, a missing right, a quota, or somebody else's change."""


def api_error(status: int, answer: Any, what: str) -> ApiError:
    """The error in an answer of the apiserver. `what` is the call in words, for answers that have
    no sentence of their own.
    """
    if status == HTTPStatus.NOT_FOUND and isinstance(answer, str):
        # Only paths of kinds that the apiserver does not know are answered without a Status.
        return NotFound(status, NO_SUCH_KIND, f"{what}: {_NO_KIND}")
    told = answer if isinstance(answer, dict) else {}
    reason = str(told.get("reason") or _phrase(status))
    message = str(told.get("message") or "")
    if not message:
        said = f": {answer.strip()[:500]}" if isinstance(answer, str) and answer.strip() else ""
        message = f"{what} was answered with {status} {reason}{said}"
    if status == HTTPStatus.NOT_FOUND:
        return NotFound(status, reason, message)
    if 400 <= status < 500:
        return Refused(status, reason, message + _remedy(status, message))
    return ApiError(status, reason, message)


_NO_KIND: Final = (
    "the cluster does not know this kind of object; for DIJobs install the operator"
    " (docs/install.md), or choose the cluster that has it with --context"
)


def _remedy(status: int, message: str) -> str:
    if status == HTTPStatus.UNAUTHORIZED:
        return ": the cluster does not accept the kubeconfig's credentials; log in again"
    if status == HTTPStatus.CONFLICT and "conflict with" in message:
        return ". Take the field out of the file, or apply with --force-conflicts"
    return ""


def _phrase(status: int) -> str:
    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return "an unknown status"
