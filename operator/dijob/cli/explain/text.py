"""Formats the explanation as human-readable text: about twenty lines, or everything with `full`."""

import shlex
import textwrap
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

from dijob.core.members import compact_ranks, format_count, format_ranks

Data = dict[str, Any]

WIDTH: Final = 110
# Up to this number of pods, all are listed. If there are more, only the first few and the last one
# are listed.
FEW: Final = 8
LABEL: Final = 13
AT_LEAST: Final = "at least "
PROGRAM_DECIDES: Final = (
    "the program sets the number of processes per pod (n_parallel_workers of Parallel.runner). Node"
    " ids, ports and connections depend on this number, and are shown for one process per pod. Set"
    " spec.parallelWorkers to see all of them"
)


def explanation_lines(found: Data, full: bool = False) -> Iterator[str]:
    """Yield the lines of an explanation (report.py)."""
    yield _format_headline(found)
    yield ""
    yield from _table_lines(found["pods"], full)
    yield ""
    yield from _fact_lines(found)
    yield from _environment_lines(found["pods"], full)
    yield from _warning_lines(found["warnings"])
    yield from _cluster_lines(found["cluster"])


def _format_headline(found: Data) -> str:
    job, world = found["job"], found["world"]
    least = AT_LEAST if world["parallelWorkersAssumed"] else ""
    each = f"{least}{format_count(world['parallelWorkers'], 'process', 'processes')}"
    sizes = f"{format_count(world['pods'], 'pod')} x {each} = {least}{world['size']}"
    # For a job of fixed size the limits would only repeat the number of pods.
    elastic = world["minimum"] < world["pods"] or world["maximum"] > world["pods"]
    room = f"; starts with {world['minimum']}, can grow to {world['maximum']} pods"
    return (
        f"DIJob {job['name']} in namespace {job['namespace']}: {sizes}, {world['topology']} over"
        f" {world['messageQueue']}, runtime {_format_runtimes(world)}{room if elastic else ''}"
    )


def _format_runtimes(world: Data) -> str:
    own = ", ".join(f"{runtime} in task {task}" for task, runtime in world["taskRuntimes"].items())
    return f"{world['runtime']} ({own})" if own else str(world["runtime"])


def _table_lines(pods: Sequence[Data], full: bool) -> Iterator[str]:
    shown = pods if full or len(pods) <= FEW else [*pods[: FEW - 2], pods[-1]]
    # A job without tasks needs no column for them.
    tasks = any(pod["task"] for pod in pods)
    rows = [["RANK", "POD", *(["TASK"] if tasks else []), "NODE IDS", "LISTENS ON", "DIALS"]]
    for pod in shown:
        ids = compact_ranks(pod["nodeIds"])
        task = [pod["task"]] if tasks else []
        rows.append(
            [str(pod["rank"]), pod["name"], *task, ids, _format_ports(pod), _format_dials(pod)]
        )
    widths = [max(len(row[at]) for row in rows) for at in range(len(rows[0]))]
    for at, row in enumerate(rows):
        if len(shown) < len(pods) and at == len(rows) - 1:
            yield f"...   ({len(pods) - len(shown)} more: --full)"
        pairs = zip(row, widths, strict=True)
        yield "  ".join(word.ljust(width) for word, width in pairs).rstrip()


def _format_ports(pod: Data) -> str:
    ports = pod["ports"]
    return f"{pod['address']}:{compact_ranks(ports)}" if ports else "-"


def _format_dials(pod: Data) -> str:
    return format_ranks(pod["dials"]) if pod["dials"] else "-"


def _rendezvous_lines(pods: Sequence[Data]) -> Iterator[str]:
    """Yield the rendezvous addresses of the torch or OneFlow processes. If only some tasks have
    such an address, the lines name these tasks. The ranks of such a task restart together.
    """
    places = dict[str, list[Data]]()
    for pod in pods:
        if master := pod["environment"].get("MASTER_ADDR"):
            port = pod["environment"].get("MASTER_PORT", "?")
            places.setdefault(f"{master}:{port} (MASTER_ADDR, MASTER_PORT)", []).append(pod)
    for place, members in places.items():
        ranks = format_ranks(pod["rank"] for pod in members)
        some = f" of task {members[0]['task']}: {ranks}, which restart together"
        whole = len(members) == len(pods)
        yield from _labelled_lines("Rendezvous", place if whole else f"{place}{some}")


def _fact_lines(found: Data) -> Iterator[str]:
    pods = found["pods"]
    # Tasks may differ in image, command and requests. Equal values are printed only once.
    commands = dict.fromkeys((pod["image"], shlex.join(pod["command"])) for pod in pods)
    for image, command in commands:
        # A script in the command can have many lines. The first line is enough to identify the
        # script.
        first, _, rest = (command or "(the image's entrypoint)").partition("\n")
        yield from _labelled_lines(
            "Command", f"{first}{' ...' if rest else ''}   (image {image or '?'})"
        )
    if found["world"]["parallelWorkersAssumed"]:
        yield from _labelled_lines("Processes", PROGRAM_DECIDES)
    yield from _labelled_lines("Connections", _format_connections(found))
    yield from _rendezvous_lines(pods)
    yield from _labelled_lines("Creates", _format_created(found["creates"]))
    if found["drains"]:
        yield from _labelled_lines("Drains", _format_drains(found["drains"]))
    for words in dict.fromkeys(_format_amounts(pod["requests"]) for pod in pods):
        yield from _labelled_lines("Pod requests", words)
    yield from _labelled_lines("Job requests", _format_amounts(found["requests"]))
    yield from _labelled_lines("Completion", _format_completion(found))
    sizes = found["sizes"]
    yield from _labelled_lines(
        "Sizes",
        f"peer list up to {sizes['addressListBytes']} bytes (limit"
        f" {sizes['addressListLimit']}), environment of a pod up to {sizes['environmentBytes']}"
        " bytes",
    )


