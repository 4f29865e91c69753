"""Checks that all pods run the same programs, in a suitable environment. No I/O."""

import ipaddress
import re
from collections.abc import Callable, Iterator, Mapping

from dijob.api.numbers import parse_natural
from dijob.cli.doctor.evidence import Evidence
from dijob.cli.doctor.probe import Probe
from dijob.cli.doctor.verdict import CheckStatus, Finding, ok, problem, unknown
from dijob.cli.printing import format_duration
from dijob.cli.topology.expected import world_of
from dijob.core.members import format_count, format_ranks, gang_of
from dijob.names import Queue

# The loopback interface, and the interfaces that kernel modules create in every network namespace.
_VIRTUAL = re.compile(r"^(lo|tunl\d|sit\d|ip6tnl\d|ip6_vti\d|ip_vti\d|gre|erspan|bonding_masters)")
_FULL_SHARE = 0.9
# The largest number of processes that DI-engine's barrier can distinguish (ding 0.5.3,
# ding/framework/middleware/barrier.py: ids are packed modulo 4).
_BARRIER_LIMIT = 4
# NTP keeps clocks within milliseconds of each other, so a difference of a second means that NTP
# is not working.
SKEW_SECONDS = 1.0
# A training program usually prints a line more often than this.
QUIET_SECONDS = 60


def _ranks_by(
    probes: Mapping[int, Probe], key: Callable[[Probe], object]
) -> dict[object, list[int]]:
    found = dict[object, list[int]]()
    for rank, probe in probes.items():
        found.setdefault(key(probe), []).append(rank)
    return found


def report_silent_ranks(evidence: Evidence) -> Iterator[Finding]:
    """Report running ranks that could not be probed.

    One line covers all checks that need a probe, instead of an UNKNOWN for each check.
    """
    if evidence.silence:
        yield unknown(evidence.silence)


def check_output(evidence: Evidence) -> Iterator[Finding]:
    """Hint at a possible hang if no rank prints anything.

    A program that hangs inside its own code passes all other checks.
    """
    if evidence.printed is None:
        yield unknown(evidence.refused.get("logs", ""))
    elif evidence.quiet_seconds >= QUIET_SECONDS and not evidence.added:
        yield Finding(
            CheckStatus.OK,
            f"no rank has printed a line for {format_duration(evidence.quiet_seconds)}:"
            " the program is either computing or hanging",
            hang_commands(evidence),
        )


def hang_commands(evidence: Evidence) -> str:
    """Return the commands that show what a hanging program is doing; "" if there are none."""
    return "; ".join(f"kubectl dijob doctor {evidence.job.name} {hint}" for hint in evidence.hints)


def check_source(evidence: Evidence) -> Iterator[Finding]:
    """Check that all pods of a task run the same source code."""
    # Different tasks may run different programs, so pods are compared within a task.
    tasks = dict[str, dict[int, Probe]]()
    for pod in evidence.pods:
        if pod.rank in evidence.answered:
            tasks.setdefault(pod.task, {})[pod.rank] = evidence.answered[pod.rank]
    bad = False
    for task, probes in tasks.items():
        sources = _ranks_by(probes, lambda probe: probe.digest)
        if len(sources) > 1:
            bad = True
            each = "; ".join(
                f"{format_ranks(ranks)}: {source or 'none'}" for source, ranks in sources.items()
            )
            yield problem(
                f"the source code{f' of task {task}' if task else ''} differs between pods"
                f" ({each})",
                "mount the same code in all pods (kubectl dijob run --code), or build it into the"
                f" image; then kubectl dijob restart {evidence.job.name}",
            )
    files = sum(probe.files for probe in evidence.answered.values())
    if not bad and evidence.answered:
        yield (
            ok("the same source code in all pods")
            if files
            else ok("nothing to compare: the command names no .py file and no --package")
        )


def check_versions(evidence: Evidence) -> Iterator[Finding]:
    """Check that all pods have the same versions of DI-engine, torch, Python, redis-py and pynng.
    Also check that redis-py works with DI-engine.
    """
    answered, bad = evidence.answered, False
    # The processes exchange pickled objects and tensors, so these versions should be equal.
    for name in ("DI-engine", "torch", "python", "redis", "pynng"):
        found = _ranks_by(answered, lambda probe, name=name: probe.versions.get(name, ""))  # type: ignore[misc]
        if len(found) > 1:
            bad = True
            each = ", ".join(
                f"{format_ranks(ranks)}: {known or 'none'}" for known, ranks in found.items()
            )
            yield problem(
                f"{name} differs between pods ({each})",
                f"use the same image in all pods, or pin the version of {name} in each image",
            )
    model = evidence.model
    new = [r for r, p in answered.items() if _major_version(p.versions.get("redis", "")) >= 8]
    if new and model and model.queue == Queue.REDIS:
        bad = True
        yield problem(
            f"{format_ranks(new)}: redis-py {answered[new[0]].versions['redis']} loses large"
            " messages with"
            " DI-engine",
            "pip install 'redis<8' in the image",
        )
    if answered and not bad:
        known = next(iter(answered.values())).versions
        yield ok(
            ", ".join(f"{name} {one}" for name, one in known.items()) or "no Python packages found"
        )


