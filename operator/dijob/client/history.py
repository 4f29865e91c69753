"""Reads the history of jobs, through the API server's proxy for Services.

The history checks the user's permissions itself, so each request carries the user's token in a
header. Some users have no token, for example users with a client certificate. Such a user gets a
short-lived token of the history's service account, if the API server lets the user create it.
"""

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import quote

from dijob import names
from dijob.api.recorded import JobRecord, LogTail
from dijob.client.connection import ClientConnection, ClientRequest, Json
from dijob.client.errors import ApiError, BadName, NotFound, Refused, Unreachable

PLACE_VARIABLE: Final = "DIJOB_HISTORY"
# The Service of the release `dijob` in the namespace that docs/install.md uses.
DEFAULT_PLACE: Final = "dijob-system/dijob-history"
_TOKEN_SECONDS: Final = 600


@dataclass(frozen=True)
class HistoryPlace:
    """The namespace and the name of the history's Service. The history's service account has the
    same name.
    """

    namespace: str
    name: str

    @staticmethod
    def parse(given: str = "") -> "HistoryPlace":
        """Return the place from NAMESPACE/NAME, else from $DIJOB_HISTORY, else the default one.

        Raises BadName.
        """
        text = given or os.environ.get(PLACE_VARIABLE) or DEFAULT_PLACE
        namespace, _, name = text.partition("/")
        if not (namespace and name and "/" not in name):
            raise BadName(f"{text!r} is not the name of a Service: write NAMESPACE/NAME")
        return HistoryPlace(namespace, name)

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


@dataclass(frozen=True)
class HistoryQuery:
    """Which records to list. An empty field excludes no records; `namespace` "" means all
    namespaces.
    """

    namespace: str = ""
    name: str = ""
    phases: Sequence[str] = ()
    since: str = ""
    owner: str = ""
    labels: str = ""
    limit: int = 100

    @property
    def parameters(self) -> tuple[tuple[str, str], ...]:
        """The parameters of the request."""
        texts = ("namespace", "name", "since", "owner", "labels")
        given = tuple((key, str(getattr(self, key))) for key in texts if getattr(self, key))
        return (*given, *(("phase", one) for one in self.phases), ("limit", str(self.limit)))


@dataclass
class HistoryReader:
    """Requests to one history."""

    connection: ClientConnection
    place: HistoryPlace = field(default_factory=HistoryPlace.parse)
    _token: str = ""

    async def list_records(self, query: HistoryQuery) -> list[JobRecord]:
        """Return records, with the newest jobs first."""
        found = await self._get("", query.parameters)
        return [JobRecord.model_validate(one) for one in found["items"]]

    async def get_record(
        self, namespace: str, name: str, uid: str = ""
    ) -> tuple[JobRecord, list[LogTail]]:
        """Return one record, and its logs without their `text`. Raises NotFound."""
        found = await self._get(_path(namespace, name), (("uid", uid),))
        logs = [LogTail.model_validate(one) for one in found.pop("logs", ())]
        return JobRecord.model_validate(found), logs

    async def read_logs(
        self, namespace: str, name: str, uid: str = "", rank: int | None = None
    ) -> list[LogTail]:
        """Return the logs of a job, or of one of its ranks. Raises NotFound."""
        wanted = (("uid", uid), ("rank", "" if rank is None else str(rank)))
        found = await self._get(f"{_path(namespace, name)}/logs", wanted)
        return [LogTail.model_validate(one) for one in found["items"]]

    async def _get(self, path: str, query: tuple[tuple[str, str], ...]) -> Json:
        place = self.place
        service = f"/api/v1/namespaces/{quote(place.namespace)}/services/{quote(place.name)}:http"
        call = ClientRequest(
            "GET",
            f"{service}/proxy{names.HISTORY_PATH}{path}",
            query=query,
            headers=((names.HISTORY_TOKEN_HEADER, await self._find_token()),),
        )
        try:
            return await self.connection.json(call)
        except NotFound as error:
            # The proxy looks for the Service's Endpoints first.
            if error.message.startswith(("services ", "endpoints ")):
                raise _absent(place) from error
            raise
        except ApiError as error:
            if error.status == 503 and "no endpoints" in error.message:
                raise Unreachable(f"the history {place} is not running: {error.message}") from error
            raise

    async def _find_token(self) -> str:
        """Return the token for a request. It is read each time, because tokens expire."""
        if given := await self.connection.read_token():
            return given
        if not self._token:
            self._token = await self._create_token()
        return self._token

    async def _create_token(self) -> str:
        place = self.place
        path = f"/api/v1/namespaces/{quote(place.namespace)}/serviceaccounts/{quote(place.name)}"
        body = {
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenRequest",
            "spec": {"expirationSeconds": _TOKEN_SECONDS},
        }
        try:
            made = await self.connection.json(ClientRequest("POST", f"{path}/token", body))
        except NotFound as error:
            raise _absent(place) from error
        except Refused as error:
            raise Refused(
                error.status,
                error.reason,
                "the history needs a token, and your kubeconfig has none (it has a client"
                f" certificate, or impersonates a user): {error.message}",
            ) from error
        return str(made["status"]["token"])


def _path(namespace: str, name: str) -> str:
    for part in (namespace, name):
        if not part or "/" in part or part in (".", ".."):
            raise BadName(f"{part!r} is not a valid object name")
    return f"/{quote(namespace)}/{quote(name)}"


def _absent(place: HistoryPlace) -> NotFound:
    return NotFound(
        404,
        "NotFound",
        f"the cluster has no history at the Service {place}: enable it with the chart value"
        f" history.enabled, or name another Service with --service or ${PLACE_VARIABLE}",
    )
