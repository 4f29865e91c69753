"""Leader election with a Lease (coordination.k8s.io/v1), as in Kubernetes' own controllers.

No wall clocks are compared: each replica measures durations with its own monotonic clock. The
leader may write for ACT_SECONDS after it started to send its last successful renewal. A standby
takes the Lease if it has not observed a renewal for LEASE_SECONDS. A standby cannot observe a
renewal before the leader has started to send it. So at least LEASE_SECONDS - ACT_SECONDS pass
between the last write of the old leader and the first write of the new leader.

The leader election of the Kubernetes Python client (kubernetes.aio.leaderelection, 37.0) is not
used. It compares wall clocks, and it does not stop a leader that cannot renew. For the details, see
docs/decisions/028.
"""

import asyncio
import logging
from collections.abc import Awaitable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from dijob.kube.api import Api, Json, RequestError
from dijob.kube.connection import OperatorRequest
from dijob.kube.kinds import LEASES
from dijob.process.clock import SYSTEM, Clock

log = logging.getLogger(__name__)

LEASE_SECONDS: Final = 6.0
ACT_SECONDS: Final = 4.5
RENEW_SECONDS: Final = 1.0
# Poll interval of a standby, and the retry delay after an error.
LOOK_SECONDS: Final = 0.3
# A request that takes longer than this is abandoned, so that the leader does not lose its Lease
# because of one lost packet.
TIMEOUT_SECONDS: Final = 2.0
# Within this time after an outage of the apiserver, the leader renews the Lease, and the standby
# observes the renewal.
BACK_SECONDS: Final = RENEW_SECONDS + TIMEOUT_SECONDS + LOOK_SECONDS
# The leaseDurationSeconds of a released Lease, as in client-go (leaderelection.go). If a Lease has
# no holder, but its leaseDurationSeconds is different, it was not released: someone has edited it.
# Its leader may still be active.
FREED_SECONDS: Final = 1
# A write that waited longer than this for the lease is not sent, because its plan may be stale.
PAUSE_SECONDS: Final = 2.0


@dataclass(frozen=True)
class LeaseName:
    """The Lease, and the identity of this replica.

    Replicas must have different identities. A container that restarts in its pod keeps the
    identity, and may take the Lease at once: the previous process has exited.
    """

    namespace: str
    name: str
    identity: str


@dataclass(frozen=True)
class Record:
    """The Lease as it was read.

    `version` is the resourceVersion, or "" if the Lease does not exist. `changes` counts how often
    the holder has changed. `free` is true if any replica may take the Lease at once. Either its
    holder has released it, or it has never had a holder: the chart creates it without a spec.
    `created` is its creationTimestamp.
    """

    version: str = ""
    holder: str = ""
    changes: int = 0
    free: bool = False
    created: str = ""

    @staticmethod
    def of(body: Mapping[str, Any]) -> "Record":
        """Read a Lease from a response. Raises RequestError if the response is not a Lease."""
        # A proxy in between can return any document with the status 200.
        try:
            spec = body.get("spec") or {}
            holder = str(spec.get("holderIdentity") or "")
            free = not spec or (not holder and spec.get("leaseDurationSeconds") == FREED_SECONDS)
            changes = int(spec.get("leaseTransitions") or 0)
            meta = body["metadata"]
            created = str(meta.get("creationTimestamp") or "")
            version = str(meta["resourceVersion"])
            return Record(version, holder, changes, free=free, created=created)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise RequestError(0, "NoLease", f"the response is not a Lease: {error!r}") from error


async def read_lease(answer: Awaitable[Json]) -> Record:
    """Return the Lease in a response, or an empty record if the Lease does not exist."""
    try:
        return Record.of(await answer)
    except RequestError as error:
        if error.not_found:
            return Record()
        raise


def lease_write_call(
    namespace: str, name: str, version: str, spec: Mapping[str, Any]
) -> OperatorRequest:
    """Return the request that updates a Lease if it still has this version, or that creates the
    Lease if the version is "".
    """
    if version:
        body = {"metadata": {"resourceVersion": version}, "spec": spec}
        return OperatorRequest("PATCH", LEASES.path(namespace, name), body)
    kind = {"apiVersion": LEASES.version, "kind": LEASES.name}
    return OperatorRequest(
        "POST", LEASES.path(namespace), {**kind, "metadata": {"name": name}, "spec": spec}
    )


class Sight:
    """A standby's observations of the Lease, timed by its own monotonic clock."""

    def __init__(self, identity: str, clock: Clock) -> None:
        self._identity = identity
        self._clock = clock
        self._last = Record()
        self._since = clock.monotonic()

    def free(self, found: Record) -> bool:
        """Whether this replica may take the Lease. `found` is the Lease as it was just read.

        If the Lease does not exist, it may be taken only after LEASE_SECONDS. Someone may have
        deleted it, and the leader may be about to create it again.
        """
        if found.version != self._last.version:
            self._last, self._since = found, self._clock.monotonic()
        if found.free or found.holder == self._identity:
            return True
        return self._clock.monotonic() - self._since >= LEASE_SECONDS

    def not_answered(self) -> None:
        """Extend the wait after a failed read. The leader may be cut off from the apiserver too.
        After the outage, it gets BACK_SECONDS to renew the Lease.
        """
        self._since = max(self._since, self._clock.monotonic() - LEASE_SECONDS + BACK_SECONDS)


