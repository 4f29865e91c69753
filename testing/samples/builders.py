"""Builders for the unit tests: jobs, pods as the apiserver shows them, parsed pods."""

import copy
from collections.abc import Iterable, Mapping
from dataclasses import fields as fields_of
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from dijob import names
from dijob.api.model import DIJob
from dijob.api.parse import parse_job
from dijob.api.status import Condition, ListProof, Status
from dijob.core.actions import Action, PublishAddresses
from dijob.core.addresses import NO_LIST, AddressList, ListCopy
from dijob.core.members import Gang, gang_of
from dijob.core.membership.address_list import proof_of
from dijob.core.membership.world import World
from dijob.core.observed import parse
from dijob.core.observed.derived import list_fingerprints
from dijob.core.observed.views import Observed, Pod
from dijob.core.options import Options
from dijob.core.plan import Plan
from dijob.core.plan import make_plan as real_plan
from dijob.core.render.annotations import made_of
from dijob.core.render.pod import pod_manifest, template_hash
from dijob.names import Topology
from manifests import dijob

Body = dict[str, Any]

NOW = datetime(2026, 5, 4, 12, 0, 0, tzinfo=UTC)
UID = "job-uid"
OWNER = f"ns/job/{UID}"
COMMAND = ("ditask", "--package", "my_module", "--main", "my_module.main")


def later(seconds: float) -> datetime:
    return NOW + timedelta(seconds=seconds)


def container(**fields: Any) -> Body:
    """Return the main container. `fields` replace its own; None removes a field."""
    made = {"name": names.MAIN_CONTAINER, "image": "img:1", "command": list(COMMAND), **fields}
    return {key: value for key, value in made.items() if value is not None}


def job_body(
    pod: Mapping[str, Any] | None = None, status: Mapping[str, Any] | None = None, **spec: Any
) -> Body:
    """Return a DIJob as the apiserver shows it, by default with three ranks. `pod` is merged into
    its pod spec.
    """
    sizes = {} if {"replicas", "minReplicas", "maxReplicas"} & spec.keys() else {"replicas": 3}
    # With every feature that a job can have.
    given = {"service": "Always", **sizes, **spec}
    made = copy.deepcopy(dijob("job", container(), dict(pod or {}), **given))
    made["metadata"] |= {"namespace": "ns", "uid": UID, "generation": 1, "resourceVersion": "1"}
    return {**made, "status": copy.deepcopy(dict(status or {}))}


def job(
    pod: Mapping[str, Any] | None = None, status: Mapping[str, Any] | None = None, **spec: Any
) -> DIJob:
    return parse_job(job_body(pod, status, **spec))


def gang(
    size: int = 3,
    workers: int = 1,
    topology: Topology = Topology.MESH,
    minimum: int = 0,
    **fields: Any,
) -> Gang:
    return Gang(
        job="job",
        namespace="ns",
        uid=UID,
        size=size,
        workers=workers,
        topology=topology,
        minimum=minimum or size,
        **fields,
    )


def manifest(owner: DIJob, rank: int = 0, options: Options | None = None) -> Body:
    """Return the manifest that the operator would create for a rank."""
    return pod_manifest(owner, gang_of(owner).members[rank], options or Options())


def pod_body(rank: int = 0, owner: DIJob | None = None, **status: Any) -> Body:
    """Return a pod of the job as the apiserver shows it: the real manifest with a status."""
    made = copy.deepcopy(manifest(owner or job(), rank))
    made["metadata"] |= {
        "uid": f"uid-{rank}",
        "resourceVersion": "7",
        "creationTimestamp": "2026-05-04T12:00:00Z",
    }
    return {**made, "status": status}


def main(body: Body) -> Body:
    return next(c for c in body["spec"]["containers"] if c["name"] == names.MAIN_CONTAINER)


