"""A DIJob of a batch script."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from dijob import names
from dijob.cli.errors import CliError, Exit
from dijob.cli.slurm import amounts, body, shape
from dijob.cli.slurm.command import Command, command, job_name
from dijob.cli.slurm.notes import Note, Notes
from dijob.cli.slurm.options import ADVICE, NEEDLESS, READ, UNKNOWN
from dijob.cli.slurm.script import Option, Script
from dijob.cli.slurm.step import Step, chosen
from dijob.names import Runtime

Body = dict[str, Any]

BACKOFF_LIMIT: Final = 3
_COUNTS: Final = ("nodes", "ntasks", "ntasks-per-node")


@dataclass(frozen=True)
class Wishes:
    """What the user says besides the script. `image` and `name` are "" where the script is to say
    it; `step` and `index` choose one of several steps, and one of an array."""

    image: str = ""
    name: str = ""
    step: int | None = None
    index: int | None = None


@dataclass(frozen=True)
class Converted:
    """The DIJob, and what is said of lines that are not in it."""

    job: Body
    notes: list[Note] = field(default_factory=list)


def convert(script: Script, wishes: Wishes) -> Converted:
    """The DIJob of a script. CliError (USAGE) where it cannot be one."""
    notes = Notes()
    step = chosen(script, wishes.step)
    given = {**script.given, **step.given}
    index = _index(given, wishes)
    pods = shape.shape(_counted(given, step, notes), notes)
    name = wishes.name or job_name(given["job-name"].value if "job-name" in given else "job")
    name = name if index is None else f"{name}-{index}"
    number = {} if index is None else {"SLURM_ARRAY_TASK_ID": str(index)}
    read = body.read(script, step, {"SLURM_JOB_NAME": name, **number}, notes)
    made = command(step, read, pods, name, notes)
    env = {**_exported(given, notes), **read.env, **made.env, **number}
    _note_options(script, step, notes)
    container = _container(wishes.image or made.image or _image(given), made, pods, env)
    folder = given.get("container-workdir") or given.get("chdir")
    if where := folder.value if folder else read.folder:
        container["workingDir"] = where
    job = _job(name, given, made, pods, container)
    return Converted(job, notes.sorted())


def _counted(given: Mapping[str, Option], step: Step, notes: Notes) -> Mapping[str, Option]:
    """The options that say how many pods there are; without srun it is one."""
    if not step.once or not any(name in given for name in _COUNTS):
        return given
    said = "without srun it runs once, on the first node: hence one pod. Put srun before it, and"
    notes.add(step.line.number, step.line.text, f"{said} convert again, if all nodes are to run it")
    return {name: option for name, option in given.items() if name not in _COUNTS}


def _job(
    name: str, given: Mapping[str, Option], made: Command, pods: shape.Shape, container: Body
) -> Body:
    spec: Body = {"replicas": pods.pods}
    if made.workers:
        spec["parallelWorkers"] = made.workers
    if made.runtime is not Runtime.DITASK:
        spec["runtime"] = made.runtime.value
    if "no-requeue" in given or "requeue" in given:
        last = max((given[n] for n in ("no-requeue", "requeue") if n in given), key=_order)
        spec["backoffLimit"] = BACKOFF_LIMIT if last.name == "requeue" else 0
    if "time" in given and (limit := amounts.seconds(given["time"])):
        spec["activeDeadlineSeconds"] = limit
    spec["template"] = {"spec": {"containers": [container]}}
    return {
        "apiVersion": names.API_VERSION,
        "kind": names.KIND,
        "metadata": {"name": name},
        "spec": spec,
    }


def _order(option: Option) -> int:
    return option.number


def _container(image: str, made: Command, pods: shape.Shape, env: Mapping[str, str]) -> Body:
    found: Body = {"name": names.MAIN_CONTAINER, "image": image}
    if made.line:
        found |= {"command": ["/bin/bash", "-c"], "args": [_escaped(made.line)]}
    else:
        found["command"] = [_escaped(word) for word in made.words]
    if env:
        found["env"] = [{"name": name, "value": value} for name, value in env.items()]
    requests: Body = {"cpu": str(pods.cpus)} if pods.cpus else {}
    limits: Body = {}
    if pods.memory:
        requests["memory"] = limits["memory"] = pods.memory
    if pods.gpus:
        limits["nvidia.com/gpu"] = str(pods.gpus)
    resources = {"requests": requests, "limits": limits}
    if kept := {kind: amount for kind, amount in resources.items() if amount}:
        found["resources"] = kept
    return found


def _escaped(text: str) -> str:
    """As the kubelet leaves it alone: to it, two dollars are one."""
    return text.replace("$$", "$$$$")


def _image(given: Mapping[str, Option]) -> str:
    """Pyxis' --container-image; its # stands after the registry's host."""
    if "container-image" in given:
        return given["container-image"].value.removeprefix("docker://").replace("#", "/")
    raise CliError(
        "a pod needs an image: give --image one that has the program and what it needs, such as"
        " dijob/ditask:0.5.3.",
        Exit.USAGE,
    )


def _index(given: Mapping[str, Option], wishes: Wishes) -> int | None:
    if "array" not in given:
        return None
    if wishes.index is None:
        option = given["array"]
        raise CliError(
            f"line {option.number}: --array={option.value} makes a job of each index, and a DIJob"
            " is one job: choose an index with --array-index, and make a DIJob of each.",
            Exit.USAGE,
        )
    return wishes.index


def _exported(given: Mapping[str, Option], notes: Notes) -> dict[str, str]:
    """--export: plain values become env."""
    option = given.get("export")
    if option is None:
        return {}
    words = [word for word in option.value.split(",") if word]
    named = [word for word in words if "=" not in word and word not in ("NONE", "NIL")]
    if named:
        said = f"{', '.join(named)}: a pod has the variables of its template alone: put what the"
        notes.add(option.number, option.text, f"{said} program needs into env")
    return dict(word.split("=", 1) for word in words if "=" in word)


def _note_options(script: Script, step: Step, notes: Notes) -> None:
    for option in (*script.options, *step.options):
        seen_gres = option.name == "gres" and amounts.gpus(option) is None
        if option.name in NEEDLESS or (option.name in READ and not seen_gres):
            continue
        notes.add(
            option.number, option.text, f"--{option.name}: {ADVICE.get(option.name, UNKNOWN)}"
        )
    for line in script.late:
        notes.add(
            line.number, line.text, "Slurm does not read it either: a command stands before it"
        )