class Lease:
    """One replica's part in the leader election. `api` is used for the Lease only, so that a
    renewal never waits for other requests.
    """

    def __init__(self, api: Api, name: LeaseName, clock: Clock = SYSTEM) -> None:
        self.identity = name.identity
        self._api = api
        self._name = name
        self._clock = clock
        self._path = LEASES.path(name.namespace, name.name)
        self._held: Record | None = None
        self._act_until = float("-inf")
        self._renewed = asyncio.Event()
        self._logged = ""

    @property
    def may_act(self) -> bool:
        """Whether this replica is certain to be the only leader."""
        return self._clock.monotonic() < self._act_until

    async def permission(self) -> None:
        """Wait until this replica may write. Raises RequestError if that took longer than
        PAUSE_SECONDS, because the write must then be planned again.
        """
        began = self._clock.monotonic()
        while not self.may_act:
            self._renewed.clear()
            await self._renewed.wait()
        if self._clock.monotonic() - began > PAUSE_SECONDS:
            text = f"the operator could not renew its lease for more than {PAUSE_SECONDS:g} s"
            raise RequestError(0, "NotRenewed", text)

    async def acquire(self) -> None:
        """Wait until this replica holds the Lease."""
        sight = Sight(self.identity, self._clock)
        while True:
            try:
                found = await self._read()
                if sight.free(found):
                    await self._take(found)
                    return
                self._log_once(f"standby (leader: {found.holder or 'none'})")
            except RequestError as error:
                # A conflict means that another replica took the Lease first.
                if not error.conflict:
                    sight.not_answered()
                    self._log_once(f"failed to read the lease: {error}")
            await asyncio.sleep(LOOK_SECONDS)

    async def keep(self) -> None:
        """Renew the Lease until another replica holds it."""
        wait = RENEW_SECONDS
        while self._held is not None:
            await asyncio.sleep(wait)
            wait = RENEW_SECONDS
            try:
                await self._write(self._held)
                self._log_once("this replica is the leader and has renewed the lease")
            except RequestError as error:
                wait = LOOK_SECONDS
                self._log_once(f"failed to renew the lease: {error}")
                if error.conflict or error.not_found:
                    await self._look()

    async def release(self) -> None:
        """Release the Lease if this replica holds it, so that a standby takes it at once.

        A renewal may still be in flight and change the resourceVersion, so a conflict is retried.
        """
        self._held, self._act_until = None, float("-inf")
        for _ in range(3):
            try:
                found = await self._read()
                if found.holder != self.identity:
                    return
                spec = {"holderIdentity": "", "leaseDurationSeconds": FREED_SECONDS}
                await self._put(found.version, spec)
                return
            except RequestError as error:
                self._log_once(f"failed to release the lease: {error}")

    async def _read(self) -> Record:
        return await read_lease(self._answer(OperatorRequest("GET", self._path)))

    async def _take(self, found: Record) -> None:
        """Take the Lease if it has not changed since it was read."""
        changed = found.holder != self.identity
        record = Record(found.version, self.identity, found.changes + changed)
        await self._write(record, acquireTime=format_renew_time(self._clock))
        self._log_once(f"became leader (previous holder: {found.holder or 'none'})")

    async def _write(self, record: Record, **more: str) -> None:
        """Write the Lease if it still has the version of `record`."""
        # ACT_SECONDS is measured from just before the request, because a standby may observe the
        # renewal as soon as the request is sent.
        began = self._clock.monotonic()
        spec = {
            "holderIdentity": record.holder,
            "leaseDurationSeconds": int(LEASE_SECONDS),
            "leaseTransitions": record.changes,
            "renewTime": format_renew_time(self._clock),
            **more,
        }
        self._held = await self._put(record.version, spec)
        self._act_until = began + ACT_SECONDS
        self._renewed.set()

    async def _put(self, version: str, spec: Mapping[str, Any]) -> Record:
        call = lease_write_call(self._name.namespace, self._name.name, version, spec)
        return Record.of(await self._answer(call))

    async def _answer(self, call: OperatorRequest) -> Json:
        try:
            async with asyncio.timeout(TIMEOUT_SECONDS):
                return await self._api.call(call)
        except TimeoutError as error:
            raise RequestError(0, "Timeout", f"no response for {TIMEOUT_SECONDS:g} s") from error

    async def _look(self) -> None:
        """Read the Lease after a renewal has been rejected, and find out who holds it."""
        try:
            found = await self._read()
        except RequestError as error:
            self._log_once(f"failed to read the lease: {error}")
            return
        # Someone may have deleted the Lease or removed its holder. If this replica may still write,
        # no standby has taken the Lease yet, because standbys wait for LEASE_SECONDS. So this
        # replica keeps the Lease.
        if found.holder == self.identity or (not found.holder and self.may_act):
            self._held = Record(found.version, self.identity, found.changes)
        else:
            self._held, self._act_until = None, float("-inf")
            self._log_once(f"lost leadership (new holder: {found.holder or 'none'})")

    def _log_once(self, text: str) -> None:
        """Log a line, unless the last line was the same."""
        if text != self._logged:
            self._logged = text
            log.info("lease %s/%s: %s", self._name.namespace, self._name.name, text)


def format_renew_time(clock: Clock) -> str:
    """Return the time for the field renewTime, which is informational: no decision uses it."""
    return clock.now().strftime("%Y-%m-%dT%H:%M:%S.%fZ")