def pod_env(body: Body) -> Body:
    """Return the variables of a pod's main container: values, or field paths for those that the
    kubelet sets.
    """
    return {
        e["name"]: e["value"] if "value" in e else e["valueFrom"]["fieldRef"]["fieldPath"]
        for e in main(body)["env"]
    }


def view(rank: int, owner: DIJob | None = None, **fields: Any) -> Pod:
    """Return a parsed pod of the job: on a node, with an address, without a peer list. `fields`
    sets fields of Pod and of its parts. `number` and `ips` give the pod a peer list with this
    number and these addresses.
    """
    made: dict[str, Any] = {
        "node": "node-a",
        "ip": f"10.0.0.{rank}",
        "template_hash": template_hash(owner or job()),
        "owner": OWNER,
        **fields,
    }
    return changed(Pod(rank=rank, name=f"job-{rank}", uid=f"uid-{rank}"), **made)


def changed(pod: Pod, **fields: Any) -> Pod:
    """Return the pod with other values in these fields. The names of the fields are the same as
    for `view`.
    """
    before = pod.copy.address_list
    told = AddressList(fields.pop("number", before.number), fields.pop("ips", before.text))
    pod = replace(pod, copy=replace(pod.copy, address_list=told))
    for group in ("copy", "containers", "made", "placement"):
        part = getattr(pod, group)
        names_of = [each.name for each in fields_of(part) if each.name in fields]
        own = {name: fields.pop(name) for name in names_of}
        fields[group] = replace(part, **own)
    return replace(pod, **fields)


LIST = "10.0.0.0,10.0.0.1,10.0.0.2"
STARTED = "2026-05-04T11:00:00Z"


def listed(rank: int, owner: DIJob | None = None, **fields: Any) -> Pod:
    """Return a pod that runs in a job of three ranks with revision 1."""
    told: dict[str, Any] = {"ips": LIST, "number": 1, **fields}
    given = AddressList(told["number"], told["ips"])
    made = list_fingerprints(made_of(gang_of(owner or job()), given)) if given.text else frozenset()
    return view(
        rank,
        owner,
        **{"phase": "Running", "ready": True, "started": STARTED, "derived": made, **told},
    )


def observed(*pods: Pod, services: Iterable[str] = ("job",), **fields: Any) -> Observed:
    existing = frozenset(f"service/{name}" for name in services)
    return Observed(pods={pod.rank: pod for pod in pods}, existing=existing, **fields)


def written(status: Status, seen: Observed) -> Status:
    """Return the status with the revision and digest of the newest list that a pod has.

    The operator stores both before it gives a list to a pod. If no pod has a list, or if `status`
    already has a digest, `status` is not changed. If `status` has only a revision, this revision is
    kept, and the digest is made for it.
    """
    held = (pod.copy.address_list for pod in seen.pods.values())
    newest = max(held, key=lambda one: one.number, default=NO_LIST)
    if status.address_list is not None or not newest.text:
        return status
    number = status.list_number or newest.number
    return status.model_copy(
        update={"list_number": number, "address_list": record(number, newest.text)}
    )


def record(number: int, text: str) -> ListProof:
    """Return the proof of a peer list, as the operator stores it in a job's status."""
    return proof_of(AddressList(number, text))


def gives(rank: int, number: int, text: str, **fields: Any) -> PublishAddresses:
    """Return the action that publishes a list to a rank's pod. `fields` are those of its copy."""
    return PublishAddresses(f"job-{rank}", f"uid-{rank}", given(number, text, **fields))


def lists_of(actions: Iterable[Action]) -> set[AddressList]:
    """Return the lists that these actions publish."""
    return {one.copy.address_list for one in actions if isinstance(one, PublishAddresses)}


def given(number: int, text: str, **fields: Any) -> ListCopy:
    """Return a pod's copy of a list."""
    return ListCopy(AddressList(number, text), **fields)


def plan(owner: DIJob, seen: Observed, now: datetime) -> Plan:
    """Return the plan for a job, after `written` has completed the job's status."""
    return real_plan(owner.model_copy(update={"status": written(owner.status, seen)}), seen, now)


