"""The users who have the page open: the connection and the watches of each.

Nothing is shared between users. The tabs of one user share a watch of the jobs. A watch ends when
no tab shows it any longer. A connection ends when the last request of its user ends, so no
credentials are kept.
"""

import asyncio
import hashlib
from collections.abc import AsyncGenerator, AsyncIterator, Iterator
from contextlib import aclosing, asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from typing import Final, Self

from dijob.client import AsyncClient, DijobError
from dijob.client.connection import ClientConnection
from dijob.client.errors import ApiError
from dijob.client.kubeconfig import Target

from dijob_extras.ui.cluster.rights import (
    ReadRight,
    check_list,
    find_rights,
    find_user_name,
    list_rights,
)
from dijob_extras.ui.cluster.targets import Connect
from dijob_extras.ui.cluster.users import AccessDenied, PageUser
from dijob_extras.ui.hub import Hub
from dijob_extras.ui.memory import JobMemories
from dijob_extras.ui.server import PageSource
from dijob_extras.ui.sse import Message, Messages

# One tab has at most two streams, and a browser opens at most six connections with HTTP/1.
MOST_STREAMS: Final = 24
# Progress curves are kept for this many jobs in total, across all users. Each job takes at most
# 0.5 MB.
_MOST_MEMORIES: Final = 200
# Maximum number of unknown credentials that are checked at the same time. Without this limit, a
# client that guesses tokens could overload the API server.
_MOST_CHECKS: Final = 8
_CHECK_SECONDS: Final = 10.0
# How often an open stream asks whether the user still has the permissions.
_RIGHTS_SECONDS: Final = 30.0


class UserClient(AsyncClient):
    """A client with the credentials of a user, instead of those of a kubeconfig."""

    def __init__(self, target: Target) -> None:
        super().__init__()
        self._target = target

    async def __aenter__(self) -> Self:
        self.connection = ClientConnection(self._target)
        await self.connection.__aenter__()
        return self


@dataclass
class SharedHub:
    """A hub that several streams can use.

    `work` is the task with which the hub follows the cluster. `streams` is the number of streams
    that use the hub.
    """

    hub: Hub
    work: "asyncio.Task[None]"
    streams: int = 0


@dataclass
class UserSession:
    """A user with open streams."""

    client: UserClient
    key: str
    memories: JobMemories
    streams: int = 0
    hubs: dict[str, SharedHub] = field(default_factory=dict)

    def new_hub(self, namespace: str) -> Hub:
        """Return a hub that does not follow the list of jobs. `namespace` "" means all."""
        client = self.client.within(namespace or "default")
        shared = (self.memories, f"{self.key}/")
        return Hub(client, not namespace, cluster="this cluster", shared=shared)

    @asynccontextmanager
    async def following(self, namespace: str) -> AsyncIterator[Hub]:
        """Return the hub that follows the jobs of a namespace ("": all). The hub stops after its
        last use.
        """
        if (found := self.hubs.get(namespace)) is None:
            hub = self.new_hub(namespace)
            found = self.hubs[namespace] = SharedHub(hub, asyncio.ensure_future(hub.run()))
        found.streams += 1
        try:
            yield found.hub
        finally:
            found.streams -= 1
            if not found.streams:
                # The next stream begins with a new list, not with old data.
                del self.hubs[namespace]
                found.work.cancel()
                await asyncio.gather(found.work, return_exceptions=True)


class EndingSource:
    """A hub whose streams end when `ended` is set."""

    def __init__(self, hub: Hub, ended: asyncio.Event) -> None:
        self._hub, self._ended = hub, ended

    def jobs(self) -> Messages:
        """Yield the list of jobs after each change."""
        return self._until_end(self._hub.jobs())

    def totals(self) -> Messages:
        """Yield the GPU hours and the goodput of each namespace."""
        return self._until_end(self._hub.totals())

    def job(self, namespace: str, name: str) -> Messages:
        """Yield one job after each change."""
        return self._until_end(self._hub.job(namespace, name))

    def log(self, namespace: str, name: str, rank: int | None) -> Messages:
        """Yield the log of a rank, or of all ranks (None)."""
        return self._until_end(self._hub.log(namespace, name, rank))

    def text(self, namespace: str, name: str, rank: int | None) -> AsyncGenerator[str]:
        """Yield the complete log of a rank, or of all ranks (None)."""
        return self._hub.text(namespace, name, rank)

    def past(self) -> Messages:
        """Yield the jobs of the history."""
        return self._until_end(self._hub.past())

    def record(self, namespace: str, name: str, uid: str) -> Messages:
        """Yield one job of the history."""
        return self._until_end(self._hub.record(namespace, name, uid))

    async def _until_end(self, messages: Messages) -> Messages:
        async with aclosing(messages):
            ended = asyncio.ensure_future(self._ended.wait())
            step: asyncio.Future[Message | None] | None = None
            try:
                while not ended.done():
                    # A stream may be silent, for example while the API server does not respond.
                    step = asyncio.ensure_future(anext(messages))
                    await asyncio.wait({step, ended}, return_when=asyncio.FIRST_COMPLETED)
                    if step.done():
                        yield step.result()
            except StopAsyncIteration:
                return
            finally:
                # A generator that is still running cannot be closed.
                both = [one for one in (step, ended) if one is not None]
                for one in both:
                    one.cancel()
                await asyncio.gather(*both, return_exceptions=True)


