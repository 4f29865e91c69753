"""Determines the command of the pods, and the runtime whose variables the command reads."""

import itertools
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

from dijob.api.job_names import NAME_LENGTH
from dijob.api.numbers import parse_natural
from dijob.core.render.runtimes import RUNTIMES
from dijob.core.render.runtimes.torch import MASTER_PORT
from dijob.names import Runtime

from dijob_extras.slurm.body import REFERENCE, Body
from dijob_extras.slurm.containers import strip_apptainer
from dijob_extras.slurm.script import Notes, unquote_word
from dijob_extras.slurm.shape import Shape
from dijob_extras.slurm.step import SlurmStep, needs_shell

# The variables that `runtime: slurm` sets. The names are repeated here, because the code that sets
# the variables needs a gang. A unit test compares the names.
SLURM_VARIABLES: Final = frozenset(
    {
        *RUNTIMES[Runtime.SLURM].list_env,
        *[
            "SLURM_NTASKS_PER_NODE",
            "SLURM_PROCID",
            "SLURM_LOCALID",
            "SLURM_NODEID",
            "SLURMD_NODENAME",
        ],
        *["SLURM_JOB_ID", "SLURM_JOB_NAME"],
    }
)
# The options of torchrun that `runtime: torch` sets as PET_ variables.
_RENDEZVOUS: Final = frozenset(
    [
        "nnodes",
        "node-rank",
        "master-addr",
        "master-port",
        "rdzv-id",
        "rdzv-backend",
        "rdzv-endpoint",
        "rdzv-conf",
    ]
)
_ARGUMENT: Final = re.compile(r"\$\{?[1-9@*]")
# torchrun, and the module names under which it can be started.
_TORCH: Final = ("torchrun", "torch.distributed.run", "torch.distributed.launch")


@dataclass
class SlurmCommand:
    """The command of the pods.

    Either `words` is the command, or `line` is a command line for a shell. `workers` is the number
    of processes per pod (None if unknown). `env` has the variables that the command needs in
    addition to the script's. `image` is the image that the command names, or "".
    """

    runtime: Runtime
    workers: int | None = None
    words: list[str] = field(default_factory=list)
    line: str = ""
    env: dict[str, str] = field(default_factory=dict)
    image: str = ""


def build_command(
    step: SlurmStep, body: Body, pods: Shape, name: str, notes: Notes
) -> SlurmCommand:
    """Return the command of a step. Add notes about everything that does not work in a pod."""
    made = SlurmCommand(_choose_runtime(step))
    if _ARGUMENT.search(step.script or " ".join(step.words)):
        advice = "the script's arguments ($1, $@) do not exist in a pod: write the values instead"
        notes.add(step.line.number, step.line.text, advice)
    if step.script:
        made.line = step.script
        _note_unknown_variables([step.script], body, made, step, notes)
        return made
    found = strip_apptainer(
        [word if word.startswith("'") else body.replaced(word) for word in step.words]
    )
    words, made.image = list(found.words), found.image
    if found.said:
        notes.add(step.line.number, step.line.text, found.said)
    if made.runtime is Runtime.TORCH:
        words = _without_rendezvous(words, step, pods, made, notes)
    # `&` and `&& wait` get no note: they concern only the script, which waits for srun.
    if step.tail and step.tail not in ("&", "&& wait"):
        advice = "a program's output is in its pod's log: kubectl dijob logs NAME"
        notes.add(step.line.number, f"{step.line.text}", advice)
    made.env = _derive_variables(words, body, pods, made.runtime, name)
    _note_masters(body, made, notes)
    # Variables that only a shell in the pod can expand are exported before the command.
    used = {name for text in [*words, *body.late.values()] for name in body.late if name in text}
    late = [f'export {k}="{v}"' for k, v in body.late.items() if k in used | body.exported]
    if late or needs_shell(words):
        made.line = "\n".join([*late, " ".join(words)])
    else:
        made.words = [unquote_word(word) for word in words]
    _note_unknown_variables([*late, *words], body, made, step, notes)
    return made


def job_name(text: str) -> str:
    """Return a name that resembles the text and is valid for a DIJob."""
    found = re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")
    # The job's Service has the same name, which must therefore begin with a letter (RFC 1035).
    found = re.sub(r"^[^a-z]+", "", found)
    return found[:NAME_LENGTH].rstrip("-") or "job"


