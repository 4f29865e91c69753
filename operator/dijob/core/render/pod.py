"""Renders the pod of a rank: the user's template, with identity, gate, launcher and environment.

The template wins wherever it sets a field. The exceptions are the settings that make the pod a
member of its job: name, hostname, command wrapper and the DI_ variables of its identity.
"""

from collections.abc import Mapping
from typing import Any

from dijob import names, pod
from dijob.api.command import listen_port
from dijob.api.model import DIJob
from dijob.api.pod_sets import PodSet
from dijob.core.members import Gang, GangMember, gang_of
from dijob.core.options import Options
from dijob.core.render import gate, launcher, metadata, server, variables
from dijob.core.render.fields import Manifest, as_mapping, extend_list, objects_in
from dijob.core.render.priority import priority_class
from dijob.core.render.scheduling import NO_MARKS, PodMarks
from dijob.names import DIALLING, Addressing, Launcher

# The readiness probe runs every second from the start, so that a rank is Ready soon after its
# program starts listening. A failing readiness probe does not restart a container.
PROBE_PERIOD_SECONDS = 1
# Below this port, a process needs a capability to listen.
PRIVILEGED_PORTS = 1024
# The values of dnsPolicy (None: the default) with which a pod uses the cluster's DNS.
CLUSTER_DNS = (None, "ClusterFirst", "ClusterFirstWithHostNet")


def template_hash(job: DIJob) -> str:
    """Return a fingerprint of everything that the job's pods are created from."""
    return job.fingerprint


def pod_manifest(
    job: DIJob,
    member: GangMember,
    options: Options,
    key: str = "",
    marks: PodMarks = NO_MARKS,
) -> Manifest:
    """Return the pod of one member.

    `key` is the random key of the pod's channel. Without a key, or if `needs_gate` returns True,
    the pod has a gate and no channel. `marks` make the pod a member of its engine's gang.

    Unchanged parts of the template are shared rather than copied, because a template can have
    thousands of values. So the result must not be modified.
    """
    gang = gang_of(job)
    pod_set = job.pod_set_of(member.rank)
    main = _with_last_words(pod_set.main_container)
    spec: Manifest = {**pod_set.pod}
    spec["containers"] = _with_main(pod_set, main, member, gang)
    launched = _starts_launcher(job, member)
    channel = ""
    if options.channel and key and launched and not gate.needs_gate(job, spec, main, member):
        channel = f"{options.channel} {member.name} {key}"
    waits = None if channel else _gate_waits(job, spec, main, member, launched)
    ours = launcher.launcher_containers(main, gang, member, options, waits)
    _fit_main(spec, main, job, member, channel)
    main["volumeMounts"] = extend_list(main.get("volumeMounts"), *launcher.launcher_mounts(options))
    if priority := priority_class(spec, job, options):
        spec["priorityClassName"] = priority
    limit_toleration(spec, job, options)
    if spec.get("hostNetwork") and spec.get("dnsPolicy") in (None, "ClusterFirst"):
        # With ClusterFirst, a pod with hostNetwork could not resolve the cluster's DNS names.
        spec["dnsPolicy"] = "ClusterFirstWithHostNet"
    if job.spec.runtime.traits.requires_hostnames:
        _fit_dns(spec, f"{gang.job}.{gang.namespace}.svc.{options.cluster_domain}")
    spec["hostname"] = member.name
    spec["subdomain"] = gang.job
    # In-place restarts, which recover from a crash within seconds, need OnFailure. Service links
    # would add variables for each Service of the namespace. Null is treated as absent, because the
    # API server would replace it with its own defaults (Always, true).
    for name, value in (("enableServiceLinks", False), ("restartPolicy", "OnFailure")):
        if spec.get(name) is None:
            spec[name] = value
    spec["initContainers"] = extend_list(
        _other_containers(spec.get("initContainers"), member, gang), *ours
    )
    spec["volumes"] = extend_list(
        spec.get("volumes"),
        *(job.spec.volumes or ()),
        *launcher.launcher_volumes(launched, options),
    )
    server.add_server_access(spec, main, options)
    spec |= marks.fields
    marks.add_placement(spec)
    meta = metadata.of_pod(job, gang, member, template_hash(job))
    meta["labels"] |= marks.labels
    meta["annotations"] |= marks.annotations
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec}


def _gate_waits(
    job: DIJob, spec: Manifest, main: Manifest, member: GangMember, launched: bool
) -> dict[str, str]:
    """Return the variables that tell the gate what to wait for in addition to the list."""
    waits = {}
    # The launcher cannot correct variables that the kubelet reads from an older version of the pod.
    if variables.from_fields(main, gang_of(job), member, launched):
        waits["DIJOB_SETTLE_SECONDS"] = launcher.SETTLE_SECONDS
    # With a dnsPolicy that is not in CLUSTER_DNS, the pod might not use the cluster's DNS. The gate
    # would then wait for the Service's DNS records in vain.
    asks_cluster = spec.get("dnsPolicy") in CLUSTER_DNS
    if job.wants_service and job.addressing is Addressing.IP and asks_cluster:
        waits["DIJOB_SERVICE"] = job.metadata.name
    return waits


def _with_main(pod_set: PodSet, main: Manifest, member: GangMember, gang: Gang) -> list[Any]:
    """Return the template's containers, with the main one replaced by `main`."""
    given = pod_set.pod["containers"]
    return [
        main if before is pod_set.main_container else container
        for before, container in zip(given, _other_containers(given, member, gang), strict=True)
    ]


def _other_containers(given: Any, member: GangMember, gang: Gang) -> Any:
    """Return these containers of the template. Each of them gets the variables that every container
    except the main one has.
    """
    if not isinstance(given, list):
        return given
    return [
        _with_last_words({**one, "env": variables.of_other(one, member, gang)})
        if isinstance(one, dict)
        else one
        for one in given
    ]


