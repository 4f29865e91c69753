"""Which release serves a namespace, where several could.

A release that was given namespaces claims each of them, by a Lease in it; a release for the whole
cluster leaves out what is claimed. Who may write Leases in a namespace can claim it for nobody,
and stops what the operator does there, and nowhere else.

Nothing depends on the moment at which a claim is seen: what two operators write about one object
is refused to one of them (docs/decisions/028).
"""

import asyncio
import logging
from collections.abc import Mapping
from typing import Any, Final

from dijob.api.printed import one_line
from dijob.names import CLAIM
from dijob.shell import metrics
from dijob.shell.api import Api, ApiError
from dijob.shell.clock import SYSTEM, Clock
from dijob.shell.kinds import LEASES
from dijob.shell.lease import Record, read, stamp, write

log = logging.getLogger(__name__)

# So often a release renews its claims and looks at those of others.
LOOK_SECONDS: Final = 5.0
# A claim that has not been renewed for so long is nobody's: its release is gone.
STALE_SECONDS: Final = 30.0
# All others have seen a claim so long after it was made.
SEEN_SECONDS: Final = LOOK_SECONDS + 2.0
# The longest name that Kubernetes gives to anything.
HOLDER_LIMIT: Final = 253


class Claims:
    """What other releases serve, as this one has seen it. `release` is its name among them; no
    namespaces: it serves what nobody else does.
    """

    def __init__(
        self, api: Api, release: str, namespaces: tuple[str, ...], clock: Clock = SYSTEM
    ) -> None:
        self._api = api
        self._release = release
        self._namespaces = namespaces
        self._clock = clock
        self._seen: dict[str, tuple[Record, float]] = {}
        self._others: dict[str, str] = {}
        self._said: dict[str, str] = {}

    def other(self, namespace: str) -> str:
        """The release that serves a namespace in place of this one; "" where this one does."""
        return self._others.get(namespace, "")

    def notice(self, namespace: str) -> str:
        """Why this operator leaves the jobs of a namespace alone, and what to do."""
        found, _ = self._seen[namespace]
        return (
            f"release {self._release} does not reconcile this job: Lease {CLAIM} in namespace"
            f" {namespace}, created at {found.created or 'an unknown time'}, assigns the namespace"
            f" to release {_printable(found.holder)}. If that release no longer runs: kubectl"
            f" delete lease {CLAIM} -n {namespace}"
        )

    async def begin(self) -> None:
        """Look for the first time; a claim that is new is seen by all others at the end."""
        if await self._look():
            await asyncio.sleep(SEEN_SECONDS)

    async def run(self) -> None:
        """Renew and look until cancelled."""
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            await self._look()

    async def _look(self) -> bool:
        """Whether a namespace is claimed that was not before."""
        if self._namespaces:
            new = [await self._claim(namespace) for namespace in self._namespaces]
        else:
            new = []
            await self._read_all()
        metrics.LEFT_OUT.set(len(self._others))
        return any(new)

    async def _claim(self, namespace: str) -> bool:
        """Make or renew the claim of one namespace, where nobody else has it. Whether it is new."""
        try:
            found = await self._read(namespace)
            self._see(namespace, found)
            if not self.other(namespace):
                await self._write(namespace, found)
        except ApiError as error:
            self._say(namespace, f"failed to renew the claim: {error}")
            return False
        return not self.other(namespace) and found.holder != self._release

    async def _read_all(self) -> None:
        try:
            listed = await self._api.get(LEASES.path(), fieldSelector=f"metadata.name={CLAIM}")
            found = {_namespace(item): Record.of(item) for item in listed.get("items") or ()}
        except ApiError as error:
            self._say("", f"failed to read the claims of other releases: {error}")
            return
        for namespace in self._others.keys() - found.keys():
            self._see(namespace, Record())
        for namespace, record in found.items():
            self._see(namespace, record)

    def _see(self, namespace: str, found: Record) -> None:
        """Take in a claim as it was read."""
        now = self._clock.monotonic()
        before, since = self._seen.get(namespace, (None, now))
        if before != found:
            since = now
        self._seen[namespace] = found, since
        if found.holder in ("", self._release) or now - since >= STALE_SECONDS:
            if self._others.pop(namespace, ""):
                self._say(namespace, "no longer claimed by another release")
        else:
            self._others[namespace] = found.holder
            self._say(namespace, f"claimed by release {found.holder}, skipping its jobs")

    async def _read(self, namespace: str) -> Record:
        return await read(self._api.get(LEASES.path(namespace, CLAIM)))

    async def _write(self, namespace: str, found: Record) -> None:
        spec = {
            "holderIdentity": self._release,
            "leaseDurationSeconds": int(STALE_SECONDS),
            "renewTime": stamp(self._clock),
        }
        await self._api.call(write(namespace, CLAIM, found.version, spec))

    def _say(self, namespace: str, text: str) -> None:
        """Once, however often it is so."""
        if self._said.get(namespace) != text:
            self._said[namespace] = text
            log.info("%s: %s", f"namespace {namespace}" if namespace else "all namespaces", text)


def _printable(holder: str) -> str:
    """The name of a holder, which anyone who may write Leases chooses."""
    return one_line(holder[:HOLDER_LIMIT])


def _namespace(lease: Mapping[str, Any]) -> str:
    return str((lease.get("metadata") or {}).get("namespace"))
