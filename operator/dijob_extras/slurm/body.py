"""Reads the commands in a batch script that are not job steps.

If a command sets variables or the working directory, the DIJob sets them too. Other commands have
no counterpart in a DIJob. If they affect the program, they get a note with advice.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from dijob_extras.slurm.kinds import (
    NOTHING,
    assignment_words,
    calls_srun,
    is_assignment,
    is_software,
)
from dijob_extras.slurm.script import Notes, Script, ScriptLine, unquote_word, words_of
from dijob_extras.slurm.step import SlurmStep

# A shell array, which cannot be an environment variable.
_ARRAY: Final = re.compile(r"(\w+)=\(")
_MENTION: Final = re.compile(r"\$\{?(\w+)")
REFERENCE: Final = re.compile(r"\$(?:\{(\w+)\}|(\w+))")
_SOFTWARE_ADVICE: Final = (
    "the image must contain the software: name such an image with --image, or build one"
    " (FROM dijob/ditask:0.5.3, images/README.md)"
)
_ONCE: Final = (
    "Slurm runs this once, on the first node: do it when you build the image, in an init container"
    " of the template, or in the program"
)
# The usual ways in which scripts determine the first node.
_FIRST_NODE: Final = re.compile(
    r"scontrol\s+show\s+hostname|SLURM_(JOB_)?NODELIST|SLURM_LAUNCH_NODE"
)


@dataclass
class Body:
    """The variables and the working directory that the script sets."""

    # `env`: exported variables with a known value. `shell`: variables that are not exported.
    env: dict[str, str] = field(default_factory=dict)
    shell: dict[str, str] = field(default_factory=dict)
    folder: str = ""
    # Variables whose value the script computes: the first node's address, or a port.
    masters: dict[str, ScriptLine] = field(default_factory=dict)
    ports: dict[str, ScriptLine] = field(default_factory=dict)
    # Variables whose values refer to variables that exist only in a pod. A shell in the pod sets
    # these values.
    late: dict[str, str] = field(default_factory=dict)
    exported: set[str] = field(default_factory=set)

    def replaced(self, text: str) -> str:
        """Return the text with the known variables expanded."""
        known: Mapping[str, str] = {**self.shell, **self.env}

        def one(match: re.Match[str]) -> str:
            return known.get(match[1] or match[2], match[0])

        return REFERENCE.sub(one, text)


def read_script_body(
    script: Script, step: SlurmStep, known: Mapping[str, str], notes: Notes
) -> Body:
    """Read the lines of the script except its step. `known` are variables that Slurm would set."""
    body = Body(shell=dict(known))
    for line in script.lines:
        # If the pod runs the complete script, only the lines that load software are left out. So
        # only these lines get a note.
        if line == step.line or (step.script and not is_software(line)):
            continue
        if calls_srun(line):
            notes.add(line.number, line.text, "another step: convert it separately with --step")
        elif array := _ARRAY.match(line.text):
            _handle_computed(array[1], line.text, line, body, notes)
        elif is_assignment(line):
            _handle_assignment(line, body, notes)
        elif line.first == "export":
            _handle_export(line, body, notes)
        elif line.first == "cd":
            _handle_cd(line, body, notes)
        else:
            _handle_other_line(line, notes)
    return body


def _handle_export(line: ScriptLine, body: Body, notes: Notes) -> None:
    """Handle `export A B` for variables that the script has already set."""
    for name in line.text.split()[1:]:
        body.exported.add(name)
        if name in body.shell:
            body.env[name] = body.shell[name]
        elif name not in {*body.masters, *body.ports, *body.late}:
            advice = "a pod has only the variables of its template: set the value in env"
            notes.add(line.number, line.text, advice)


def _handle_assignment(line: ScriptLine, body: Body, notes: Notes) -> None:
    """Handle `export A=1 B=2`, or `A=1`, which sets a variable only in the script's shell."""
    exported = line.first == "export"
    for word in assignment_words(line):
        name, is_one, written = word.partition("=")
        # Skip options of `declare`, and names that are exported without a value.
        if not is_one:
            continue
        body.exported |= {name} if exported else set()
        if "$(" in written or "`" in written or _mentioned_variables(written) & body.masters.keys():
            _handle_computed(name, written, line, body, notes)
            continue
        # A shell expands nothing between single quotes.
        value = (
            unquote_word(written)
            if written.startswith("'")
            else body.replaced(unquote_word(written))
        )
        if written.startswith("'") or "$" not in value:
            (body.env if exported else body.shell)[name] = value
        else:
            body.late[name] = value


def _mentioned_variables(text: str) -> set[str]:
    """Return the variables that a text refers to."""
    return set(_MENTION.findall(text))


def _handle_computed(name: str, written: str, line: ScriptLine, body: Body, notes: Notes) -> None:
    """Handle an array, or a variable whose value comes from a command or from the first node."""
    # Almost every distributed script computes two values that are known in a DIJob: the first
    # node's address and a port.
    if _FIRST_NODE.search(written) or _mentioned_variables(written) & body.masters.keys():
        body.masters[name] = line
    elif "PORT" in name.upper():
        body.ports[name] = line
    else:
        advice = "a command computes the value: set the variable in env if the program reads it"
        notes.add(line.number, line.text, advice)


def _handle_cd(line: ScriptLine, body: Body, notes: Notes) -> None:
    words = words_of(line.text)
    folder = body.replaced(unquote_word(words[1])) if len(words) == 2 else ""
    if folder.startswith("/") and not REFERENCE.search(folder):
        body.folder = folder
    # Many scripts begin with `cd $SLURM_SUBMIT_DIR`. The advice for this folder differs from the
    # advice for a path.
    elif REFERENCE.fullmatch(folder) is None or "SUBMIT_DIR" not in folder:
        notes.add(line.number, line.text, "set workingDir in the template to a folder in the image")
    else:
        advice = (
            "a pod does not have the folder from which you submit the script: put the code into the"
            " image or on a volume, and set workingDir to the code's path"
        )
        notes.add(line.number, line.text, advice)


def _handle_other_line(line: ScriptLine, notes: Notes) -> None:
    if is_software(line):
        notes.add(line.number, line.text, _SOFTWARE_ADVICE)
    elif line.first == "ulimit":
        notes.add(
            line.number,
            line.text,
            "the container runtime sets the limits: change them in the program if necessary",
        )
    elif line.first not in NOTHING:
        notes.add(line.number, line.text, _ONCE)
