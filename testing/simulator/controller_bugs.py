"""Seeded bugs of the controller. Each must be found by the test or story that is listed with it."""

from typing import Any

import pytest
from dijob.controller.cache.jobs import Jobs
from dijob.controller.cache.reflector import Reflector
from dijob.controller.cache.store import Store
from dijob.controller.channel.launchers import Launchers
from dijob.controller.reconcile import Reconciler
from dijob.controller.watch.audit import Audit
from dijob.controller.watch.news import News
from dijob.controller.write import creation
from dijob.controller.write.creation import Creator
from dijob.controller.write.pod_writes import PodWrites
from dijob.controller.write.status_writer import StatusWriter
from dijob.core.decide.requeue import RESYNC_SECONDS
from dijob.core.observed import rejections
from dijob.core.observed.views import ApiRejection, Pod, RejectionCause
from dijob.core.report import summary
from dijob.kube.api import Api, Json

Patch = pytest.MonkeyPatch


def a_conflict_is_taken_for_success(patch: Patch) -> None:
    write = StatusWriter.write

    async def blind(self: StatusWriter, *given: Any) -> float:
        wait = await write(self, *given)
        return RESYNC_SECONDS if 0 < wait < 1 else wait

    patch.setattr(StatusWriter, "write", blind)


def an_older_view_replaces_a_newer_one(patch: Patch) -> None:
    def blind(self: Store[Any], view: Any) -> None:
        former = self._owners.get(view.uid, view.owner)
        self._by_owner.setdefault(former, {}).pop(view.uid, None)
        self._by_owner.setdefault(view.owner, {})[view.uid] = view
        self._owners[view.uid] = view.owner

    patch.setattr(Store, "put", blind)


def a_pod_that_is_gone_stays_in_the_store(patch: Patch) -> None:
    answer = PodWrites._answer

    async def blind(self: PodWrites, *given: Any) -> Json | None:
        drop, self._pods.drop = self._pods.drop, lambda uid, version="": None  # type: ignore[method-assign]
        try:
            return await answer(self, *given)
        finally:
            self._pods.drop = drop  # type: ignore[method-assign]

    patch.setattr(PodWrites, "_answer", blind)


def a_status_is_written_over_whatever_there_is(patch: Patch) -> None:
    sent = Api.patch

    async def blind(self: Api, path: str, body: Any, *, whole: bool = False) -> Json:
        if path.endswith("/status"):
            meta = {k: v for k, v in body["metadata"].items() if k != "resourceVersion"}
            body = {**body, "metadata": meta}
        return await sent(self, path, body, whole=whole)

    patch.setattr(Api, "patch", blind)


def a_deletion_means_any_pod_of_that_name(patch: Patch) -> None:
    call = Api.call

    async def blind(self: Api, request: Any) -> Json:
        if request.method == "DELETE":
            object.__setattr__(request, "body", {**request.body, "preconditions": {}})
        return await call(self, request)

    patch.setattr(Api, "call", blind)


def a_deleted_job_is_not_forgotten(patch: Patch) -> None:
    patch.setattr(Reconciler, "forget", lambda self, uid: None)


def a_refusal_is_not_remembered(patch: Patch) -> None:
    def blind(status: int, message: str, before: ApiRejection | None, now: Any) -> ApiRejection:
        return rejections.name_in_use(
            RejectionCause.FORBIDDEN, message, now.replace(year=now.year - 1)
        )

    patch.setattr(rejections, "of_creation", blind)


def what_was_deleted_is_not_marked(patch: Patch) -> None:
    enter = PodWrites.enter

    def blind(self: PodWrites, uid: str, answer: Any, **fields: Any) -> None:
        if "deleting" not in fields:
            enter(self, uid, answer, **fields)

    patch.setattr(PodWrites, "enter", blind)


def what_was_created_is_not_taken_in(patch: Patch) -> None:
    create = Creator._create

    async def blind(self: Creator, group: Any, manifest: Json) -> bool:
        pods = self._children.pods
        put, pods.put = pods.put, lambda view: None  # type: ignore[method-assign]
        try:
            return await create(self, group, manifest)
        finally:
            pods.put = put  # type: ignore[method-assign]
            group.memory.creations.clear()

    patch.setattr(Creator, "_create", blind)


def a_list_does_not_show_what_has_vanished(patch: Patch) -> None:
    listed = Reflector._list

    async def blind(self: Reflector, api: Api) -> str:
        self.uids = set()
        return await listed(self, api)

    patch.setattr(Reflector, "_list", blind)


def what_is_urgent_is_put_off(patch: Patch) -> None:
    patch.setattr(summary, "_is_urgent", lambda old, new: False)


def nobody_asks_whether_a_job_is_as_known(patch: Patch) -> None:
    async def blind(self: Reconciler, *given: Any) -> bool:
        return True

    patch.setattr(Reconciler, "_as_known", blind)


def it_is_told_before_it_is_written(patch: Patch) -> None:
    write = StatusWriter.write

    async def blind(self: StatusWriter, meta: Any, old: Any, decided: Any, memory: Any) -> float:
        for event in decided.events:
            await self._recorder.tell(meta, event)
        return await write(self, meta, old, decided, memory)

    patch.setattr(StatusWriter, "write", blind)


def the_audit_finds_nothing(patch: Patch) -> None:
    async def blind(self: Audit) -> None:
        pass

    patch.setattr(Audit, "_compare", blind)


def nobody_is_told_of_a_childs_change(patch: Patch) -> None:
    patch.setattr(News, "changed", lambda self, owner: None)


def everybodys_pod_is_ours(patch: Patch) -> None:
    patch.setattr(creation, "classify_namesake", lambda body, job, uid: None)


def the_answer_of_a_status_is_not_taken_in(patch: Patch) -> None:
    put = Jobs.put

    def blind(self: Jobs, body: Any, **how: bool) -> Any:
        known = self.get((body["metadata"]["namespace"], body["metadata"]["name"]))
        same = known is not None and known.get("spec") == body.get("spec")
        return None if same else put(self, body, **how)

    patch.setattr(Jobs, "put", blind)


def a_launcher_that_cannot_connect_is_waited_for(patch: Patch) -> None:
    patch.setattr(Launchers, "_is_silent", lambda self, pod, known: False)


def launchers_are_not_given_time_to_connect_again(patch: Patch) -> None:
    patch.setattr(Launchers, "seconds_to_wait", lambda self, pods: 0.0)


def what_a_launcher_has_is_not_believed(patch: Patch) -> None:
    receive = Launchers.receive

    def forgets(self: Launchers, pod: Pod, *given: Any) -> None:
        connection, state, ip, has = given
        receive(self, pod, connection, state, ip, {} if has is not None else None)

    patch.setattr(Launchers, "receive", forgets)
