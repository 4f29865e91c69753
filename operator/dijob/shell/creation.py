"""Creates the children of jobs, and finds those that exist although no watch shows them."""

import asyncio
import logging
from collections.abc import Awaitable, Iterable, Mapping

from dijob.api.model import DIJob
from dijob.core.actions import CreateShared
from dijob.core.members import Member
from dijob.core.observed import refusals
from dijob.core.observed.parse import namesake, other_port, owner_in_words, pod
from dijob.core.observed.termination import termination
from dijob.core.observed.views import Refused
from dijob.core.options import Options
from dijob.core.render.pod import pod_manifest
from dijob.shell.api import Api, ApiError, Json
from dijob.shell.batch import Batch
from dijob.shell.children import Children
from dijob.shell.clock import Clock
from dijob.shell.kinds import CHILDREN, PODS
from dijob.shell.memory import Memory

log = logging.getLogger(__name__)


class Creator:
    """Creates pods and shared objects; what is refused is noted in the memory of the job."""

    def __init__(self, api: Api, children: Children, options: Options, clock: Clock) -> None:
        self._api = api
        self._children = children
        self._options = options
        self._clock = clock

    async def find_hidden(self, job: DIJob, members: Iterable[Member], memory: Memory) -> None:
        """Ask for pods that no watch shows; those of the job get their labels again."""
        batch = Batch(job, memory)
        await asyncio.gather(*(self._find(batch, member) for member in members))

    async def _find(self, batch: Batch, member: Member) -> None:
        """One pod. ApiError where the apiserver does not answer: no pod is called lost then."""
        meta = batch.job.metadata
        path = PODS.path(meta.namespace, member.name)
        try:
            async with batch.permits:
                body = await self._api.get(path)
        except ApiError as error:
            if not error.not_found:
                raise
            self._note_absent(batch, member)
            return
        if namesake(body, meta.name, meta.uid) is not None:
            self._note_absent(batch, member)
            return
        # It is there, even if the labels cannot be put back: each pass tries that again.
        self._children.pods.put(pod(body))
        batch.memory.unlabelled.add(member.name)
        log.warning("%s: restoring the labels of pod %s", meta.owner_key, member.name)
        labels = pod_manifest(batch.job, member, self._options)["metadata"]["labels"]
        self._children.pods.put(pod(await self._relabelled(path, body, labels)))
        batch.memory.unlabelled.discard(member.name)

    async def create_pods(self, batch: Batch, members: Iterable[Member]) -> None:
        """One after the other; none after one that is refused."""
        for member in members:
            async with batch.permits:
                if refusal := batch.refusal_of(member.name):
                    batch.memory.refusals[f"pod/{member.name}"] = refusal
                    return
                made = await self._create(batch, pod_manifest(batch.job, member, self._options))
                batch.answered(member.name, batch.memory.refusals.get(f"pod/{member.name}"))
                if not made:
                    return

    async def create_shared(self, batch: Batch, action: CreateShared) -> None:
        """One after the other; none after one that is refused."""
        for manifest in action.manifests(batch.job, self._options):
            if not await self._create(batch, manifest):
                return

    async def _create(self, batch: Batch, manifest: Json) -> bool:
        """Create one child. True: it exists, and is the job's; False: refused, and
        noted, or its namespace is going."""
        kind, name = CHILDREN[manifest["kind"]], manifest["metadata"]["name"]
        key, path = f"{kind.name.lower()}/{name}", kind.path(batch.job.metadata.namespace)
        noted = batch.memory.refusals
        try:
            answer = await self._api.create(path, manifest)  # the metadata alone
            body = {**manifest, "metadata": answer["metadata"]}
        except ApiError as error:
            if error.status == 404:
                return False  # the namespace is going, and the job with it
            if not error.conflict:
                before, now = noted.get(key), self._clock.now()
                noted[key] = refusals.of_creation(
                    error.status, error.message, before, now, self._clock.spread
                )
                return False
            found = await self._adopt(batch, key, f"{path}/{name}", manifest)
            if found is None:
                return False
            body = found
        noted.pop(key, None)
        batch.memory.created(key.removeprefix("pod/"), self._clock.now())
        # An empty store is false, too.
        if kind.view and (store := self._children.stores.get(kind.name)) is not None:
            store.put_created(kind.view(body))
        return True

    async def _adopt(self, batch: Batch, key: str, path: str, manifest: Json) -> Json | None:
        """The object that has the name; None: it is not the job's, or gone, or cannot be read, or
        is for another port.
        """
        noted = batch.memory.refusals
        try:
            return await self._found(batch, key, path, manifest)
        except ApiError as error:
            if not error.not_found:
                before, now = noted.get(key), self._clock.now()
                noted[key] = refusals.of_change(error.status, error.message, before, now)
            return None

    async def _found(self, batch: Batch, key: str, path: str, manifest: Json) -> Json | None:
        """The object, if it is the job's and no watch shows it: it is new, or has lost its labels,
        which are put back. None for another's, and for a service of another port: that is noted.
        """
        body, labels = await self._api.get(path), manifest["metadata"]["labels"]
        noted, now = batch.memory.refusals, self._clock.now()
        if why := namesake(body, batch.job.metadata.name, batch.job.metadata.uid):
            about = (
                termination(body).reason(now)
                if why is Refused.TERMINATING
                else owner_in_words(body)
            )
            what = key.replace("/", " ")
            noted[key] = refusals.name_in_use(why, what, now, noted.get(key), about)
            return None
        if ports := other_port(body, manifest):
            name = manifest["metadata"]["name"]
            noted[key] = refusals.of_port(name, *ports, now, noted.get(key))
            return None
        noted.pop(key, None)
        present = body["metadata"].get("labels") or {}
        # A service needs no label to do its work, and there is no right to patch it.
        if body["kind"] != PODS.name or labels.items() <= present.items():
            return body
        return await self._relabelled(path, body, labels)

    def _relabelled(self, path: str, body: Json, labels: Mapping[str, str]) -> Awaitable[Json]:
        """This very pod, with the labels that it was created with."""
        version = body["metadata"]["resourceVersion"]
        meta = {"uid": body["metadata"]["uid"], "resourceVersion": version, "labels": labels}
        return self._api.patch(path, {"metadata": meta}, whole=True)

    def _note_absent(self, batch: Batch, member: Member) -> None:
        batch.memory.absent.add(member.name)
        batch.memory.unlabelled.discard(member.name)
        for view in self._children.pods.of(batch.job.metadata.owner_key):
            if view.name == member.name:
                self._children.pods.drop(view.uid)
