"""Checks of the network between the pods: DNS, ports, network policies, connections. No I/O."""

import ipaddress
from collections.abc import Iterator, Mapping
from typing import Any

from dijob.cli.doctor.evidence import Evidence
from dijob.cli.doctor.of_status import is_problem
from dijob.cli.doctor.verdict import Finding, ok, problem, unknown
from dijob.cli.topology import show
from dijob.cli.topology.compare import Edge, ProbedPod
from dijob.cli.topology.expected import SERVER
from dijob.core.members import format_all, format_ranks

# A broken network usually breaks all connections in the same way. A few examples are enough.
_MAX_FINDINGS = 5
_REFUSED = "refused"


def check_names(evidence: Evidence) -> Iterator[Finding]:
    """Check that, in each pod, the names that it dials resolve to the right addresses."""
    # Ranks with the same problem share a finding.
    wrong = dict[str, list[int]]()
    resolved = set[str]()
    ips = _addresses_by_name(evidence)
    for rank, probe in evidence.answered.items():
        for name, found in probe.names.items():
            resolved.add(name)
            if isinstance(found, str):
                wrong.setdefault(f"{name} does not resolve ({found})", []).append(rank)
            # A stale DNS record points to the address of an earlier pod.
            elif name in ips and ips[name] not in map(_normalise_ip, found):
                mismatch = f"{name} resolves to {', '.join(found)}, but its pod has {ips[name]}"
                wrong.setdefault(mismatch, []).append(rank)
    for problem_text, ranks in list(wrong.items())[:_MAX_FINDINGS]:
        yield problem(f"{format_ranks(ranks)}: {problem_text}", _dns_remedy(evidence))
    if not wrong and evidence.answered:
        verb = "resolves" if len(resolved) == 1 else "resolve"
        resolve = f"{format_all(len(resolved), 'name')} {verb}"
        yield ok(resolve if resolved else "the job uses IP addresses")


def _dns_remedy(evidence: Evidence) -> str:
    found = (evidence.job.condition(one) for one in ("ServiceReady", "BrokerReady"))
    for one in found:
        # The cluster DNS returns the addresses of the Service, so a problem with the Service
        # must be fixed first.
        if one and is_problem(one):
            return f"repair the job's Service first: see {one.type} in the check `status`"
    return (
        "check the cluster DNS (kubectl -n kube-system get pods -l k8s-app=kube-dns), the job's"
        " Service, and dnsPolicy in the template"
    )


def _addresses_by_name(evidence: Evidence) -> dict[str, str]:
    job = evidence.job.name
    return {f"{pod.name}.{job}": _normalise_ip(pod.ip) for pod in evidence.pods if pod.ip}


def _normalise_ip(ip: str) -> str:
    # An IPv6 address has several spellings.
    try:
        return str(ipaddress.ip_address(ip))
    except ValueError:
        return ip


def check_reachability(evidence: Evidence) -> Iterator[Finding]:
    """Check that each pod reaches the ports that it dials. If one does not, the remedy names the
    network policies that select the job's pods, if there are any.
    """
    ranks = {pod.ip: pod.rank for pod in evidence.pods if pod.ip}
    bad = dict[tuple[str, str], list[int]]()
    count = 0
    for rank, probe in evidence.answered.items():
        for (host, port), error in probe.reach.items():
            count += 1
            # A refused connection to a pod means that the network works but the program is not
            # listening. The check `connections` reports such a program.
            if error and not (error == _REFUSED and host in ranks):
                target = f"rank {ranks[host]}" if host in ranks else host
                bad.setdefault((f"{target} port {port} ({host})", error), []).append(rank)
    for (address, error), from_ranks in list(bad.items())[:_MAX_FINDINGS]:
        yield problem(
            f"{format_ranks(from_ranks)} cannot reach {address}: {error}",
            _policy_remedy(evidence, from_ranks),
        )
    if len(bad) > _MAX_FINDINGS:
        yield problem(f"{len(bad) - _MAX_FINDINGS} more addresses cannot be reached", "as above")
    if not bad and evidence.answered:
        yield _reachable_finding(evidence, count)


