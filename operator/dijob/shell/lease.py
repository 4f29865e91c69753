"""Which of several operators acts: the one that a Lease (coordination.k8s.io/v1) names, as with
Kubernetes' own controllers.

Nobody's wall clock counts. Who holds the lease may act for ACT_SECONDS from when it began its last
renewal, by its own monotonic clock. Another one takes the lease when it has seen no renewal for
LEASE_SECONDS, by its own: it sees a renewal after that has begun, so the one before has stopped
LEASE_SECONDS - ACT_SECONDS earlier. The election of Kubernetes' client compares wall clocks, and
does not stop its holder (kubernetes.aio.leaderelection, 37.0).
"""

import asyncio
import logging
from collections.abc import Awaitable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from dijob.shell.api import Api, ApiError, Json
from dijob.shell.clock import SYSTEM, Clock
from dijob.shell.connection import Call
from dijob.shell.kinds import LEASES

log = logging.getLogger(__name__)

LEASE_SECONDS: Final = 6.0
ACT_SECONDS: Final = 4.5
RENEW_SECONDS: Final = 1.0
# So often looks who waits for it, and so soon is tried again what has failed.
LOOK_SECONDS: Final = 0.3
TIMEOUT_SECONDS: Final = 2.0
# Who acts has renewed the lease, and who waits has seen it, so long after the apiserver is back.
BACK_SECONDS: Final = RENEW_SECONDS + TIMEOUT_SECONDS + LOOK_SECONDS
# A freed lease says so, as those of Kubernetes' own controllers do (client-go, leaderelection.go):
# one that somebody has emptied by hand may still be in use.
FREED_SECONDS: Final = 1
# What was decided before a longer pause is decided anew.
PAUSE_SECONDS: Final = 2.0


@dataclass(frozen=True)
class LeaseName:
    """Which Lease, and the name of who asks for it.

    No two operators have one `identity`. A process that is started again in its pod may have the
    one of the process before, which has ended.
    """

    namespace: str
    name: str
    identity: str


@dataclass(frozen=True)
class Record:
    """The Lease as it was read. `version` is its resourceVersion, "" where there is none;
    `holder` is "" where nobody has it, and `free` whether that is because its holder has ended, or
    nobody has ever had it (the chart makes one without a spec). `created` is when the object was
    created.
    """

    version: str = ""
    holder: str = ""
    changes: int = 0
    free: bool = False
    created: str = ""

    @staticmethod
    def of(body: Mapping[str, Any]) -> "Record":
        """From an object of the apiserver; ApiError where it is none."""
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
            raise ApiError(0, "NoLease", f"the response is not a Lease: {error!r}") from error


async def read(answer: Awaitable[Json]) -> Record:
    """The Lease in the apiserver's answer; an empty record where there is none."""
    try:
        return Record.of(await answer)
    except ApiError as error:
        if error.not_found:
            return Record()
        raise


def write(namespace: str, name: str, version: str, spec: Mapping[str, Any]) -> Call:
    """The request that changes a Lease in this version, or makes it where the version is ""."""
    if version:
        body = {"metadata": {"resourceVersion": version}, "spec": spec}
        return Call("PATCH", LEASES.path(namespace, name), body)
    kind = {"apiVersion": LEASES.version, "kind": LEASES.name}
    return Call("POST", LEASES.path(namespace), {**kind, "metadata": {"name": name}, "spec": spec})


class Sight:
    """What an operator that waits has seen of the lease, by its own clock."""

    def __init__(self, identity: str, clock: Clock) -> None:
        self._identity = identity
        self._clock = clock
        self._last = Record()
        self._since = clock.monotonic()

    def free(self, found: Record) -> bool:
        """Whether the lease as it was found can be taken. One that is not there may have been
        deleted by hand, and its holder make it again.
        """
        if found.version != self._last.version:
            self._last, self._since = found, self._clock.monotonic()
        if found.free or found.holder == self._identity:
            return True
        return self._clock.monotonic() - self._since >= LEASE_SECONDS

    def not_answered(self) -> None:
        """Nothing is known of this time: its holder may not have been answered either."""
        self._since = max(self._since, self._clock.monotonic() - LEASE_SECONDS + BACK_SECONDS)


