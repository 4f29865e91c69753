"""The pod of a member of the gang."""

from collections.abc import Mapping
from typing import Any

from dijob import names, pod
from dijob.api.command import listen_port
from dijob.api.model import DIJob
from dijob.api.pod_sets import PodSet
from dijob.core.members import Gang, Member, gang_of
from dijob.core.options import Options
from dijob.core.render import annotations, metadata
from dijob.core.render.runtimes import environment
from dijob.names import DIALLING, Addressing, Launcher
from dijob.pod import KILL_SECONDS

Manifest = dict[str, Any]

# A probe asks every second from the start, so that Ready costs no more than the program's own
# start. It never gives up by itself (a probe of readiness restarts nobody).
PROBE_PERIOD_SECONDS = 1
# The kubelet may start a container with a view of the pod that is older than the list which opened
# the gate (gate.sh). The launcher notices and mends it; where there is none, the gate waits until
# the older view has passed.
SETTLE_SECONDS = "3"


def template_hash(job: DIJob) -> str:
    """A fingerprint of what its pods are made from."""
    return job.fingerprint


def pod_manifest(job: DIJob, member: Member, options: Options) -> Manifest:
    """The pod of one member: the user's template, with identity, gate, launcher and environment
    added.

    What stays as the user wrote it is the template's own, of which there may be thousands of
    values, and not a copy: it is to be read only.
    """
    gang = gang_of(job)
    pod_set = job.pod_set_of(member.rank)
    main = dict(pod_set.main_container)
    spec: Manifest = {**pod_set.pod, "containers": _with_main(pod_set, main)}
    gate = _gate(main, gang, member, options)
    if not _launched(job, main):
        gate["env"].append({"name": "DIJOB_SETTLE_SECONDS", "value": SETTLE_SECONDS})
    _fit_main(spec, main, job, member, gang)
    _fit_priority(spec, job, options)
    if spec.get("hostNetwork") and spec.get("dnsPolicy") in (None, "ClusterFirst"):
        spec["dnsPolicy"] = "ClusterFirstWithHostNet"  # or it would know no names of the cluster
    if job.spec.runtime.traits.requires_hostnames:
        _fit_dns(spec, f"{gang.job}.{gang.namespace}.svc.{options.cluster_domain}")
    spec["hostname"] = member.name
    spec["subdomain"] = gang.job
    # In-place restarts heal a crash within seconds, and need this policy. Null is as good as
    # absent: the apiserver would take it for its own default, Always.
    for name, value in (("enableServiceLinks", False), ("restartPolicy", "OnFailure")):
        if spec.get(name) is None:
            spec[name] = value
    spec["initContainers"] = _more(spec.get("initContainers"), gate)
    spec["volumes"] = _more(spec.get("volumes"), *(job.spec.volumes or ()), *_volumes(gang))
    meta = metadata.of_pod(job, gang, member, template_hash(job))
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec}


def _with_main(pod_set: PodSet, main: Manifest) -> list[Any]:
    """The template's containers, with this one in the place of the main one."""
    return [
        main if container is pod_set.main_container else container
        for container in pod_set.pod["containers"]
    ]


def _launched(job: DIJob, main: Manifest) -> bool:
    """Whether the launcher stands before the main container's command (which must not have been
    fitted yet).
    """
    return job.spec.launcher is Launcher.AUTO and bool(main.get("command"))


def _fit_main(spec: Manifest, main: Manifest, job: DIJob, member: Member, gang: Gang) -> None:
    """Give the main container (both are copies) environment, port, launcher and, where it visibly
    fits, a probe.
    """
    command = job.pod_set_of(member.rank).command
    port = listen_port(command)
    launched = _launched(job, main)
    main["env"] = _env(main.get("env"), member, gang, _launcher_env(main, spec, gang))
    # What a program said last is the best word on why it failed, and outlives the container
    # (status.firstFailure).
    if main.get("terminationMessagePolicy") is None:
        main["terminationMessagePolicy"] = "FallbackToLogsOnError"
    if launched:
        main["command"] = [pod.LAUNCH, *main["command"]]
    main["volumeMounts"] = _more(main.get("volumeMounts"), *_mounts())
    main["ports"] = _more(
        main.get("ports"),
        *_ports(main, port or names.BASE_PORT, gang, bool(spec.get("hostNetwork"))),
    )
    # A ditask without --platform k8s listens on another port, where a probe would never succeed.
    joins = command.platform == "k8s" or (launched and command.bypass is None)
    if port is not None and joins and gang.queue in DIALLING and "readinessProbe" not in main:
        main["readinessProbe"] = {
            "tcpSocket": {"port": port},
            "periodSeconds": PROBE_PERIOD_SECONDS,
        }


def _ports(main: Manifest, first: int, gang: Gang, on_host: bool) -> list[Manifest]:
    """The port of the first worker, unless the template names it. In the node's network all
    workers': a container's ports are the node's there, and the scheduler gives no two pods one of
    them, so that no two ranks share a node.
    """
    given = _objects(main.get("ports"))
    taken = {port.get("containerPort") for port in given}
    named = any(port.get("name") == names.MAIN_PORT for port in given)
    if not on_host:
        return (
            []
            if named or names.BASE_PORT in taken
            else [{"name": names.MAIN_PORT, "containerPort": first}]
        )
    own = {first + worker: f"{names.MAIN_PORT}-{worker}" for worker in range(gang.workers)}
    return [
        {"name": name, "containerPort": port} for port, name in own.items() if port not in taken
    ]