def _reachable_finding(evidence: Evidence, count: int) -> Finding:
    if not count:
        return ok("no connections between pods are expected")
    answer = f"{format_all(count, 'dialed port')} {'answers' if count == 1 else 'answer'}"
    # A proxy, for example that of a service mesh, accepts every connection on behalf of a
    # pod. Behind such a proxy, a successful connection does not prove that the pod is reachable.
    if evidence.report and evidence.report.missing:
        return unknown(
            f"{answer}, but connections are missing (see the check `connections`)",
            "check whether a proxy between the pods accepts the connections on their behalf",
        )
    return ok(answer)


def _policy_remedy(evidence: Evidence, dialling: list[int]) -> str:
    if evidence.policies is None:
        return (
            "check the nodes' firewalls and the network policies, which you lack permission to list"
            f" ({evidence.refused.get('policies', '')})"
        )
    # Whether a policy blocks the connection depends on the network plug-in. So the remedy only
    # names the policies that select the job's pods.
    found = sorted(
        str(policy["metadata"]["name"])
        for policy in evidence.policies
        if any(selects_pod(policy, pod.meta.get("labels") or {}) for pod in evidence.pods)
    )
    if found:
        return (
            f"these network policies select the job's pods: {', '.join(found)}; change them to"
            " allow traffic between these pods"
        )
    return (
        "no network policy in the namespace selects the job's pods: check the nodes' firewalls, the"
        " network plug-in, and the plug-in's own policies"
    )


def selects_pod(policy: Mapping[str, Any], labels: Mapping[str, str]) -> bool:
    """Whether a NetworkPolicy selects a pod with these labels."""
    return matches_selector((policy.get("spec") or {}).get("podSelector") or {}, labels)


def matches_selector(selector: Mapping[str, Any], labels: Mapping[str, str]) -> bool:
    """Whether a label selector selects a pod with these labels. An empty selector selects all
    pods.
    """
    wanted = selector.get("matchLabels") or {}
    if any(labels.get(key) != value for key, value in wanted.items()):
        return False
    return all(_matches_expression(one, labels) for one in selector.get("matchExpressions") or ())


def _matches_expression(one: Mapping[str, Any], labels: Mapping[str, str]) -> bool:
    key, values = str(one.get("key")), one.get("values") or ()
    match one.get("operator"):
        case "In":
            return labels.get(key) in values
        case "NotIn":
            return labels.get(key) not in values
        case "Exists":
            return key in labels
        case "DoesNotExist":
            return key not in labels
    return False


def check_ports(evidence: Evidence) -> Iterator[Finding]:
    """Check that no process outside a rank's container uses one of the job's ports."""
    report = evidence.report
    if report is None:
        yield unknown("there are no connections to check")
        return
    pods, bad = {pod.rank: pod for pod in report.pods}, False
    for rank, port in sorted({(edge.to.rank, edge.to.port) for edge in report.edges}):
        pod = pods.get(rank)
        to_port = [e for e in report.edges if (e.to.rank, e.to.port) == (rank, port)]
        # If one of the job's connections to this port is up, the listener belongs to the job.
        if pod is None or any(edge.up for edge in to_port) or not _has_foreign_listener(pod, port):
            continue
        bad = True
        yield problem(
            f"port {port} of rank {rank} is in use by a process outside the rank's container",
            "the port is used by a sidecar or, with hostNetwork, by another process on the node:"
            " pass different --ports to ditask (the same for all ranks)",
        )
    if not bad:
        yield ok("no other process uses a port of the job")


def _has_foreign_listener(pod: ProbedPod, port: int) -> bool:
    """Whether a port has a listener that belongs to no process of the container."""
    # If the sockets of another user's process cannot be read, the listener may belong to that
    # process.
    if pod.sockets is None or not pod.sockets.complete:
        return False
    inodes = pod.sockets.listening.get(port, frozenset())
    return bool(inodes) and not pod.sockets.processes(inodes)


