"""Any command is parsed within a time limit, up to a maximum length."""

import time
from typing import Any

import pytest
from dijob.api.command import READ_LENGTH, Command
from dijob.api.warnings import job_warnings
from samples import builders
from samples.commands import SEED, argv, bash
from speed import allowed

NASTY = {
    "substitutions that do not end": "$(",
    "quoted": '"$("',
    "here-documents that do not end": "<<a\n",
    "a word for a here-document": "a",
    "wrappers": "env ",
    "wrappers and assignments": "env A=1 ",
    "modules": "ding.entry ",
    "commands": "a;",
    "calls": "ditask;",
    "options": "--a 1 ",
    "quotes": "'a' ",
    "backslashes": "\\",
    "backticks": "`",
    "open parentheses": "(",
    "shells": "sh -c 'a;sh -c b;';",
    "activations": "conda run ",
}
BEFORE = {"a word for a here-document": "<<", "options": "ditask ", "modules": "python -m "}


def seconds(script: str) -> float:
    """Return the least CPU time of several attempts to parse a script."""

    def once() -> float:
        begin = time.process_time()
        Command.of(bash(script))
        return time.process_time() - begin

    return min(once() for _ in range(3))


@pytest.mark.timed
@pytest.mark.parametrize("name", NASTY)
def test_any_command_is_parsed_quickly(name: str) -> None:
    unit, before = NASTY[name], BEFORE.get(name, "")
    sizes = (READ_LENGTH - 100, 128 * 1024)
    took = [seconds(before + unit * (size // len(unit))) for size in sizes]
    assert max(took) < allowed(0.05)


@pytest.mark.timed
def test_nested_substitutions_are_parsed_in_one_pass() -> None:
    half = READ_LENGTH // 3 - 10
    assert seconds("$(" * half + ")" * half) < allowed(0.05)


@pytest.mark.timed
def test_many_options_and_calls_are_parsed_quickly() -> None:
    options = " ".join(f"--a{number} 1" for number in range(800))
    assert seconds(f"ditask {options};" + "ditask;" * 1000) < allowed(0.05)


@pytest.mark.parametrize(
    ("container", "read"),
    [
        pytest.param(bash(SEED + "#" * (READ_LENGTH - 200)), True, id="almost"),
        pytest.param(bash(SEED + "#" * READ_LENGTH), False, id="script"),
        pytest.param(
            argv("ditask", "-m", "a.main", "--labels", "x" * READ_LENGTH), False, id="words"
        ),
        pytest.param(
            bash("bash -c 'bash -c \"ditask #" + "#" * (READ_LENGTH // 2) + "\"'"),
            False,
            id="in each other",
        ),
    ],
)
def test_a_command_is_parsed_up_to_16_kib(container: dict[str, Any], read: bool) -> None:
    command = Command.of(container)
    assert (command.runs_ditask, command.dynamic, command.hides("topology")) == (
        read,
        not read,
        not read,
    )


def test_a_command_that_is_too_long_causes_a_warning() -> None:
    long = builders.job(
        {"containers": [builders.container(command=["sh", "-c", SEED + "#" * READ_LENGTH])]}
    )
    assert [(warning.field, "16 KiB" in warning.message) for warning in job_warnings(long)] == [
        ("spec.parallelWorkers", True),
        ("spec.topology", True),
    ]
