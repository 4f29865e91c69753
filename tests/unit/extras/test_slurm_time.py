"""H2, R6: the time of from-slurm is proportional to the length of any script."""

import time
from contextlib import suppress

import pytest
from dijob.cli.errors import CliError
from dijob_extras.slurm.convert import Wishes, convert_script
from dijob_extras.slurm.script import parse_script
from dijob_extras.slurm.tail import split_tail

MANY = 10_000
SECONDS = 30.0


@pytest.mark.parametrize(
    ("line", "command", "tail"),
    [
        ("srun a &> log", "srun a", "&> log"),
        ("srun a > log 2>&1 &", "srun a", "> log 2>&1 &"),
        ("srun a 2>err >>out", "srun a", "2>err >>out"),
        ("srun a | tee -a log", "srun a", "| tee -a log"),
        ("srun a | tee log > /dev/null && wait", "srun a", "| tee log > /dev/null && wait"),
        ("srun a | grep b | tee log", "srun a | grep b", "| tee log"),
        ("srun a | grep b", "srun a | grep b", ""),
        ("srun a 'b > c'", "srun a 'b > c'", ""),
        ("srun a < in", "srun a < in", ""),
        ("srun a && wait", "srun a", "&& wait"),
        ("srun a && b", "srun a && b", ""),
        ('srun a > "my log"', "srun a", '> "my log"'),
        ("srun a > $(date +%s).log", "srun a", "> $(date +%s).log"),
        ("&", "", "&"),
    ],
)
def test_cutting_the_tail_of_a_line(line: str, command: str, tail: str) -> None:
    text, found = split_tail(line)
    assert (text.strip(), found) == (command, tail)


@pytest.mark.parametrize(
    "line",
    [
        pytest.param("srun a " + "&> f " * MANY + "x", id="redirections of both"),
        pytest.param("srun a " + ">12" * MANY + "x y", id="descriptors"),
        pytest.param("srun a " + "| tee a > b > c " * MANY + "| x", id="tee"),
        pytest.param("srun a " + "| tee a > b > c " * MANY, id="tee to the end"),
        pytest.param("srun a " + "2>&1 " * MANY + "x", id="2>&1"),
        pytest.param("srun a " + "& " * MANY + "x", id="&"),
        pytest.param("srun a " + "&& wait " * MANY + "x", id="wait"),
        pytest.param("srun a " + "$(" * MANY, id="calls that do not end"),
        pytest.param("srun a " + "`" * (MANY + 1), id="backquotes"),
        pytest.param("srun a " + "b " * MANY, id="words"),
        pytest.param("A=(" * MANY, id="arrays"),
        pytest.param("srun a '" + "\nb" * MANY + "'", id="lines in quotes"),
        pytest.param("srun a \\" + "\nb \\" * MANY + "\nc", id="lines that go on"),
        pytest.param("a=1; " * MANY + "srun a", id="commands of a line"),
    ],
)
def test_a_long_line_is_converted_in_linear_time(line: str) -> None:
    begin = time.monotonic()
    # Some of the scripts cannot be converted.
    with suppress(CliError):
        convert_script(parse_script(f"#!/bin/sh\n{line}\n"), Wishes(image="img", name="job"))
    assert time.monotonic() - begin < SECONDS


@pytest.mark.parametrize("quoted", ["'it\\'", '"say \\"so\\""', "a#'b", "x # don't", "it\\'s"])
def test_a_closed_quote_ends_with_its_line(quoted: str) -> None:
    text = f"#!/bin/sh\necho {quoted}" + ("'" if "#'" in quoted else "") + "\nsrun a\n"
    assert [line.text.split()[0] for line in parse_script(text).lines] == ["echo", "srun"]


@pytest.mark.parametrize(
    "option", ["-n {}", "--mem={}", "-t {}", "-t {}-1", "--gres=gpu:{}", "-c {}"]
)
@pytest.mark.parametrize(
    "digits", ["9" * 5000, "\u00b2", "\u0663"], ids=["long", "power", "arabic"]
)
def test_numbers_that_int_rejects(option: str, digits: str) -> None:
    """H3: more than 4,300 digits, and characters that only look like digits, raised exceptions."""
    with suppress(CliError):
        convert_script(
            parse_script(f"#!/bin/sh\n#SBATCH {option.format(digits)}\nsrun a\n"),
            Wishes(image="img", name="job"),
        )