class UserSessions:
    """All users who have the page open, at most `most_users`."""

    def __init__(self, connect: Connect, most_users: int) -> None:
        self._connect, self._most = connect, most_users
        self._open: dict[PageUser, UserSession] = {}
        self._memories = JobMemories(_MOST_MEMORIES)
        self._checks = asyncio.Semaphore(_MOST_CHECKS)
        self._streams: set[asyncio.Event] = set()

    def end_streams(self) -> None:
        """End all streams, because the server is stopping."""
        for one in self._streams:
            one.set()

    async def find_name(self, user: PageUser) -> str:
        """Return the name of a user. Raises AccessDenied."""
        async with self._enter(user) as (_, name):
            return name

    @asynccontextmanager
    async def open_list(self, user: PageUser, namespace: str) -> AsyncIterator[PageSource]:
        """Return the source of the jobs in a namespace ("": all). Raises AccessDenied."""
        async with self._enter(user) as (session, _):
            # The hub may already be running for another tab, so the permission is checked now.
            with _denied():
                await check_list(session.client.connection, namespace)
            async with session.following(namespace) as hub:
                rights = list_rights(namespace)
                async with self._ending(session.client.connection, rights) as ended:
                    yield EndingSource(hub, ended)

    @asynccontextmanager
    async def open_job(
        self, user: PageUser, namespace: str, name: str
    ) -> AsyncIterator[PageSource]:
        """Return the source of one job. Raises AccessDenied."""
        async with self._enter(user) as (session, _):
            rights = list_rights(namespace, name)
            async with self._ending(session.client.connection, rights) as ended:
                yield EndingSource(session.new_hub(namespace), ended)

    @asynccontextmanager
    async def _enter(self, user: PageUser) -> AsyncIterator[tuple[UserSession, str]]:
        """Return the session of a user whose credentials are valid, and the user's name."""
        name = ""
        if (session := self._open.get(user)) is None:
            session, name = await self._admit(user)
        if session.streams >= MOST_STREAMS:
            raise AccessDenied(429, f"you have more than {MOST_STREAMS} streams open: close tabs")
        session.streams += 1
        try:
            yield session, name or await _find_name(session.client.connection)
        finally:
            session.streams -= 1
            if not session.streams:
                del self._open[user]
                await session.client.__aexit__(None, None, None)

    async def _admit(self, user: PageUser) -> tuple[UserSession, str]:
        """Check the credentials of a user without a session, and return a session and the user's
        name.
        """
        client = UserClient(self._connect(user))
        await client.__aenter__()
        try:
            async with self._checks:
                name = await _find_name(client.connection)
            if len(self._open) >= self._most and user not in self._open:
                raise AccessDenied(503, "too many users have this page open: try again later")
        except BaseException:
            await client.__aexit__(None, None, None)
            raise
        # Another tab of the same user may have been faster.
        if (found := self._open.get(user)) is not None:
            found.streams += 1
            await client.__aexit__(None, None, None)
            found.streams -= 1
            return found, name
        key = hashlib.sha256(repr((user.token, user.name, user.groups)).encode()).hexdigest()
        session = self._open[user] = UserSession(client, key, self._memories)
        return session, name

    @asynccontextmanager
    async def _ending(
        self, connection: ClientConnection, rights: tuple[ReadRight, ...]
    ) -> AsyncIterator[asyncio.Event]:
        """Return an event that is set when the user loses one of the permissions."""
        ended = asyncio.Event()
        self._streams.add(ended)
        work = asyncio.ensure_future(_watch_rights(connection, rights, ended))
        try:
            yield ended
        finally:
            self._streams.discard(ended)
            work.cancel()
            await asyncio.gather(work, return_exceptions=True)


async def _watch_rights(
    connection: ClientConnection, rights: tuple[ReadRight, ...], ended: asyncio.Event
) -> None:
    before = await find_rights(connection, rights)
    while not ended.is_set():
        await asyncio.sleep(_RIGHTS_SECONDS)
        now = await find_rights(connection, rights)
        if now is None:
            continue
        if before is not None and before - now:
            ended.set()
        before = now


async def _find_name(connection: ClientConnection) -> str:
    try:
        async with asyncio.timeout(_CHECK_SECONDS):
            with _denied():
                return await find_user_name(connection)
    except TimeoutError as error:
        raise AccessDenied(503, "the API server does not respond") from error


@contextmanager
def _denied() -> Iterator[None]:
    """Turn errors of the API server into AccessDenied."""
    try:
        yield
    except ApiError as error:
        known = error.status in (401, 403)
        text = "the cluster does not accept the token" if error.status == 401 else str(error)
        raise AccessDenied(error.status if known else 503, text) from error
    except DijobError as error:
        raise AccessDenied(503, str(error)) from error
