"""The errors that the client raises.

The text of each error is a sentence for the user, because the command line and notebooks show it
unchanged. The class tells programs what can be done: change the file, wait and retry, or request a
permission.
"""

from collections.abc import Sequence
from difflib import get_close_matches
from http import HTTPStatus
from typing import Any, Final


class DijobError(Exception):
    """Base class of all errors of this package."""


class BadFile(DijobError):
    """A file, or an object in it, is invalid. The text names the file and the field."""


class BadName(DijobError):
    """The text cannot be used as the name of an object."""


class BadValue(DijobError):
    """An argument is not one of the allowed values. The text suggests the value that was probably
    meant.
    """


class Unreachable(DijobError):
    """The apiserver does not respond, or there is no usable kubeconfig."""


class TimedOut(DijobError):
    """A timeout expired."""


class ApiError(DijobError):
    """The apiserver returned an error.

    `status` is the HTTP status. `reason` and `message` are those of the apiserver's Status object.
    """

    def __init__(self, status: int, reason: str, message: str) -> None:
        super().__init__(message)
        self.status, self.reason, self.message = status, reason, message


class NotFound(ApiError):
    """There is no such object, or no such kind in this cluster."""


class JobNotFound(NotFound):
    """There is no DIJob of this name."""

    def __init__(self, namespace: str, name: str) -> None:
        super().__init__(404, "NotFound", f"there is no DIJob {name} in namespace {namespace}")
        self.name = name


# The reason of a NotFound error if the cluster does not serve the kind at all. Kubernetes does not
# define this reason. The client needs it to tell a missing CRD from a missing job.
NO_SUCH_KIND: Final = "NoSuchKind"


class Refused(ApiError):
    """The apiserver rejected the request: invalid object, missing permission, quota, conflict."""


def raise_if_unauthenticated(error: ApiError) -> None:
    """Re-raise the error if it is about the user's login and not about the request."""
    if error.status == HTTPStatus.UNAUTHORIZED:
        raise error


def check_choice(what: str, value: str, choices: Sequence[str]) -> None:
    """Raise BadValue if a value is not one of the choices."""
    if value in choices:
        return
    near = get_close_matches(value.lower(), choices, n=1)
    meant = f"did you mean {near[0]!r}? " if near else ""
    raise BadValue(f"{what} is {value!r}: {meant}It can be {', '.join(map(repr, choices))}")


def api_error(status: int, answer: Any, what: str) -> ApiError:
    """Return the error for a response from the apiserver.

    `what` describes the call, such as "GET /api/v1/pods", and is used if the response has no
    message.
    """
    if status == HTTPStatus.NOT_FOUND and isinstance(answer, str):
        # A 404 about a missing object has a Status object as its body. Only a 404 about a kind that
        # the apiserver does not serve has a plain-text body.
        return NotFound(status, NO_SUCH_KIND, f"{what}: {_NO_KIND}")
    # A proxy in front of the apiserver can respond with anything, such as an HTML page.
    found = answer if isinstance(answer, dict) else {}
    reason = str(found.get("reason") or _status_phrase(status))
    message = str(found.get("message") or "")
    if not message:
        text = f": {answer.strip()[:500]}" if isinstance(answer, str) and answer.strip() else ""
        message = f"{what} failed with {status} {reason}{text}"
    if status == HTTPStatus.NOT_FOUND:
        return NotFound(status, reason, message)
    if 400 <= status < 500:
        return Refused(status, reason, message + _remedy_for(status, message))
    return ApiError(status, reason, message)


_NO_KIND: Final = (
    "the cluster does not have this kind; for DIJobs install the operator (docs/install.md), or"
    " select another cluster with --context"
)


def _remedy_for(status: int, message: str) -> str:
    if status == HTTPStatus.UNAUTHORIZED:
        return ": the cluster rejected the kubeconfig's credentials; log in again"
    # A 409 can have other causes, such as an object that is being deleted. Only a conflict of
    # server-side apply can be resolved by taking over the field.
    if status == HTTPStatus.CONFLICT and "conflict with" in message:
        return ". Remove the field from the file, or apply with --force-conflicts"
    return ""


def _status_phrase(status: int) -> str:
    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return "unknown status"
