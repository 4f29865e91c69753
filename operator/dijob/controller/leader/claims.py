"""Manages the claims of namespaces, so that two releases do not reconcile the same jobs.

A release that is restricted to some namespaces claims each of them with a Lease in that namespace.
A release for the whole cluster skips claimed namespaces. A user with write access to Leases in a
namespace can claim it without serving it. A false claim stops the operator only in that namespace.
A claim for the whole cluster could stop the operator everywhere, so there is no such claim
(docs/decisions/028).

A claim that is observed late does no harm. If two operators write to the same object, the apiserver
rejects one of the writes, because each write carries the resourceVersion.
"""

import asyncio
import logging
from collections.abc import Mapping
from typing import Any, Final

from dijob.api.printed import one_line
from dijob.controller import metrics
from dijob.controller.leader.lease import Record, format_renew_time, lease_write_call, read_lease
from dijob.kube.api import Api, RequestError
from dijob.kube.kinds import LEASES
from dijob.names import CLAIM
from dijob.process.clock import SYSTEM, Clock

log = logging.getLogger(__name__)

# Interval at which a release renews its claims and reads those of others.
LOOK_SECONDS: Final = 5.0
# A claim that has not been renewed for this long is stale: the release that made the claim is no
# longer running.
STALE_SECONDS: Final = 30.0
# A claim of this age has been observed by all other releases.
SEEN_SECONDS: Final = LOOK_SECONDS + 2.0
# Any user with access to Leases can write a holderIdentity of any length. No valid name is longer
# than this.
HOLDER_LIMIT: Final = 253


class Claims:
    """The claims of other releases, as observed by this release (`release`). If `namespaces` is
    empty, this release serves every namespace that no other release claims.
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
        self._logged: dict[str, str] = {}

    def other(self, namespace: str) -> str:
        """Return the other release that serves a namespace, or "" if this one serves it."""
        return self._others.get(namespace, "")

    def notice(self, namespace: str) -> str:
        """Return the message of the event on jobs in a namespace that another release claims."""
        found, _ = self._seen[namespace]
        return (
            f"release {self._release} does not reconcile this job: Lease {CLAIM} in namespace"
            f" {namespace}, created at {found.created or 'an unknown time'}, assigns the namespace"
            f" to release {_clean_holder(found.holder)}. If that release is no longer running:"
            f" kubectl delete lease {CLAIM} -n {namespace}"
        )

    async def begin(self) -> None:
        """Make or read the claims for the first time. After making a new claim, wait until all
        other releases have observed it.
        """
        if await self._look():
            await asyncio.sleep(SEEN_SECONDS)

    async def run(self) -> None:
        """Renew and read claims until canceled."""
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            await self._look()

    async def _look(self) -> bool:
        """Renew or read all claims. Return whether this release has made a new claim."""
        if self._namespaces:
            new = [await self._claim(namespace) for namespace in self._namespaces]
        else:
            new = []
            await self._read_all()
        metrics.LEFT_OUT.set(len(self._others))
        return any(new)

    async def _claim(self, namespace: str) -> bool:
        """Make or renew the claim of one namespace, unless another release holds it. Return whether
        the claim is new.
        """
        try:
            found = await self._read(namespace)
            self._see(namespace, found)
            if not self.other(namespace):
                await self._write(namespace, found)
        except RequestError as error:
            self._log_once(namespace, f"failed to renew the claim: {error}")
            return False
        return not self.other(namespace) and found.holder != self._release

    async def _read_all(self) -> None:
        try:
            listed = await self._api.get(LEASES.path(), fieldSelector=f"metadata.name={CLAIM}")
            found = {_lease_namespace(item): Record.of(item) for item in listed.get("items") or ()}
        except RequestError as error:
            self._log_once("", f"failed to read the claims of other releases: {error}")
            return
        # If a Lease was deleted, for example by `helm uninstall`, the Helm release that held it has
        # given up its claim.
        for namespace in self._others.keys() - found.keys():
            self._see(namespace, Record())
        for namespace, record in found.items():
            self._see(namespace, record)

    def _see(self, namespace: str, found: Record) -> None:
        """Record a claim that has just been read."""
        # As in leader election, no wall clocks are compared. A claim is stale if this process has
        # not seen it change for STALE_SECONDS, measured with the process's own monotonic clock.
        now = self._clock.monotonic()
        before, since = self._seen.get(namespace, (None, now))
        if before != found:
            since = now
        self._seen[namespace] = found, since
        if found.holder in ("", self._release) or now - since >= STALE_SECONDS:
            if self._others.pop(namespace, ""):
                self._log_once(namespace, "no longer claimed by another release")
        else:
            self._others[namespace] = found.holder
            self._log_once(
                namespace, f"claimed by release {found.holder}, skipping the jobs in this namespace"
            )

    async def _read(self, namespace: str) -> Record:
        return await read_lease(self._api.get(LEASES.path(namespace, CLAIM)))

    async def _write(self, namespace: str, found: Record) -> None:
        spec = {
            "holderIdentity": self._release,
            "leaseDurationSeconds": int(STALE_SECONDS),
            "renewTime": format_renew_time(self._clock),
        }
        await self._api.call(lease_write_call(namespace, CLAIM, found.version, spec))

    def _log_once(self, namespace: str, text: str) -> None:
        """Log a line about a namespace, unless the last line about this namespace was the same."""
        if self._logged.get(namespace) != text:
            self._logged[namespace] = text
            log.info("%s: %s", f"namespace {namespace}" if namespace else "all namespaces", text)


def _clean_holder(holder: str) -> str:
    """Return the holder of a Lease, truncated and without line breaks or control characters."""
    return one_line(holder[:HOLDER_LIMIT])


def _lease_namespace(lease: Mapping[str, Any]) -> str:
    return str((lease.get("metadata") or {}).get("namespace"))
