"""The client for programs with an event loop; the other one (synchronous.py) runs this one."""

from collections.abc import Iterable, Mapping
from typing import Any, Final

from dijob.api.model import DIJob
from dijob.client import restarting, waiting
from dijob.client.connection import APPLY, MANAGER, MERGE, Call, Json
from dijob.client.documents import check, is_job, manifest
from dijob.client.errors import ApiError, NotFound, TimedOut
from dijob.client.reading import Reader
from dijob.client.resources import Kinds

Manifest = DIJob | Mapping[str, Any]

# Owns the owner references of what is deleted with a job.
OWNER_MANAGER: Final = f"{MANAGER}-owner"


class AsyncClient(Reader):
    """DIJobs of one cluster, with the user's own rights. To be used as `async with`.

    Errors are those of `dijob.client`: ApiError (NotFound, Refused), Unreachable, TimedOut,
    BadFile.
    """

    async def apply(self, what: Manifest, *, dry_run: bool = False, force: bool = False) -> Json:
        """Create an object, or change it to what is written, by server-side apply: fields that
        others own and that are not in it stay as they are. A DIJob is checked before.

        `dry_run`: the apiserver says what it would store. `force` takes fields over from others.
        """
        body = manifest(what)
        if is_job(body):
            check(body)
        options = [("dryRun", "All")] if dry_run else []
        options += [("force", "true")] if force else []
        return await self._apply(body, MANAGER, *options)

    async def apply_owned(self, body: Json, job: Mapping[str, Any]) -> Json:
        """Apply an object that is deleted with a job, whoever applies it again without its owner:
        the owner belongs to a field manager of its own.
        """
        force = ("force", "true")
        made = await self._apply(restarting.owned_by(body, job), MANAGER, force)
        bare = {key: body[key] for key in ("apiVersion", "kind")}
        named = {"metadata": {"name": body["metadata"]["name"]}}
        await self._apply(restarting.owned_by(bare | named, job), OWNER_MANAGER, force)
        return made

    async def scale(self, name: str, replicas: int) -> None:
        """Write how many pods the job shall have, through its scale subresource."""
        await self._patch(self.path(name, "scale"), name, {"spec": {"replicas": replicas}})

    async def suspend(self, name: str) -> None:
        """Take the job off the cluster, until `resume`."""
        await self._patch(self.path(name), name, {"spec": {"suspend": True}})

    async def resume(self, name: str) -> None:
        """Bring a suspended job back, with the same ranks."""
        await self._patch(self.path(name), name, {"spec": {"suspend": False}})

    async def restart(
        self,
        name: str,
        what: Manifest | None = None,
        *,
        beside: Iterable[Json] = (),
        timeout: float = 300,
    ) -> Json:
        """Delete a job and make it anew, as it was or as `what` says, which may be no other job.
        Nothing of its status is kept. The new one is tried on the apiserver before the old one is
        deleted; ConfigMaps that the job owns and mounts (`kubectl dijob run --code`) are made anew
        with it.

        `beside`: what else to apply; a ConfigMap that the job owns and mounts stays its own.
        `timeout`: how long to wait for the old job and its pods to go. If only pods stay, the new
        job waits for them.
        """
        plan = await self.restart_plan(name, what, beside=beside)
        return await self.carry_out(plan, timeout=timeout)

    async def restart_plan(
        self, name: str, what: Manifest | None = None, *, beside: Iterable[Json] = ()
    ) -> restarting.Plan:
        """What `restart` will do, tried on the apiserver; nothing is changed yet."""
        old = await self._there(name)
        body = restarting.anew(name, self.namespace, old, manifest(what) if what else None)
        check(body)
        await self._try(body)
        kept = await restarting.owned(self.connection, old) if old else []
        first, owned = restarting.parted(beside, kept)
        for one in owned:
            await self.apply(one, dry_run=True, force=True)
        return restarting.Plan(body, tuple(first), tuple(owned), replaces=old is not None)

    async def carry_out(self, plan: restarting.Plan, *, timeout: float = 300) -> Json:
        """Do what `restart_plan` has found."""
        for one in plan.first:
            await self.apply(one)
        if plan.replaces:
            await self._delete_job(str(plan.job["metadata"]["name"]), timeout)
        made = await self.apply(plan.job, force=True)
        for one in plan.owned:
            await self.apply_owned(one, made)
        return made

    async def delete(self, name: str, *, timeout: float | None = None) -> None:
        """Delete a job with its pods; with `timeout`, wait until it and they are gone."""
        body = {"propagationPolicy": "Background" if timeout is None else "Foreground"}
        try:
            answer = await self.connection.json(Call("DELETE", self.path(name), body))
        except NotFound as error:
            raise waiting.about(error, self.namespace, name) from error
        if timeout is not None:
            job = waiting.Deleted.of(self.namespace, name, answer)
            await waiting.until_gone(self.connection, job, timeout)

    async def _apply(self, body: Json, manager: str, *options: tuple[str, str]) -> Json:
        resource = await Kinds(self.connection).of(body)
        place = str(body["metadata"].get("namespace") or self.namespace)
        path = resource.path_of(place, str(body["metadata"]["name"]))
        query = (("fieldManager", manager), ("fieldValidation", "Strict"), *options)
        return await self.connection.json(Call("PATCH", path, body, query, content=APPLY))

    async def _delete_job(self, name: str, timeout: float) -> None:
        """Delete a job, and wait for its pods, which may stay. Raises TimedOut where it stays."""
        try:
            await self.delete(name, timeout=timeout)
        except TimedOut:
            if await self._there(name) is not None:
                raise

    async def _try(self, body: Json) -> None:
        """A dry run of a job that is there. Raises ApiError, with the job's own name."""
        trial, name = restarting.trial(body), body["metadata"]["name"]
        try:
            await self.apply(trial, dry_run=True)
        except ApiError as error:
            said = error.message.replace(f'"{trial["metadata"]["name"]}"', f'"{name}"')
            raise type(error)(error.status, error.reason, said) from error

    async def _there(self, name: str) -> Mapping[str, Any] | None:
        try:
            return (await self.get(name)).body
        except NotFound:
            return None

    async def _patch(self, path: str, name: str, body: Json) -> None:
        try:
            query = (("fieldManager", MANAGER),)
            await self.connection.json(Call("PATCH", path, body, query, content=MERGE))
        except NotFound as error:
            raise waiting.about(error, self.namespace, name) from error