def _with_last_words(container: Mapping[str, Any]) -> Manifest:
    """Return a copy of a container, changed so that the end of its log is kept.

    If the new container fails without writing a termination message, the end of its log becomes
    that message. This usually explains the failure, and the job's status keeps it after the
    container is gone (status.firstFailure).
    """
    made = dict(container)
    if made.get("terminationMessagePolicy") is None:
        made["terminationMessagePolicy"] = "FallbackToLogsOnError"
    return made


def _starts_launcher(job: DIJob, member: GangMember) -> bool:
    """Whether the main container starts the launcher."""
    return job.spec.launcher is Launcher.AUTO and job.pod_set_of(member.rank).has_command


def _fit_main(spec: Manifest, main: Manifest, job: DIJob, member: GangMember, channel: str) -> None:
    """Add environment, port and launcher to the main container. Also add a readiness probe if the
    command reveals the program's port, or if the launcher waits for the peer list in this
    container. `channel` is the value of the launcher's variable DIJOB_CHANNEL. If the pod has a
    gate, `channel` is "". `spec` and `main` are copies, which this function modifies.
    """
    gang = gang_of(job)
    command = job.pod_set_of(member.rank).command
    port = listen_port(command)
    launched = _starts_launcher(job, member)
    probed = _probed_port(main, job, member, gang)
    own = variables.of_launched(job) if launched else None
    if own is not None and probed and (answering := _answering_port(probed, spec)):
        own["DIJOB_READY"] = f"{answering} {probed}"
        probed = answering
    if own is not None and channel:
        own[pod.CHANNEL] = channel
        if not probed and "readinessProbe" not in main:
            # Without this probe, the container would be ready while the launcher waits.
            probed = _answering_port(port or names.BASE_PORT, spec)
            own["DIJOB_READY"] = str(probed)
    main["env"] = variables.of_main(main, spec, member, gang, own)
    if launched:
        main["command"] = [pod.LAUNCH, *main["command"]]
    main["ports"] = extend_list(
        main.get("ports"),
        *_added_ports(main, port or names.BASE_PORT, gang, bool(spec.get("hostNetwork"))),
    )
    if probed is not None:
        main["readinessProbe"] = {
            "tcpSocket": {"port": probed},
            "periodSeconds": PROBE_PERIOD_SECONDS,
        }


def _probed_port(main: Manifest, job: DIJob, member: GangMember, gang: Gang) -> int | None:
    """Return the port that is open when the program is ready; None if it is not known, or if the
    template has its own probe.
    """
    command = job.pod_set_of(member.rank).command
    # Without --platform k8s, ditask listens on a different port, so a probe would never succeed.
    joins = command.platform == "k8s" or (_starts_launcher(job, member) and command.bypass is None)
    known = joins and gang.queue in DIALLING and "readinessProbe" not in main
    return listen_port(command) if known else None


def _answering_port(port: int, spec: Manifest) -> int | None:
    """Return the port on which the launcher answers the readiness probe. The launcher knows more
    about its program than just whether its port is open (the launcher's run/readiness.go).

    The launcher's port is the next one below `port` that no container of the template declares.
    Return None if no unprivileged port is left. Also return None with hostNetwork, because another
    pod on the node may use the port.
    """
    if spec.get("hostNetwork"):
        return None
    declared = [
        one.get("containerPort")
        for container in (
            *objects_in(spec.get("containers")),
            *objects_in(spec.get("initContainers")),
        )
        for one in objects_in(container.get("ports"))
    ]
    below = range(port - 1, PRIVILEGED_PORTS - 1, -1)
    return next((each for each in below if each not in declared), None)


def _added_ports(main: Manifest, first: int, gang: Gang, on_host: bool) -> list[Manifest]:
    """Return the ports to add to the main container: the port of the first worker, unless the
    template declares a port for it.

    With hostNetwork, the ports of all workers are declared, because they are ports of the node. The
    scheduler then never places two ranks on one node.
    """
    given = objects_in(main.get("ports"))
    taken = {n for port in given if isinstance(n := port.get("containerPort"), int)}
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


def _fit_dns(spec: Manifest, domain: str) -> None:
    """Add a search domain, so that the ranks' names resolve without a domain. The template's own
    search domains come first.
    """
    given = spec.get("dnsConfig")
    if given is None or isinstance(given, dict):
        searches = as_mapping(given).get("searches")
        spec["dnsConfig"] = {
            **as_mapping(given),
            "searches": [*(searches if isinstance(searches, list) else ()), domain],
        }


def limit_toleration(spec: Manifest, job: DIJob, options: Options) -> None:
    """Limit how long the pod tolerates a lost node. Tolerations in its template take precedence.

    A lost node has the taint not-ready or unreachable. Kubernetes evicts the pod from the node
    after the toleration's time (docs/decisions/041). If the pod tolerates one of these taints
    already, this function adds no toleration for that taint. The API server's admission plugin
    DefaultTolerationSeconds uses the same rule, but would add tolerations of 300 s.
    """
    own = job.spec.lost_node_seconds
    seconds = options.lost_node_seconds if own is None else own
    given = objects_in(spec.get("tolerations"))
    bounded = {
        one.get("key") or "" for one in given if (one.get("effect") or "NoExecute") == "NoExecute"
    }
    ours = (
        {
            "key": taint,
            "operator": "Exists",
            "effect": "NoExecute",
            "tolerationSeconds": seconds,
        }
        for taint in (names.TAINT_NOT_READY, names.TAINT_UNREACHABLE)
        if not bounded & {taint, ""}
    )
    spec["tolerations"] = extend_list(spec.get("tolerations"), *ours)