def _fit_priority(spec: Manifest, job: DIJob, options: Options) -> None:
    """The template's own class wins. (priority: null would be the apiserver's default, and ours
    too.)
    """
    name = options.priority_classes.get(job.spec.priority.value, "")
    if name and not spec.get("priorityClassName") and spec.get("priority") is None:
        spec["priorityClassName"] = name


def _fit_dns(spec: Manifest, domain: str) -> None:
    """The ranks' names resolve without a dot in them; the template's own searches come first."""
    given = spec.get("dnsConfig")
    if given is None or isinstance(given, dict):
        searches = _object(given).get("searches")
        spec["dnsConfig"] = {
            **_object(given),
            "searches": [*(searches if isinstance(searches, list) else ()), domain],
        }


def _launcher_env(main: Manifest, spec: Manifest, gang: Gang) -> dict[str, str]:
    """Variables of the launcher (pod/launch.sh) for what differs from its defaults in this pod."""
    path, grace = main.get("terminationMessagePath"), spec.get("terminationGracePeriodSeconds")
    env = {"DIJOB_TERMINATION_LOG": path} if path else {}
    env |= {"DIJOB_TASKS": annotations.slices(gang)} if gang.tasks else {}
    listed = annotations.files_of(gang.runtime)
    env |= (
        {"DIJOB_LISTED": " ".join(f"{name}={file}" for name, file in listed.items())}
        if listed
        else {}
    )
    return env | (
        {"DIJOB_KILL_SECONDS": str(grace)}
        if isinstance(grace, int) and grace != KILL_SECONDS
        else {}
    )


def _env(users: Any, member: Member, gang: Gang, extra: Mapping[str, str]) -> Any:
    """Ours first, so that the user's own values may say $(DI_POD_IP); what the user names himself
    is left to him.
    """
    if users is not None and not isinstance(users, list):
        return users
    taken = {e.get("name") for e in _objects(users)} - set(names.RESERVED_ENV)
    ours = [
        _field("DI_POD_IP", "status.podIP"),
        *(
            _field(name, f"metadata.annotations['{annotation}']")
            for name, annotation in annotations.variables(gang)
        ),
        *(
            {"name": name, "value": value}
            for name, value in {**environment(member, gang), **extra}.items()
        ),
    ]
    return [*(e for e in ours if e["name"] not in taken), *(users or ())]


def _field(name: str, path: str) -> Manifest:
    return {"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}}


def _gate(main: Manifest, gang: Gang, member: Member, options: Options) -> Manifest:
    """The last init container: it looks like the main container, so that quotas and policies see
    nothing new.
    """
    gate: Manifest = {
        "name": names.GATE_CONTAINER,
        "image": options.gate_image or main.get("image"),
        "command": list(pod.GATE_COMMAND),
        "env": [
            _field("DI_POD_IP", "status.podIP"),
            {"name": "DI_RANK", "value": str(member.rank)},
            {"name": "DI_JOB_NAME", "value": gang.job},
            {"name": "DI_JOB_NAMESPACE", "value": gang.namespace},
        ],
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "volumeMounts": _mounts(),
    }
    if gang.addressing is Addressing.HOSTNAME:
        gate["env"] += [
            {"name": "DIJOB_HOST", "value": gang.address(member.rank, "")},
            {"name": "DI_TOPOLOGY", "value": gang.topology.value},
        ]
    for key in ("imagePullPolicy", "securityContext"):
        if key in main:
            gate[key] = main[key]
    if resources := _plain_resources(main.get("resources")):
        gate["resources"] = resources
    return gate


def _plain_resources(resources: Any) -> Manifest:
    """CPU, memory and disk as the main container has them; never its GPUs or claims."""
    plain = ("cpu", "memory", "ephemeral-storage")
    kept = {
        kind: {k: v for k, v in _object(_object(resources).get(kind)).items() if k in plain}
        for kind in ("requests", "limits")
    }
    return {kind: values for kind, values in kept.items() if values}


def _more(given: Any, *added: Manifest) -> Any:
    """The user's list with ours after it. What is no list is left as it is: the apiserver refuses
    it by its name.
    """
    return [*(given or ()), *added] if given is None or isinstance(given, list) else given


def _objects(given: Any) -> list[Manifest]:
    return [one for one in given if isinstance(one, dict)] if isinstance(given, list) else []


def _object(given: Any) -> Mapping[str, Any]:
    return given if isinstance(given, dict) else {}


def _mounts() -> list[Manifest]:
    return [
        {"name": names.BIN_VOLUME, "mountPath": pod.DIR},
        {"name": names.POD_VOLUME, "mountPath": pod.POD_DIR, "readOnly": True},
    ]


def _volumes(gang: Gang) -> list[Manifest]:
    items = [
        {"path": path, "fieldRef": {"fieldPath": f"metadata.annotations['{annotation}']"}}
        for path, annotation in annotations.files(gang).items()
    ]
    return [
        {"name": names.BIN_VOLUME, "emptyDir": {}},
        {"name": names.POD_VOLUME, "downwardAPI": {"items": items}},
    ]
