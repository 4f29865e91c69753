"""The commands of a batch script that are no step: variables, the working directory, and what has
no counterpart."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from dijob.cli.slurm.kinds import NOTHING, assigned, assigns, calls_srun, is_software
from dijob.cli.slurm.notes import Notes
from dijob.cli.slurm.script import Line, Script, plain, words_of
from dijob.cli.slurm.step import Step

_ARRAY: Final = re.compile(r"(\w+)=\(")
_MENTION: Final = re.compile(r"\$\{?(\w+)")
REFERENCE: Final = re.compile(r"\$(?:\{(\w+)\}|(\w+))")
_SOFTWARE_ADVICE: Final = (
    "the image has the program's software: give --image one that has it, or build one (FROM"
    " dijob/ditask:0.5.3, images/README.md)"
)
_ONCE: Final = (
    "in Slurm it runs once, on the first node: do it in the image, in an initContainer of the"
    " template, or in the program"
)
# How scripts find the first node.
_FIRST_NODE: Final = re.compile(
    r"scontrol\s+show\s+hostname|SLURM_(JOB_)?NODELIST|SLURM_LAUNCH_NODE"
)


@dataclass
class Body:
    """What the lines say: variables with plain values, those of the shell (not exported), the
    working directory ("" for none), and the variables that are the first node's address or a port
    that the script computes.
    """

    env: dict[str, str] = field(default_factory=dict)
    shell: dict[str, str] = field(default_factory=dict)
    folder: str = ""
    masters: dict[str, Line] = field(default_factory=dict)
    ports: dict[str, Line] = field(default_factory=dict)
    # Values with variables that only a pod knows, to be set by the shell there, and those of them
    # that the program gets.
    late: dict[str, str] = field(default_factory=dict)
    exported: set[str] = field(default_factory=set)

    def replaced(self, text: str) -> str:
        """The text with the variables that are known here."""
        known: Mapping[str, str] = {**self.shell, **self.env}

        def one(match: re.Match[str]) -> str:
            return known.get(match[1] or match[2], match[0])

        return REFERENCE.sub(one, text)


def read(script: Script, step: Step, known: Mapping[str, str], notes: Notes) -> Body:
    """The body of the script, without its steps; `known` are variables that Slurm would set."""
    body = Body(shell=dict(known))
    for line in script.lines:
        if line == step.line or (step.script and not is_software(line)):
            continue
        if calls_srun(line):
            notes.add(line.number, line.text, "another step: make a DIJob of it too, with --step")
        elif array := _ARRAY.match(line.text):
            _computed(array[1], line.text, line, body, notes)
        elif assigns(line):
            _assign(line, body, notes)
        elif line.first == "export":
            _export(line, body, notes)
        elif line.first == "cd":
            _enter(line, body, notes)
        else:
            _other(line, notes)
    return body


def _export(line: Line, body: Body, notes: Notes) -> None:
    """`export A B`, of variables that the script has set before."""
    for name in line.text.split()[1:]:
        body.exported.add(name)
        if name in body.shell:
            body.env[name] = body.shell[name]
        elif name not in {*body.masters, *body.ports, *body.late}:
            said = "a pod has the variables of its template alone: give it a value in env"
            notes.add(line.number, line.text, said)


def _assign(line: Line, body: Body, notes: Notes) -> None:
    """`export A=1 B=2`, or `A=1`, which the shell of the script alone has."""
    exported = line.first == "export"
    for word in assigned(line):
        name, is_one, written = word.partition("=")
        if not is_one:
            continue
        body.exported |= {name} if exported else set()
        if "$(" in written or "`" in written or _mentioned(written) & body.masters.keys():
            _computed(name, written, line, body, notes)
            continue
        value = plain(written) if written.startswith("'") else body.replaced(plain(written))
        if written.startswith("'") or "$" not in value:
            (body.env if exported else body.shell)[name] = value
        else:
            body.late[name] = value


def _mentioned(text: str) -> set[str]:
    """The variables that a text names."""
    return set(_MENTION.findall(text))


def _computed(name: str, written: str, line: Line, body: Body, notes: Notes) -> None:
    """A value that a command gives."""
    if _FIRST_NODE.search(written) or _mentioned(written) & body.masters.keys():
        body.masters[name] = line
    elif "PORT" in name.upper():
        body.ports[name] = line
    else:
        said = (
            "its value comes from a command: give the variable one in env, if the program reads it"
        )
        notes.add(line.number, line.text, said)


def _enter(line: Line, body: Body, notes: Notes) -> None:
    words = words_of(line.text)
    folder = body.replaced(plain(words[1])) if len(words) == 2 else ""
    if folder.startswith("/") and not REFERENCE.search(folder):
        body.folder = folder
    elif REFERENCE.fullmatch(folder) is None or "SUBMIT_DIR" not in folder:
        notes.add(line.number, line.text, "set workingDir in the template to a folder of the image")
    else:
        said = (
            "your own folder is not in a pod: put the code into the image or on a volume, and set"
        )
        notes.add(line.number, line.text, f"{said} workingDir to it")


def _other(line: Line, notes: Notes) -> None:
    if is_software(line):
        notes.add(line.number, line.text, _SOFTWARE_ADVICE)
    elif line.first == "ulimit":
        notes.add(
            line.number, line.text, "limits are the container runtime's: set them in the program"
        )
    elif line.first not in NOTHING:
        notes.add(line.number, line.text, _ONCE)
