"""The client for programs with an event loop. The synchronous client runs it in a thread."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, Unpack, overload

from dijob import names
from dijob.api.model import DIJob
from dijob.client import restarting, waiting
from dijob.client.connection import APPLY, MANAGER, MERGE, ClientRequest, Json
from dijob.client.documents import check, is_job, manifest
from dijob.client.errors import ApiError, NotFound, Refused, TimedOut
from dijob.client.functions import CodeSource, list_command, read_source
from dijob.client.jobs import Job
from dijob.client.reading import Reader
from dijob.client.resources import CONFIG_MAPS, Kinds
from dijob.client.running import RunOptions, RunRequest, build_manifests, show_options

Manifest = DIJob | Mapping[str, Any]

# The field manager of owner references that the client sets on ConfigMaps. It differs from MANAGER,
# because a later `apply` of the same ConfigMap from a file would otherwise remove the reference.
OWNER_MANAGER: Final = f"{MANAGER}-owner"


class AsyncClient(Reader):
    """Manages the DIJobs of one cluster with the user's permissions. Use it with `async with`.

    All methods raise errors of `dijob.client`: ApiError (NotFound, Refused), Unreachable, TimedOut,
    BadFile and BadValue.
    """

    @show_options
    async def run(
        self,
        name: str,
        *,
        image: str,
        command: Sequence[str] = (),
        code: CodeSource | None = None,
        replace: bool = False,
        **options: Unpack[RunOptions],
    ) -> Job:
        """Create a job from an image, a command and your code, as `kubectl dijob run` does.

        `command` is a list of words, because no shell splits it. `code` is a folder, a file or a
        function. The code becomes the working directory of the pods. For a function, its module or
        notebook cell is the code, and the default command calls the function. With `replace`, a job
        of this name is deleted first. Durations in the options are in seconds.
        """
        wanted = RunRequest(name, image, list_command(command, code), **options)
        files = read_source(code) if code is not None else None
        plan = await self.run_plan(build_manifests(wanted, files), replace=replace)
        return await self.carry_out(plan)

    @overload
    async def apply(self, what: DIJob, *, dry_run: bool = False, force: bool = False) -> Job: ...

    @overload
    async def apply(
        self, what: Mapping[str, Any], *, dry_run: bool = False, force: bool = False
    ) -> Job | Json: ...

    async def apply(
        self, what: Manifest, *, dry_run: bool = False, force: bool = False
    ) -> Job | Json:
        """Create or change an object with server-side apply, and return the stored object: a DIJob
        as a `Job`, any other object as a dict.

        If the object omits a field that another manager owns, the field is not changed. A DIJob is
        checked before it is sent. With `dry_run`, the apiserver returns what it would store. If the
        object changes a field of another manager, `force` takes over the field; without `force`,
        the field causes a conflict.
        """
        stored = await self.apply_body(what, dry_run=dry_run, force=force)
        return Job(stored) if is_job(stored) else stored

    async def apply_body(
        self, what: Manifest, *, dry_run: bool = False, force: bool = False
    ) -> Json:
        """Do the same as `apply`, but return every object as a dict."""
        body = manifest(what)
        if is_job(body):
            check(body)
        options = [("dryRun", "All")] if dry_run else []
        options += [("force", "true")] if force else []
        return await self._apply(body, MANAGER, *options)

    async def apply_owned(self, body: Json, job: Job | Mapping[str, Any]) -> Json:
        """Apply an object with a job as its owner, so that both are deleted together.

        The owner reference gets a separate field manager. Otherwise a later apply of the object
        without the reference would remove the reference.
        """
        force = ("force", "true")
        owner = job.body if isinstance(job, Job) else job
        made = await self._apply(restarting.owned_by(body, owner), MANAGER, force)
        bare = {key: body[key] for key in ("apiVersion", "kind")}
        named = {"metadata": {"name": body["metadata"]["name"]}}
        await self._apply(restarting.owned_by(bare | named, owner), OWNER_MANAGER, force)
        return made

    async def scale(self, name: str, replicas: int) -> Job:
        """Set the number of replicas through the scale subresource, and return the job.

        If you may scale the job but not read it, Refused is raised after the change.
        """
        await self.patch_scale(name, replicas)
        return await self.get(name)

    async def patch_scale(self, name: str, replicas: int) -> None:
        """Do the same as `scale` without reading the job, so that permission to scale is enough."""
        await self._patch(self.path(name, "scale"), name, {"spec": {"replicas": replicas}})

    async def suspend(self, name: str) -> Job:
        """Delete the job's pods, but keep the job for a later `resume`. Return the job."""
        return Job(await self._patch(self.path(name), name, {"spec": {"suspend": True}}))

    async def resume(self, name: str) -> Job:
        """Start a suspended job again, with the same ranks. Return the job."""
        return Job(await self._patch(self.path(name), name, {"spec": {"suspend": False}}))

    async def restart(
        self,
        name: str,
        what: Manifest | None = None,
        *,
        beside: Iterable[Json] = (),
        timeout: float = 300,
    ) -> Job:
        """Delete a job and create it again, unchanged or as given by `what`. Return the new job.

        `what` must have the same name and namespace. The status is not kept. A dry run
        checks the new job before the old one is deleted. ConfigMaps that the job owns and mounts
        (`kubectl dijob run --code`) are created again with it.

        `beside` contains other objects to apply. If one of these is a ConfigMap that the old job
        owns and mounts, the new job becomes its owner. `timeout` is the number of seconds to wait
        until the old job and its pods are gone. If only pods are left after that time, the new job
        waits for them.
        """
        plan = await self.restart_plan(name, what, beside=beside)
        return await self.carry_out(plan, timeout=timeout)

    async def restart_plan(
        self, name: str, what: Manifest | None = None, *, beside: Iterable[Json] = ()
    ) -> restarting.RestartPlan:
        """Validate a restart with dry runs against the apiserver, and return the plan for it.
        Nothing is changed.
        """
        old = await self._there(name)
        body = restarting.build_new_job(name, self.namespace, old, manifest(what) if what else None)
        check(body)
        await self._try(body)
        kept = await restarting.list_owned_config_maps(self.connection, old) if old else []
        first, owned = restarting.split_manifests(beside, kept)
        # If one of these ConfigMaps is rejected, this must be known before the old job is deleted.
        for one in owned:
            await self.apply_body(one, dry_run=True, force=True)
        return restarting.RestartPlan(body, tuple(first), tuple(owned), replaces=old is not None)

    async def run_plan(
        self, bodies: Sequence[Json], *, replace: bool = False
    ) -> restarting.RestartPlan:
        """Dry-run the creation of a job and of its ConfigMaps, and return the plan to create them.
        Nothing is changed.

        Raises Refused if a job of this name exists and `replace` is false, or if a ConfigMap
        belongs to another owner.
        """
        job, *code = bodies
        name = str(job["metadata"]["name"])
        old = await self._there(name)
        # Without `replace`, `run` only creates: changing an existing job by accident could restart
        # its pods.
        if old is not None and not replace:
            raise Refused(
                409,
                "AlreadyExists",
                f"the DIJob {name} already exists in namespace {self.namespace}: replace it"
                " (--replace, or replace=True in Python), or choose another name",
            )
        for one in code:
            await self._check_owner(one["metadata"]["name"], name)
        body = restarting.build_new_job(name, self.namespace, old, manifest(job))
        check(body)
        # All objects are validated before the first is created, so that a rejected ConfigMap does
        # not leave a job without its code.
        await self._try(body)
        for one in code:
            await self.apply_body(one, dry_run=True, force=True)
        kept = await restarting.list_owned_config_maps(self.connection, old) if old else []
        others = restarting.list_other_config_maps(kept, body)
        return restarting.RestartPlan(body, owned=(*code, *others), replaces=old is not None)

    async def carry_out(self, plan: restarting.RestartPlan, *, timeout: float = 300) -> Job:
        """Execute a plan that `restart_plan` returned, and return the new job."""
        for one in plan.first:
            await self.apply_body(one)
        if plan.replaces:
            await self._delete_job(str(plan.job["metadata"]["name"]), timeout)
        # The owned objects come last, because their owner reference needs the uid of the new job.
        # If there are several, the job is suspended until they exist, because a kubelet that does
        # not find a ConfigMap may wait for up to 2 minutes before it tries again. If there
        # is only one, it exists before the kubelets start the pods, so the job is not suspended.
        held = len(plan.owned) > 1 and not plan.job["spec"].get("suspend")
        spec = plan.job["spec"] | ({"suspend": True} if held else {})
        made = await self.apply_body(plan.job | {"spec": spec}, force=True)
        for one in plan.owned:
            await self.apply_owned(one, made)
        if held:
            return await self.resume(str(plan.job["metadata"]["name"]))
        return Job(made)

    async def delete(self, name: str, *, timeout: float | None = None) -> None:
        """Delete a job and its pods. With `timeout` (seconds), wait until all of them are gone."""
        # With foreground deletion, Kubernetes keeps the job until its pods are gone. So a new job
        # of the same name does not start while these pods exist (docs/decisions/042).
        body = {"propagationPolicy": "Background" if timeout is None else "Foreground"}
        try:
            answer = await self.connection.json(ClientRequest("DELETE", self.path(name), body))
        except NotFound as error:
            raise waiting.explain_not_found(error, self.namespace, name) from error
        if timeout is not None:
            job = waiting.Deleted.of(self.namespace, name, answer)
            await waiting.until_gone(self.connection, job, timeout)

    async def _apply(self, body: Json, manager: str, *options: tuple[str, str]) -> Json:
        resource = await Kinds(self.connection).of(body)
        place = str(body["metadata"].get("namespace") or self.namespace)
        path = resource.path_of(place, str(body["metadata"]["name"]))
        # Without Strict, the apiserver drops a misspelled field silently.
        query = (("fieldManager", manager), ("fieldValidation", "Strict"), *options)
        return await self.connection.json(ClientRequest("PATCH", path, body, query, content=APPLY))

    async def _delete_job(self, name: str, timeout: float) -> None:
        """Delete a job, and wait until its pods are gone.

        Raises TimedOut only if the job itself remains.
        """
        try:
            await self.delete(name, timeout=timeout)
        except TimedOut:
            if await self._there(name) is not None:
                raise

    async def _check_owner(self, config_map: str, job: str) -> None:
        """Raise Refused if a ConfigMap exists and does not belong to a job of this name.

        Without this check, the ConfigMap would be overwritten now, and later be deleted with the
        job.
        """
        try:
            path = CONFIG_MAPS.path_of(self.namespace, config_map)
            found = await self.connection.json(ClientRequest("GET", path))
        except NotFound:
            return
        # The ConfigMap of a deleted job of this name may still exist. Replacing it is allowed.
        owners = found["metadata"].get("ownerReferences") or ()
        if (names.KIND, job) not in {(owner["kind"], owner["name"]) for owner in owners}:
            raise Refused(
                409,
                "AlreadyExists",
                f"the ConfigMap {config_map} in namespace {self.namespace} does not belong to this"
                " job, and would be overwritten with the job's code: choose another name for the"
                f" job, or delete the ConfigMap (kubectl delete configmap {config_map})",
            )

    async def _try(self, body: Json) -> None:
        """Dry-run the creation of a job under another name, since the old one still exists.

        Raises ApiError. The error's message contains the job's name, not the name in the dry run.
        """
        trial, name = restarting.rename_for_dry_run(body), body["metadata"]["name"]
        try:
            await self.apply_body(trial, dry_run=True)
        except ApiError as error:
            message = error.message.replace(f'"{trial["metadata"]["name"]}"', f'"{name}"')
            raise type(error)(error.status, error.reason, message) from error

    async def _there(self, name: str) -> Mapping[str, Any] | None:
        try:
            return (await self.get(name)).body
        except NotFound:
            return None

    async def _patch(self, path: str, name: str, body: Json) -> Json:
        try:
            query = (("fieldManager", MANAGER),)
            return await self.connection.json(
                ClientRequest("PATCH", path, body, query, content=MERGE)
            )
        except NotFound as error:
            raise waiting.explain_not_found(error, self.namespace, name) from error