def check_connections(evidence: Evidence) -> Iterator[Finding]:
    """Check that all expected connections between running ranks are up."""
    report = evidence.report
    if report is None:
        yield unknown("there are no connections to check")
        return
    # Other checks explain why a rank is not running. The missing connections of such a rank are
    # only a consequence.
    looked_at = [edge for edge in report.edges if _both_run(evidence, edge)]
    missing = [edge for edge in looked_at if edge.missing]
    # Ranks that have just started are still connecting.
    bad = [edge for edge in missing if not {edge.rank, edge.to.rank} & evidence.starting]
    if len(bad) < len(missing):
        yield unknown(
            f"{show.format_summary(report)}; {format_ranks(evidence.starting)} started within the"
            " last 30 s",
            "run the check again in a moment",
        )
    for edge in bad[:_MAX_FINDINGS]:
        yield problem(show.in_words(edge, report), _edge_remedy(evidence, edge))
    if len(bad) > _MAX_FINDINGS:
        yield problem(
            f"{len(bad) - _MAX_FINDINGS} more connections are missing",
            f"list all with: kubectl dijob topology {report.job}",
        )
    if unseen := sorted({edge.why for edge in looked_at if edge.unknown}):
        yield unknown(f"{show.format_summary(report)}: {'; '.join(unseen[:_MAX_FINDINGS])}")
    elif not missing and len(looked_at) < len(report.edges):
        yield ok(f"{show.format_summary(report)}; all connections between running ranks are up")
    elif not missing:
        yield ok(show.format_summary(report))


def _both_run(evidence: Evidence, edge: Edge) -> bool:
    """Whether the ranks at both ends of a connection are running.

    A Redis server counts as running, because it is observed only through its clients.
    """
    return {edge.rank, edge.to.rank} <= evidence.running | {SERVER}


def _edge_remedy(evidence: Evidence, edge: Edge) -> str:
    name = evidence.job.name
    if "nothing listens" in edge.why:
        return (
            "the program has not reached Parallel.runner or ditask, or uses neither; see its log:"
            f" kubectl dijob logs {name} --rank {max(edge.to.rank, 0)}"
        )
    if "is not running" in edge.why or "has no pod" in edge.why:
        return "see the checks `status`, `scheduling` and `images`"
    return (
        f"see the check `reachability`, then the log: kubectl dijob logs {name} --rank {edge.rank}"
    )


def check_isolation(evidence: Evidence) -> Iterator[Finding]:
    """Check that at least one connection of each running rank is up.

    A DI-engine process that finds no peers does not fail, but trains alone. Only its missing
    connections show this.
    """
    report = evidence.report
    if report is None or not report.edges:
        yield (
            ok("no rank has peers to connect to")
            if report
            else unknown("there are no connections to check")
        )
        return
    edges_of = dict[int, list[Edge]]()
    for edge in (edge for edge in report.edges if _both_run(evidence, edge)):
        for rank in {edge.rank, edge.to.rank}:
            edges_of.setdefault(rank, []).append(edge)
    runs = {pod.rank for pod in evidence.pods if pod.running} - evidence.starting
    # If the state of a connection is unknown, the connection may be up, so its rank is not
    # reported.
    isolated = [
        rank
        for rank, edges in sorted(edges_of.items())
        if rank in runs and all(edge.up == 0 and not edge.unknown for edge in edges)
    ]
    if isolated:
        yield problem(
            f"{format_ranks(isolated)}: running without any connection, possibly training in"
            " isolation",
            "see the condition LauncherBypassed and docs/runtimes.md: start ditask through the"
            " launcher, or with --platform k8s and the job's --topology; a script must call"
            " Parallel.runner",
        )
    elif not edges_of:
        yield ok("there is nothing to check: no two running ranks connect to each other")
    elif not runs & edges_of.keys():
        yield ok("there is nothing to check yet: the ranks have just started")
    else:
        yield ok("every running rank has a connection")