def _major_version(version: str) -> int:
    return parse_natural(version.partition(".")[0]) or 0


def list_number(evidence: Evidence) -> Iterator[Finding]:
    """Check that all pods have the current revision of the peer list."""
    newest = evidence.job.status.list_number
    peers = evidence.job.condition("PeersReady")
    if not newest:
        yield unknown("the job has no peer list yet")
        return
    # During a re-rendezvous the pods legitimately have different revisions.
    if peers and peers.reason == "Renewing":
        yield unknown(f"the re-rendezvous to revision {newest} is in progress: {peers.message}")
        return
    # 0 means that the pod has no peer list yet, which is normal while it starts.
    late = [pod.rank for pod in evidence.pods if pod.list_number not in (0, newest)]
    if late:
        yield problem(
            f"{format_ranks(late)}: the pod's peer list is older than the current revision"
            f" {newest}",
            "wait a minute; if it persists, see the operator's log and the condition"
            " ChangesRefused",
        )
    # The file can be older than the annotation of the same pod, because the kubelet updates the
    # file with a delay. Without a launcher, the pod has no such file (None).
    annotated = {
        pod.rank: pod.list_number or (newest if pod.has_channel else 0) for pod in evidence.pods
    }
    old = [
        rank
        for rank, probe in evidence.answered.items()
        if probe.list_number is not None and probe.list_number != annotated.get(rank)
    ]
    if old:
        yield problem(
            f"{format_ranks(old)}: /run/dijob/topology.json does not have the pod's revision"
            f" {newest}",
            "the kubelet updates the file within 90 s; if it does not, check the node (kubectl"
            " describe node)",
        )
    if not late and not old:
        yield ok(f"revision {newest} in all pods")


def check_channel(evidence: Evidence) -> Iterator[Finding]:
    """Check that the launchers can connect to the operator."""
    having = [pod for pod in evidence.pods if pod.has_channel]
    late = [pod.rank for pod in having if pod.list_number]
    if late:
        yield problem(
            f"{format_ranks(late)}: the launcher did not connect to the operator in time, so the"
            " operator wrote the peer list to the pod's annotations. The job works, but starts"
            " later",
            "if this happens in all jobs of the namespace, check whether a NetworkPolicy blocks"
            " connections from the namespace to the operator's Service dijob-channel",
        )
    elif having:
        yield ok("the launchers get their peer lists from the operator")
    else:
        yield ok("not used: the pods get their peer lists as annotations")


def check_proxies(evidence: Evidence) -> Iterator[Finding]:
    """Check that traffic between the pods bypasses HTTP proxies."""
    ips = [pod.ip for pod in evidence.pods if pod.ip]
    bad = dict[str, list[int]]()
    for rank, probe in evidence.answered.items():
        # Programs read these variables in upper or lower case.
        lower = {name.lower(): value for name, value in probe.env.items() if value}
        given = sorted(name for name in lower if name in ("http_proxy", "https_proxy", "all_proxy"))
        if given and not all(_bypasses_proxy(ip, lower.get("no_proxy", "")) for ip in ips):
            bad.setdefault(", ".join(given), []).append(rank)
    for names, ranks in bad.items():
        yield problem(
            f"{format_ranks(ranks)}: {names} is set, but no_proxy does not cover the pods'"
            " addresses",
            "in the template, remove the proxy, or set no_proxy to a value that covers the pod"
            " network, for example 10.0.0.0/8,.svc,.cluster.local",
        )
    if not bad and evidence.answered:
        yield ok("no proxy between the pods")


def _bypasses_proxy(ip: str, no_proxy: str) -> bool:
    """Whether no_proxy covers an IP address. It does if one of its entries is "*", the address
    itself, the beginning of the address (such as "10."), or a network that includes the address.

    HTTP clients differ in the forms that they accept. This check accepts all of them, so that it
    does not report a proxy that is not used.
    """
    for part in (one.strip() for one in no_proxy.split(",")):
        if part in ("*", ip) or (part.endswith(".") and ip.startswith(part)):
            return True
        try:
            if ipaddress.ip_address(ip) in ipaddress.ip_network(part, strict=False):
                return True
        except ValueError:
            continue
    return False