def _labelled_lines(label: str, text: str) -> Iterator[str]:
    yield from textwrap.wrap(
        text,
        WIDTH,
        initial_indent=label.ljust(LABEL),
        subsequent_indent=" " * LABEL,
        break_on_hyphens=False,
        break_long_words=False,
    )


def _format_connections(found: Data) -> str:
    connections, world, alone = found["connections"], found["world"], ""
    least = AT_LEAST if world["parallelWorkersAssumed"] and connections["total"] else ""
    if ranks := connections["ranksWithoutPeers"]:
        alone = f"; the programs of {format_ranks(ranks)} do not know their peers (see the warning)"
    if connections["toRedis"]:
        text = "one from each process to the Redis server"
        return f"{least}{connections['total']}, {text}{alone}"
    where = f"{connections['betweenPods']} between pods, {connections['withinPods']} within pods"
    shape = {
        "mesh": "each process dials every process with a lower node id",
        "star": "all ranks dial rank 0",
        "alone": "no process dials another",
    }[world["topology"]]
    return f"{least}{connections['total']} between DI-engine's processes ({where}): {shape}{alone}"


def _format_created(creates: Iterable[Data]) -> str:
    ranks = sum(1 for one in creates if one["rank"])
    others = [f"{one['kind']} {one['name']}" for one in creates if not one["rank"]]
    service = [] if any(word.startswith("Service") for word in others) else ["no Service"]
    return ", ".join([format_count(ranks, "pod"), *others, *service])


def _format_drains(drains: Iterable[Data]) -> str:
    return "; ".join(
        f"{format_count(one['maxUnavailable'], 'rank') if one['maxUnavailable'] else 'no rank'}"
        f"{' of task ' + one['task'] if one['task'] else ''} may be unavailable"
        for one in drains
    )


def _format_amounts(requests: Data) -> str:
    found = ", ".join(f"{name} {value}" for name, value in requests.items())
    return found or "none, so the scheduler may put any number of pods on a node"


def _format_completion(found: Data) -> str:
    ends = found["ends"]
    subject = {"AllReplicas": "all ranks have", "Rank0": "rank 0 has"}
    policy = ends["successPolicy"]
    deadline = ends.get("activeDeadlineSeconds")
    return (
        f"succeeds when {subject.get(policy, f'all ranks of task {policy} have')} exited 0; fails"
        f" after more than {ends['backoffLimit']} counted failures"
        f"{f', or after {deadline} s' if deadline else ''}"
    )


def _environment_lines(pods: Sequence[Data], full: bool) -> Iterator[str]:
    yield ""
    if full:
        for pod in pods:
            yield f"Variables of rank {pod['rank']} ({pod['name']})"
            yield from (f"  {name}={_quote_value(v)}" for name, v in pod["environment"].items())
        return
    first = pods[0]["environment"]
    # Most variables are the same in all pods, so they are printed once.
    common = {k: v for k, v in first.items() if all(p["environment"].get(k) == v for p in pods)}
    yield from _wrap_variables("Common variables (--full for all)", common)
    for pod in pods if len(pods) <= FEW // 2 else pods[:2]:
        own = {k: v for k, v in pod["environment"].items() if k not in common}
        yield from _wrap_variables(f"of rank {pod['rank']}", own)


def _wrap_variables(title: str, found: Data) -> Iterator[str]:
    # NUL replaces the spaces inside a value, so that textwrap breaks lines only between variables.
    words = "  ".join(
        f"{name}={_quote_value(value)}".replace(" ", "\0") for name, value in found.items()
    )
    text = textwrap.wrap(
        f"{title.replace(' ', chr(0))}:  {words}",
        WIDTH,
        subsequent_indent="  ",
        break_on_hyphens=False,
        break_long_words=False,
    )
    yield from (line.replace("\0", " ") for line in text)


def _quote_value(value: str) -> str:
    """Return a value on one line, cut if it is long."""
    text = value.replace("\n", "\\n")
    return text if len(text) <= 2 * WIDTH else f"{text[: 2 * WIDTH]}... ({len(text)} characters)"


def _warning_lines(found: Sequence[Data]) -> Iterator[str]:
    for one in found:
        yield from _labelled_lines("Warning", f"{one['field']}: {one['message']}")


def _cluster_lines(seen: Data) -> Iterator[str]:
    """Yield the findings of the cluster checks (cluster.py)."""
    if not seen["asked"]:
        yield from _labelled_lines("Cluster", seen["why"])
    # What was not checked comes last, as one block.
    for verdict, mark in (("yes", "OK"), ("no", "NO"), ("unknown", "?")):
        for line in seen["findings"]:
            if line["verdict"] == verdict:
                yield from _labelled_lines(mark, line["text"])