class Lease:
    """One operator's side of a Lease. `api` serves it alone: it waits behind no other request."""

    def __init__(self, api: Api, name: LeaseName, clock: Clock = SYSTEM) -> None:
        self.identity = name.identity
        self._api = api
        self._name = name
        self._clock = clock
        self._path = LEASES.path(name.namespace, name.name)
        self._held: Record | None = None
        self._act_until = float("-inf")
        self._renewed = asyncio.Event()
        self._told = ""

    @property
    def may_act(self) -> bool:
        """Whether nobody else can have the lease now."""
        return self._clock.monotonic() < self._act_until

    async def permission(self) -> None:
        """Wait until this operator may act; ApiError after a longer pause: what was decided before
        it is to be decided anew.
        """
        began = self._clock.monotonic()
        while not self.may_act:
            self._renewed.clear()
            await self._renewed.wait()
        if self._clock.monotonic() - began > PAUSE_SECONDS:
            text = f"the operator could not renew its lease for more than {PAUSE_SECONDS:g} s"
            raise ApiError(0, "NotRenewed", text)

    async def acquire(self) -> None:
        """Wait until this operator has the lease."""
        sight = Sight(self.identity, self._clock)
        while True:
            try:
                found = await self._read()
                if sight.free(found):
                    await self._take(found)
                    return
                self._say(f"standby (leader: {found.holder or 'none'})")
            except ApiError as error:
                # A conflict: another one was faster.
                if not error.conflict:
                    sight.not_answered()
                    self._say(f"failed to read the lease: {error}")
            await asyncio.sleep(LOOK_SECONDS)

    async def keep(self) -> None:
        """Renew the lease, which this operator has; returns when another one has it."""
        wait = RENEW_SECONDS
        while self._held is not None:
            await asyncio.sleep(wait)
            wait = RENEW_SECONDS
            try:
                await self._write(self._held)
                self._say("leading, the lease is renewed")
            except ApiError as error:
                wait = LOOK_SECONDS
                self._say(f"failed to renew the lease: {error}")
                if error.conflict or error.not_found:
                    await self._look()

    async def release(self) -> None:
        """Free the lease, if this operator has it: another one takes it at once.

        A write of this operator may still be under way, so that the version is not what it knows.
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
            except ApiError as error:
                self._say(f"failed to release the lease: {error}")

    async def _read(self) -> Record:
        return await read(self._answer(Call("GET", self._path)))

    async def _take(self, found: Record) -> None:
        """Make the lease this operator's, where it is still as it was found."""
        changed = found.holder != self.identity
        record = Record(found.version, self.identity, found.changes + changed)
        await self._write(record, acquireTime=stamp(self._clock))
        self._say(f"became leader (previous holder: {found.holder or 'none'})")

    async def _write(self, record: Record, **more: str) -> None:
        """Renew it, in that version."""
        began = self._clock.monotonic()
        spec = {
            "holderIdentity": record.holder,
            "leaseDurationSeconds": int(LEASE_SECONDS),
            "leaseTransitions": record.changes,
            "renewTime": stamp(self._clock),
            **more,
        }
        self._held = await self._put(record.version, spec)
        self._act_until = began + ACT_SECONDS
        self._renewed.set()

    async def _put(self, version: str, spec: Mapping[str, Any]) -> Record:
        call = write(self._name.namespace, self._name.name, version, spec)
        return Record.of(await self._answer(call))

    async def _answer(self, call: Call) -> Json:
        try:
            async with asyncio.timeout(TIMEOUT_SECONDS):
                return await self._api.call(call)
        except TimeoutError as error:
            raise ApiError(0, "Timeout", f"no response for {TIMEOUT_SECONDS:g} s") from error

    async def _look(self) -> None:
        """Whose it is, where it is not in the version in which this operator has written it."""
        try:
            found = await self._read()
        except ApiError as error:
            self._say(f"failed to read the lease: {error}")
            return
        # Where somebody has deleted or emptied it, nobody else can have had it since.
        if found.holder == self.identity or (not found.holder and self.may_act):
            self._held = Record(found.version, self.identity, found.changes)
        else:
            self._held, self._act_until = None, float("-inf")
            self._say(f"lost leadership (new holder: {found.holder or 'none'})")

    def _say(self, text: str) -> None:
        """Once, however often it is so."""
        if text != self._told:
            self._told = text
            log.info("lease %s/%s: %s", self._name.namespace, self._name.name, text)


def stamp(clock: Clock) -> str:
    """Now, for who reads the Lease; nobody decides by it."""
    return clock.now().strftime("%Y-%m-%dT%H:%M:%S.%fZ")