def check_interfaces(evidence: Evidence) -> Iterator[Finding]:
    """Check that NCCL and gloo use the interface that reaches the other pods."""
    model, bad = evidence.model, False
    # Only jobs with GPUs, and jobs of a runtime with a fixed membership (torch, OneFlow), use NCCL
    # or gloo. Other jobs do not have to set an interface.
    wants = model is not None and (
        bool(gang_of(model).groups or gang_of(model).gpus)
        or model.spec.runtime.traits.fixed_membership
    )
    for rank, probe in evidence.answered.items():
        real = [name for name in probe.interfaces if not _VIRTUAL.match(name)]
        for variable in ("NCCL_SOCKET_IFNAME", "GLOO_SOCKET_IFNAME"):
            chosen = probe.env.get(variable, "")
            if chosen and probe.interfaces and not _interface_exists(chosen, probe.interfaces):
                bad = True
                yield problem(
                    f"rank {rank}: {variable} is {chosen}, but the pod has no such interface;"
                    f" it has {', '.join(real) or 'only virtual ones'}",
                    f"set {variable} to {real[0] if real else 'eth0'}, or remove it",
                )
            elif not chosen and wants and len(real) > 1:
                bad = True
                yield problem(
                    f"rank {rank} has several interfaces ({', '.join(real)}), and {variable} is not"
                    " set, so the program may choose a virtual interface",
                    f"set {variable} in the template to the interface that reaches the other pods",
                )
    if not bad and evidence.answered:
        yield ok("NCCL and gloo cannot choose the wrong interface")


def _interface_exists(chosen: str, interfaces: tuple[str, ...]) -> bool:
    """Whether NCCL finds an interface that matches `chosen`, the value of the variable.

    A value that begins with "=" lists whole names. A value that begins with "^" lists prefixes to
    exclude. Any other value lists prefixes.
    """
    if chosen.startswith("^"):
        return True
    parts = chosen.removeprefix("=").split(",")
    same = chosen.startswith("=")
    return any(
        name == part if same else name.startswith(part) for name in interfaces for part in parts
    )


def shared_memory(evidence: Evidence) -> Iterator[Finding]:
    """Check that /dev/shm has free space.

    torch's data loaders and DI-engine's environments crash with SIGBUS if /dev/shm is full.
    """
    full, least = list[int](), 0
    for rank, probe in evidence.answered.items():
        if probe.shm and probe.shm[0]:
            least = min(least or probe.shm[0], probe.shm[0])
            full += [rank] if 1 - probe.shm[1] / probe.shm[0] > _FULL_SHARE else []
    if full:
        yield problem(
            f"{format_ranks(full)}: /dev/shm ({least // 2**20} MiB) is full",
            "mount an emptyDir with medium: Memory and a sizeLimit at /dev/shm",
        )
    elif least:
        yield ok(f"/dev/shm: at least {least // 2**20} MiB, not full")


def check_clocks(evidence: Evidence) -> Iterator[Finding]:
    """Check that the pods' clocks agree.

    Each clock is compared with the local time at the midpoint of the probe. The error of one
    comparison is half the probe's duration.
    """
    found = []
    for rank, probe in evidence.answered.items():
        begin, end = probe.asked
        found.append((probe.time - (begin + end) / 2, (end - begin) / 2, rank))
    if len(found) < 2:
        if not evidence.silence:
            yield ok("no clocks to compare: only one pod is running")
        return
    low, high = min(found), max(found)
    difference, error = high[0] - low[0], high[1] + low[1]
    # A difference is certain only if it exceeds the error of the measurement.
    if difference - error > SKEW_SECONDS:
        yield problem(
            f"the clocks of ranks {low[2]} and {high[2]} differ by {difference:.1f} s"
            f" (±{error:.1f} s)",
            "synchronize the clocks of their nodes (chrony, ntp)",
        )
    else:
        yield ok(f"the pods' clocks agree to within {max(difference, error):.1f} s")


def check_barrier(evidence: Evidence) -> Iterator[Finding]:
    """Check that a program with a barrier has no more processes than the barrier supports."""
    model = evidence.model
    if model is None:
        yield unknown("the DIJob is invalid")
        return
    # The spec might not contain the number of processes. The report uses the number that the pods'
    # programs have reported.
    world = evidence.report.world if evidence.report else world_of(model)
    processes = world.ranks * world.workers
    using = [rank for rank, probe in evidence.answered.items() if probe.barrier]
    if processes <= _BARRIER_LIMIT and world.at_least and using:
        yield unknown(
            "the program uses a barrier, and DI-engine's barrier hangs with more than"
            f" {_BARRIER_LIMIT} processes; there are at least {processes} (only the program knows"
            " the exact number)"
        )
    elif processes <= _BARRIER_LIMIT:
        least = "at least " if world.at_least else ""
        yield ok(
            f"{least}{format_count(processes, 'process', 'processes')}; DI-engine's barrier"
            " supports"
            f" {_BARRIER_LIMIT}"
        )
    elif using:
        yield problem(
            f"the program uses a barrier, and the job has {processes} processes: DI-engine's"
            f" barrier hangs with more than {_BARRIER_LIMIT}",
            f"use at most {_BARRIER_LIMIT} processes, or wait for events (task.wait_for) instead",
        )
    elif evidence.answered:
        yield ok("no barrier in the source code")
