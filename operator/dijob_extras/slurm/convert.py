"""Builds the DIJob from a batch script."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from dijob import names
from dijob.cli.errors import CliError, Exit
from dijob.names import Runtime

from dijob_extras.slurm import amounts, body, shape
from dijob_extras.slurm.command import SlurmCommand, build_command, job_name
from dijob_extras.slurm.options import ADVICE, NEEDLESS, READ, UNKNOWN
from dijob_extras.slurm.script import Note, Notes, Option, Script
from dijob_extras.slurm.step import SlurmStep, choose_step

Body = dict[str, Any]

# The backoffLimit for --requeue: the default of a DIJob. The file contains it explicitly, because
# users of Slurm's --requeue do not expect a limit.
BACKOFF_LIMIT: Final = 3
_COUNTS: Final = ("nodes", "ntasks", "ntasks-per-node")


@dataclass(frozen=True)
class Wishes:
    """The options of the command.

    `image` and `name` are "" if the script determines them. `step` selects one of several steps,
    and `index` selects one job of an array.
    """

    image: str = ""
    name: str = ""
    step: int | None = None
    index: int | None = None


@dataclass(frozen=True)
class Converted:
    """The DIJob, and the notes about the script's lines that were changed or left out, or that do
    not work in a pod.
    """

    job: Body
    notes: list[Note] = field(default_factory=list)


def convert_script(script: Script, wishes: Wishes) -> Converted:
    """Convert a script. Raises CliError (USAGE) if the script cannot be converted."""
    notes = Notes()
    step = choose_step(script, wishes.step)
    # As in Slurm, options of srun override those of sbatch.
    given = {**script.given, **step.given}
    index = _array_index(given, wishes)
    pods = shape.derive_shape(_drop_pod_counts(given, step, notes), notes)
    name = wishes.name or job_name(given["job-name"].value if "job-name" in given else "job")
    # The jobs of an array run at the same time, so their names must differ.
    name = name if index is None else f"{name}-{index}"
    number = {} if index is None else {"SLURM_ARRAY_TASK_ID": str(index)}
    read = body.read_script_body(script, step, {"SLURM_JOB_NAME": name, **number}, notes)
    made = build_command(step, read, pods, name, notes)
    env = {**_exported_values(given, notes), **read.env, **made.env, **number}
    _note_options(script, step, notes)
    container = _build_container(
        wishes.image or made.image or _require_image(given), made, pods, env
    )
    folder = given.get("container-workdir") or given.get("chdir")
    if where := folder.value if folder else read.folder:
        container["workingDir"] = where
    job = _build_job(name, given, made, pods, container)
    return Converted(job, notes.sorted())


def _drop_pod_counts(
    given: Mapping[str, Option], step: SlurmStep, notes: Notes
) -> Mapping[str, Option]:
    """Return the options. If there is no srun, options for the number of pods are left out."""
    if not step.once or not any(name in given for name in _COUNTS):
        return given
    advice = (
        "Without srun, Slurm runs a command once, on the first node, so the job has one pod. To run"
        " it on all nodes, put srun before it and convert the script again"
    )
    notes.add(step.line.number, step.line.text, advice)
    return {name: option for name, option in given.items() if name not in _COUNTS}


def _build_job(
    name: str, given: Mapping[str, Option], made: SlurmCommand, pods: shape.Shape, container: Body
) -> Body:
    spec: Body = {"replicas": pods.pods}
    if made.workers:
        spec["parallelWorkers"] = made.workers
    if made.runtime is not Runtime.DITASK:
        spec["runtime"] = made.runtime.value
    if "no-requeue" in given or "requeue" in given:
        # The later of the two options takes effect.
        last = max((given[n] for n in ("no-requeue", "requeue") if n in given), key=_line_number)
        spec["backoffLimit"] = BACKOFF_LIMIT if last.name == "requeue" else 0
    if "time" in given and (limit := amounts.parse_seconds(given["time"])):
        spec["activeDeadlineSeconds"] = limit
    spec["template"] = {"spec": {"containers": [container]}}
    return {
        "apiVersion": names.API_VERSION,
        "kind": names.KIND,
        "metadata": {"name": name},
        "spec": spec,
    }


def _line_number(option: Option) -> int:
    return option.number


def _build_container(
    image: str, made: SlurmCommand, pods: shape.Shape, env: Mapping[str, str]
) -> Body:
    found: Body = {"name": names.MAIN_CONTAINER, "image": image}
    if made.line:
        found |= {"command": ["/bin/bash", "-c"], "args": [_escape_dollars(made.line)]}
    else:
        found["command"] = [_escape_dollars(word) for word in made.words]
    if env:
        found["env"] = [{"name": name, "value": value} for name, value in env.items()]
    requests: Body = {"cpu": str(pods.cpus)} if pods.cpus else {}
    limits: Body = {}
    # Slurm kills a job that exceeds its memory, so the limit equals the request.
    if pods.memory:
        requests["memory"] = limits["memory"] = pods.memory
    if pods.gpus:
        limits["nvidia.com/gpu"] = str(pods.gpus)
    resources = {"requests": requests, "limits": limits}
    if kept := {kind: amount for kind, amount in resources.items() if amount}:
        found["resources"] = kept
    return found


def _escape_dollars(text: str) -> str:
    """Escape text for the kubelet, which turns $$ into $."""
    return text.replace("$$", "$$$$")


def _require_image(given: Mapping[str, Option]) -> str:
    """Return the image of pyxis' --container-image. Raises CliError (USAGE) if there is no such
    option.
    """
    if "container-image" in given:
        # pyxis separates the registry from the image with #.
        return given["container-image"].value.removeprefix("docker://").replace("#", "/")
    raise CliError(
        "a pod needs an image with the program and its dependencies: add --image, for example"
        " --image dijob/ditask:0.5.3",
        Exit.USAGE,
    )


def _array_index(given: Mapping[str, Option], wishes: Wishes) -> int | None:
    if "array" not in given:
        return None
    if wishes.index is None:
        option = given["array"]
        raise CliError(
            f"line {option.number}: --array={option.value} creates one job per index: choose an"
            " index with --array-index, and convert each index separately",
            Exit.USAGE,
        )
    return wishes.index


def _exported_values(given: Mapping[str, Option], notes: Notes) -> dict[str, str]:
    """Return the values of --export=NAME=VALUE, which become env."""
    option = given.get("export")
    if option is None:
        return {}
    words = [word for word in option.value.split(",") if word]
    # --export=NONE passes no variables to the job, and a pod gets none in any case.
    named = [word for word in words if "=" not in word and word not in ("NONE", "NIL")]
    if named:
        advice = "a pod has only the variables of its template: set those that the program needs in"
        notes.add(option.number, option.text, f"{', '.join(named)}: {advice} env")
    return dict(word.split("=", 1) for word in words if "=" in word)


def _note_options(script: Script, step: SlurmStep, notes: Notes) -> None:
    for option in (*script.options, *step.options):
        # --gres can also request resources other than GPUs. A DIJob has no field for them.
        seen_gres = option.name == "gres" and amounts.parse_gpus(option) is None
        if option.name in NEEDLESS or (option.name in READ and not seen_gres):
            continue
        notes.add(
            option.number, option.text, f"--{option.name}: {ADVICE.get(option.name, UNKNOWN)}"
        )
    for line in script.late:
        notes.add(
            line.number, line.text, "Slurm ignores this line too, because a command precedes it"
        )