def _choose_runtime(step: SlurmStep) -> Runtime:
    # A program that reads Slurm variables needs them in the pod too. ditask reads them only with
    # the option `--platform slurm`. Without that option, the launcher adds the job's options to
    # ditask.
    words = step.plain_words
    if any(word.rpartition("/")[2] in _TORCH for word in words):
        return Runtime.TORCH
    reads = any("SLURM" in word for word in (*step.words, step.script))
    if step.once and not reads:
        return Runtime.DITASK
    pairs = list(itertools.pairwise(words))
    named = ("--platform", "slurm") in pairs or "--platform=slurm" in words
    return Runtime.DITASK if step.has("ditask") and not (named or reads) else Runtime.SLURM


def _without_rendezvous(
    words: Sequence[str], step: SlurmStep, pods: Shape, made: SlurmCommand, notes: Notes
) -> list[str]:
    """Return torchrun's words without the options that the runtime sets as variables.

    An option on the command line would override its variable: --master-addr, for example, would
    name a Slurm node.
    """
    left: list[str] = []
    dropped: list[str] = []
    at = 0
    while at < len(words):
        word, at = words[at], at + 1
        option, joined, value = word.partition("=")
        name = option.lstrip("-").replace("_", "-")
        ours = option.startswith("--") and (name in _RENDEZVOUS or name == "nproc-per-node")
        if not ours:
            left.append(word)
            continue
        if not joined and at < len(words):
            value, at = words[at], at + 1
        if name == "nproc-per-node":
            made.workers = _count_processes(unquote_word(value), pods)
        dropped.append(f"--{name}")
    if dropped:
        advice = "left out, because `runtime: torch` sets them as PET_ variables"
        notes.add(step.line.number, step.line.text, f"{', '.join(dropped)}: {advice}")
    return left


def _count_processes(value: str, pods: Shape) -> int:
    """Return the number of processes that torchrun starts in a pod.

    The value may be a word such as `gpu` or `auto`, which means one process per GPU.
    """
    return parse_natural(value) or max(1, pods.gpus)


def _derive_variables(
    words: Iterable[str], body: Body, pods: Shape, runtime: Runtime, name: str
) -> dict[str, str]:
    """Return variables that the command needs in addition to those that the runtime sets.

    These are the Slurm variables that the command reads, if their values are known. They also
    include the script's variables for the first node and for ports, if the command reads them or
    the script exports them.
    """
    texts = [*words, *body.late.values()]
    read = {match[1] or match[2] for text in texts for match in REFERENCE.finditer(text)}
    known = {
        "SLURM_CPUS_PER_TASK": str(pods.cpus) if pods.cpus else "",
        "SLURM_CPUS_ON_NODE": str(pods.cpus) if pods.cpus else "",
        "SLURM_GPUS_ON_NODE": str(pods.gpus) if pods.gpus else "",
        "SLURM_GPUS_PER_NODE": str(pods.gpus) if pods.gpus else "",
        # The kubelet expands $(NAME) to the variable that the operator sets.
        "SLURM_JOBID": "$(SLURM_JOB_ID)" if runtime is Runtime.SLURM else "",
        "SLURM_SUBMIT_DIR": body.folder,
    }
    found = {name: known[name] for name in sorted(read & known.keys()) if known[name]}
    if runtime is Runtime.TORCH:
        return found  # this runtime sets MASTER_ADDR and MASTER_PORT itself
    # Rank 0 takes the place of the first node.
    masters = {one: f"{name}-0" for one in body.masters if one in read | body.exported}
    ports = {one: str(MASTER_PORT) for one in body.ports if one in read | body.exported}
    return {**found, **masters, **ports}


def _note_masters(body: Body, made: SlurmCommand, notes: Notes) -> None:
    """Add a note for each variable that depends on the first node or contains a computed port.

    The note says what replaces the line that sets the variable, or why the line is not needed.
    """
    for name, line in [*body.masters.items(), *body.ports.items()]:
        if name in made.env:
            advice = f"replaced: env sets {name} to {made.env[name]}"
            if name in body.masters:
                advice += ", the name of rank 0's pod"
        elif made.runtime is Runtime.TORCH:
            advice = "not needed: `runtime: torch` sets MASTER_ADDR and MASTER_PORT"
        else:
            advice = "not needed: the job's command does not read it"
        notes.add(line.number, line.text, advice)


def _note_unknown_variables(
    texts: Iterable[str], body: Body, made: SlurmCommand, step: SlurmStep, notes: Notes
) -> None:
    """Add a note for each Slurm variable that the command reads but a pod does not have."""
    read = {match[1] or match[2] for text in texts for match in REFERENCE.finditer(text)}
    has = {
        *made.env,
        *body.env,
        *body.late,
        *(SLURM_VARIABLES if made.runtime is Runtime.SLURM else ()),
    }
    for name in sorted(read - has):
        if name.startswith("SLURM"):
            advice = f"{name} does not exist in a pod: write its value into the command or into env"
            notes.add(step.line.number, step.line.text, advice)
