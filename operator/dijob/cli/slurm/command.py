"""The pods' command: the runtime whose variables it reads, and the words of it."""

import itertools
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

from dijob.api.job_names import NAME_LENGTH
from dijob.api.numbers import natural
from dijob.cli.slurm.body import REFERENCE, Body
from dijob.cli.slurm.containers import inner
from dijob.cli.slurm.notes import Notes
from dijob.cli.slurm.script import plain
from dijob.cli.slurm.shape import Shape
from dijob.cli.slurm.step import Step, needs_shell
from dijob.core.render.runtimes import RUNTIMES
from dijob.core.render.runtimes.torch import MASTER_PORT
from dijob.names import Runtime

# What `runtime: slurm` sets; with no gang at hand, by their names in the code that sets them.
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
# torchrun's options that `runtime: torch` gives as PET_ variables.
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
_TORCH: Final = ("torchrun", "torch.distributed.run", "torch.distributed.launch")


@dataclass
class Command:
    """What the pods run: the runtime, the processes per pod (None: not said), the command's words,
    or a line for a shell, the variables that it needs besides the script's own, and the image that
    it names ("" for none).
    """

    runtime: Runtime
    workers: int | None = None
    words: list[str] = field(default_factory=list)
    line: str = ""
    env: dict[str, str] = field(default_factory=dict)
    image: str = ""


def command(step: Step, body: Body, pods: Shape, name: str, notes: Notes) -> Command:
    """The command of a step."""
    made = Command(_runtime(step))
    if _ARGUMENT.search(step.script or " ".join(step.words)):
        said = "the arguments of the script ($1, $@) are not there in a pod: write them in"
        notes.add(step.line.number, step.line.text, said)
    if step.script:
        made.line = step.script
        _unknown([step.script], body, made, step, notes)
        return made
    found = inner([word if word.startswith("'") else body.replaced(word) for word in step.words])
    words, made.image = list(found.words), found.image
    if found.said:
        notes.add(step.line.number, step.line.text, found.said)
    if made.runtime is Runtime.TORCH:
        words = _without_rendezvous(words, step, pods, made, notes)
    if step.tail and step.tail not in ("&", "&& wait"):
        said = "what a program prints is its pod's log: kubectl dijob logs NAME"
        notes.add(step.line.number, f"{step.line.text}", said)
    made.env = _provided(words, body, pods, made.runtime, name)
    _note_masters(body, made, notes)
    # Lines before the command: variables that only a pod's shell can work out.
    used = {name for text in [*words, *body.late.values()] for name in body.late if name in text}
    late = [f'export {k}="{v}"' for k, v in body.late.items() if k in used | body.exported]
    if late or needs_shell(words):
        made.line = "\n".join([*late, " ".join(words)])
    else:
        made.words = [plain(word) for word in words]
    _unknown([*late, *words], body, made, step, notes)
    return made


def job_name(text: str) -> str:
    """A name of a DIJob that is as near as can be."""
    found = re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")
    found = re.sub(r"^[^a-z]+", "", found)
    return found[:NAME_LENGTH].rstrip("-") or "job"


def _runtime(step: Step) -> Runtime:
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
    words: Sequence[str], step: Step, pods: Shape, made: Command, notes: Notes
) -> list[str]:
    """torchrun's words without those that its runtime says by itself."""
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
            made.workers = _processes(plain(value), pods)
        dropped.append(f"--{name}")
    if dropped:
        said = "runtime: torch says it, as PET_ variables, and so it is left out"
        notes.add(step.line.number, step.line.text, f"{', '.join(dropped)}: {said}")
    return left


def _processes(value: str, pods: Shape) -> int:
    """How many processes torchrun starts in a pod: a number, or one for each GPU."""
    return natural(value) or max(1, pods.gpus)


def _provided(
    words: Iterable[str], body: Body, pods: Shape, runtime: Runtime, name: str
) -> dict[str, str]:
    """Variables that Slurm sets, and the runtime does not: those that are read, as far as the
    script says what they are."""
    texts = [*words, *body.late.values()]
    read = {match[1] or match[2] for text in texts for match in REFERENCE.finditer(text)}
    known = {
        "SLURM_CPUS_PER_TASK": str(pods.cpus) if pods.cpus else "",
        "SLURM_CPUS_ON_NODE": str(pods.cpus) if pods.cpus else "",
        "SLURM_GPUS_ON_NODE": str(pods.gpus) if pods.gpus else "",
        "SLURM_GPUS_PER_NODE": str(pods.gpus) if pods.gpus else "",
        # The kubelet puts the operator's own in here.
        "SLURM_JOBID": "$(SLURM_JOB_ID)" if runtime is Runtime.SLURM else "",
        "SLURM_SUBMIT_DIR": body.folder,
    }
    found = {name: known[name] for name in sorted(read & known.keys()) if known[name]}
    if runtime is Runtime.TORCH:
        return found  # it sets MASTER_ADDR and MASTER_PORT itself
    masters = {one: f"{name}-0" for one in body.masters if one in read | body.exported}
    ports = {one: str(MASTER_PORT) for one in body.ports if one in read | body.exported}
    return {**found, **masters, **ports}


def _note_masters(body: Body, made: Command, notes: Notes) -> None:
    """Where the script looks for the first node, or makes up a port."""
    for name, line in [*body.masters.items(), *body.ports.items()]:
        if name in made.env:
            said = f"{name} is {made.env[name]} in env: the name of rank 0's pod"
            said = said if name in body.masters else f"{name} is {made.env[name]} in env"
        elif made.runtime is Runtime.TORCH:
            said = "runtime: torch says where rank 0 is (MASTER_ADDR, MASTER_PORT)"
        else:
            said = "it is not needed: no command of the job reads it"
        notes.add(line.number, line.text, said)


def _unknown(texts: Iterable[str], body: Body, made: Command, step: Step, notes: Notes) -> None:
    """Variables of Slurm that nobody sets in a pod."""
    read = {match[1] or match[2] for text in texts for match in REFERENCE.finditer(text)}
    has = {
        *made.env,
        *body.env,
        *body.late,
        *(SLURM_VARIABLES if made.runtime is Runtime.SLURM else ()),
    }
    for name in sorted(read - has):
        if name.startswith("SLURM"):
            said = f"no pod has {name}: write its value into the command, or into env"
            notes.add(step.line.number, step.line.text, said)