def stored(owner: DIJob, decided: Plan) -> DIJob:
    """Return the job with the status from a plan."""
    return DIJob(metadata=owner.metadata, spec=owner.spec, status=decided.status)


def then(owner: DIJob, seen: Observed, seconds: float = 0, **edit: Any) -> tuple[Plan, DIJob]:
    """Edit the spec and plan. Return the plan, and the job with the resulting status."""
    spec = owner.spec.model_copy(update=edit)
    edited = DIJob(metadata=owner.metadata, spec=spec, status=owner.status)
    decided = plan(edited, seen, later(seconds))
    return decided, stored(edited, decided)


def running(**spec: Any) -> DIJob:
    """Return a job whose three ranks run with revision 1, and whose status says so."""
    owner = job(**spec)
    ranks = observed(*(listed(rank, owner) for rank in range(3)))
    owner = stored(owner, plan(owner, ranks, NOW))
    assert owner.status.phase == "Running"
    return owner


def paused(owner: DIJob, value: str | None = "true") -> DIJob:
    """Return the job with the annotation that pauses the operator. If `value` is None, the
    annotation is left out.
    """
    annotations = {} if value is None else {names.ANNOTATION_PAUSED: value}
    meta = owner.metadata.model_copy(update={"annotations": annotations})
    return DIJob(metadata=meta, spec=owner.spec, status=owner.status)


def conditions_of(decided: Plan) -> dict[str, Condition]:
    """Return the conditions of a plan by type."""
    return {condition.type: condition for condition in decided.status.conditions}


def says(decided: Plan) -> dict[str, tuple[str, str]]:
    """Return the status and reason of each condition by type."""
    return {
        condition.type: (condition.status, condition.reason)
        for condition in decided.status.conditions
    }


def all_run(owner: DIJob, **fields: Any) -> list[Pod]:
    return [listed(rank, owner, **fields) for rank in range(3)]


ALL = tuple(listed(rank) for rank in range(3))


def say(seen: Observed, owner: DIJob | None = None) -> dict[str, Condition]:
    return conditions_of(plan(owner or job(), seen, NOW))


def hands_out(owner: DIJob, seen: Observed, now: datetime) -> Plan:
    """Return the plan that publishes a new list. The preceding plan stores only the list's revision
    and digest.
    """
    first = plan(owner, seen, now)
    assert (first.actions, first.requeue_after) == ((), 0.0)
    assert first.status.address_list is not None
    return real_plan(stored(owner, first), seen, now)


def world_of(gang: Gang, seen: Observed, status: Status, now: datetime) -> World:
    """Return the World of a job, after `written` has completed `status`."""
    return World.of(gang, seen, written(status, seen), now)


def read(body: Body) -> Pod:
    return parse.parse_pod(body)


def tasks_body(*sizes: int, pod: Mapping[str, Any] | None = None, **spec: Any) -> Body:
    """Return a DIJob with tasks: learners, evaluators and collectors, in the numbers given by
    `sizes` (default: 1, 1, 2).
    """
    template = {"spec": {"containers": [container()], **(pod or {})}}
    kinds = zip(("learner", "evaluator", "collector"), sizes or (1, 1, 2), strict=False)
    made = job_body(
        **{
            "tasks": [
                {"type": kind, "replicas": size, "template": template} for kind, size in kinds
            ],
            **spec,
        }
    )
    for name in {"replicas", "template"} - spec.keys():
        made["spec"].pop(name, None)
    return copy.deepcopy(made)


def recorded(body: Body, record: str) -> Body:
    """Return a DIJob with the annotation that the operator writes when it has compared `replicas`
    with the last task's replicas.
    """
    body["metadata"]["annotations"] = {names.ANNOTATION_LAST_TASK: record}
    return body


def tasks_job(*sizes: int, **spec: Any) -> DIJob:
    return parse_job(tasks_body(*sizes, **spec))
