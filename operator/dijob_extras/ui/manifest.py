"""Builds the data about a job's spec that the job's page shows: images, commands, resources, YAML,
and commands to copy. No I/O.
"""

from collections.abc import Mapping
from typing import Any, Final

import yaml
from dijob.api.model import DIJob
from dijob.api.pod_sets import PodSet
from dijob.api.problems import SpecError
from dijob.client import Job
from dijob.client.yaml_text import Dumper
from dijob.core.members import format_ranks, gang_of

# Fields that the API server adds, and that users never write.
_SERVER_FIELDS: Final = (
    "managedFields",
    "resourceVersion",
    "uid",
    "generation",
    "creationTimestamp",
    "selfLink",
)
_LAST_APPLIED: Final = "kubectl.kubernetes.io/last-applied-configuration"


def spec_page(job: Job) -> dict[str, Any]:
    """Return the data for the tabs that show the spec."""
    try:
        programs = [_program(one) for one in job.model.pod_sets]
    except SpecError:
        programs = []
    return {"programs": programs, "yaml": format_yaml(job), "commands": list_commands(job)}


def _program(one: PodSet) -> dict[str, Any]:
    main = one.main_container
    resources = main.get("resources")
    resources = resources if isinstance(resources, Mapping) else {}
    return {
        "task": one.name,
        "ranks": format_ranks(range(one.first, one.first + one.replicas)),
        "image": str(main.get("image") or ""),
        "command": _format_command(list_words(main)),
        "requests": _format_resources(resources.get("requests")),
        "limits": _format_resources(resources.get("limits")),
    }


def list_words(main: Mapping[str, Any]) -> list[str]:
    """Return the words of a container's command and arguments."""
    return [*_words(main.get("command")), *_words(main.get("args"))]


def _words(value: Any) -> list[str]:
    return [str(word) for word in value] if isinstance(value, list) else []


def _format_command(words: list[str]) -> str:
    """Return a command as text. A script keeps its line breaks."""
    return " ".join(f"{word}\n" if "\n" in word.strip() else word for word in words).strip()


def _format_resources(given: Any) -> str:
    found = given if isinstance(given, Mapping) else {}
    return ", ".join(f"{name} {amount}" for name, amount in found.items())


def format_yaml(job: Job) -> str:
    """Return the job as its user could have written it: without the status and the fields that the
    API server adds.
    """
    meta = {k: v for k, v in job.body["metadata"].items() if k not in _SERVER_FIELDS}
    notes = {k: v for k, v in (meta.pop("annotations", None) or {}).items() if k != _LAST_APPLIED}
    meta |= {"annotations": notes} if notes else {}
    parts = {"apiVersion", "kind", "spec"}
    body = {k: v for k, v in job.body.items() if k in parts}
    ordered = {"apiVersion": "", "kind": "", "metadata": meta, **body}
    return yaml.dump(ordered, Dumper=Dumper, sort_keys=False, allow_unicode=True, width=100)


def list_commands(job: Job) -> list[tuple[str, str]]:
    """Return kubectl commands with their titles. None of them changes anything."""
    name, where = job.name, f"-n {job.metadata.namespace}"
    first = job.status.first_failure
    rank = first.rank if first and job.finished else 0
    commands = [
        ("Find out what is wrong", f"kubectl dijob doctor {name} {where}"),
        ("Read the log", f"kubectl dijob logs {name} {where} --rank {rank}"),
        ("Show the time that was spent", f"kubectl dijob report {name} {where}"),
    ]
    if not job.finished:
        commands += [
            ("Follow the logs of all ranks", f"kubectl dijob logs {name} {where} -f"),
            ("Inspect the connections", f"kubectl dijob topology {name} {where}"),
        ]
    if pod := _first_pod(job, rank):
        commands.append(("Describe the pod", f"kubectl describe pod {pod} {where}"))
        if not job.finished:
            commands.append(("Open a shell in the pod", f"kubectl exec -it {pod} {where} -- sh"))
    return commands


def _first_pod(job: Job, rank: int) -> str:
    try:
        model: DIJob = job.model
    except SpecError:
        return ""
    return gang_of(model).member(rank).name if rank < gang_of(model).size else ""
