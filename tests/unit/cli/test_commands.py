"""What all commands share: help, errors, exit codes, tables and completion."""

import asyncio
import os
import resource
import subprocess
import sys
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner, Result
from dijob.cli import printing
from dijob.cli.errors import Exit
from dijob.cli.loading import command_names, describe_commands
from dijob.cli.main import group
from dijob.cli.options import DURATION
from dijob.client import Job
from manifests import dijob
from speed import allowed
from unit.client.kubelets import kubelets

NOW = datetime(2026, 11, 25, 12, tzinfo=UTC)


def run(*words: str, stdin: str = "", env: Mapping[str, str] | None = None) -> Result:
    return CliRunner().invoke(group, words, input=stdin, env=env, prog_name="dijob")


@pytest.mark.parametrize(("name", "line"), list(describe_commands()))
def test_each_help_begins_with_the_tables_line_and_has_an_example(name: str, line: str) -> None:
    result = run(name, "--help")
    assert result.exit_code == 0
    said = [" ".join(part.split()) for part in result.output.split("\n\n")]
    assert said[1] == line
    (example,) = [part for part in said if part.startswith("Example: ")]
    assert f"dijob {name}" in example


def test_the_table_is_in_the_programs_help() -> None:
    text = " ".join(run("--help").output.split())
    for name, said in describe_commands():
        assert f" {name} {said}" in text


# The modules of these commands import most.
@pytest.mark.timed
@pytest.mark.parametrize("name", ["run", "logs", "explain"])
def test_help_is_there_at_once(name: str) -> None:
    """CPU time is measured, because other programs use the machine as well."""
    took = sorted(cpu_seconds("-m", "dijob.cli.main", name, "--help") for _ in range(5))
    assert took[2] < allowed(0.4), took


def cpu_seconds(*argv: str) -> float:
    """Return the CPU time of a Python process."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run([sys.executable, *argv], capture_output=True, env=environment({}))
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert done.returncode == 0, done.stderr
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def test_help_imports_nothing_heavy() -> None:
    script = (
        "import sys; from click.testing import CliRunner; from dijob.cli.main import group;"
        f"[CliRunner().invoke(group, [name, '-h']) for name in {command_names()!r}];"
        "print({'kubernetes', 'aiohttp', 'pydantic', 'rich', 'yaml'} & set(sys.modules))"
    )
    argv = [sys.executable, "-c", script]
    assert subprocess.run(argv, capture_output=True, text=True).stdout.strip() == "set()"


def test_reading_a_file_imports_no_client_of_a_cluster() -> None:
    script = (
        "import sys; from dijob.cli.files import read_file; read_file(sys.argv[1]);"
        "print({'kubernetes', 'aiohttp'} & set(sys.modules))"
    )
    argv = [sys.executable, "-c", script, "examples/dijob.yaml"]
    assert subprocess.run(argv, capture_output=True, text=True).stdout.strip() == "set()"


def written(replicas: int = 2) -> str:
    return yaml.safe_dump(dijob("test", {"image": "x", "command": ["a"]}, replicas=replicas))


@pytest.mark.parametrize(
    ("words", "stdin", "code", "said"),
    [
        pytest.param(
            ("apply", "-f", "-"),
            written(0),
            2,
            "Error: standard input: DIJob test: spec.replicas: is 0; it must be at least 1",
            id="a wrong field",
        ),
        pytest.param(
            ("apply", "-f", "/no/such"), "", 2, "no such file or directory", id="no such file"
        ),
        pytest.param(
            ("apply", "-f", "-", "--kubeconfig", "/no/such"),
            written(),
            5,
            "Error: there is no kubeconfig at /no/such: name one with --kubeconfig",
            id="no kubeconfig",
        ),
        pytest.param(
            ("run", "a", "--image", "x", "--timeout", "1m", "--", "a"),
            "",
            2,
            "--timeout has no effect without --wait or --watch",
            id="R11: a timeout without a wait",
        ),
        pytest.param(
            ("logs", "a", "--since", "9" * 400), "", 2, "is longer than 100000d", id="too long"
        ),
        pytest.param(("wait", "a", "--timeout", "soon"), "", 2, "90s or 1h30m", id="duration"),
        pytest.param(
            ("rnu",), "", 2, "unknown command rnu: did you mean dijob run?", id="a typing error"
        ),
        pytest.param(("Logs",), "", 2, "did you mean dijob logs?", id="a capital letter"),
        pytest.param(("ls",), "", 2, "did you mean `dijob list`?", id="ls"),
        pytest.param(("status",), "", 2, "`dijob get NAME` prints the job", id="status"),
        pytest.param(("describe",), "", 2, "`doctor NAME` checks it", id="describe"),
        pytest.param(("top",), "", 2, "`kubectl top pod -l diengine.opendilab", id="top"),
        pytest.param(("exec",), "", 2, "`kubectl exec -it NAME-0", id="exec"),
        pytest.param(("rm",), "", 2, "`dijob delete NAME` deletes a job", id="rm"),
        pytest.param(("stop",), "", 2, "`dijob suspend NAME` stops the pods", id="stop"),
        pytest.param(("delte",), "", 2, "did you mean dijob delete?", id="almost delete"),
        pytest.param(("statrt",), "", 2, "see dijob --help", id="no suggestion deletes"),
        pytest.param(
            ("get", "a", "-A"), "", 2, "cannot be combined with names", id="a name everywhere"
        ),
        pytest.param(("xyz",), "", 2, "unknown command xyz: see dijob --help", id="no command"),
        pytest.param(("--xyz", "run"), "", 2, "No such option", id="no option"),
        pytest.param(("scale", "a", "--replicas", "0"), "", 2, "1<=x<=1500", id="no replicas"),
    ],
)
def test_errors_are_a_sentence_and_a_code(
    words: tuple[str, ...], stdin: str, code: int, said: str
) -> None:
    result = run(*words, stdin=stdin)
    assert (result.exit_code, said in result.output) == (code, True), result.output
    assert "Traceback" not in result.output


def test_a_cluster_that_is_not_there_is_named(tmp_path: Path) -> None:
    file = tmp_path / "config"
    cluster = {"name": "c", "cluster": {"server": "http://127.0.0.1:9"}}
    context = {"name": "x", "context": {"cluster": "c", "user": "u"}}
    user = {"name": "u", "user": {"token": "t"}}
    config = {"clusters": [cluster], "contexts": [context], "users": [user], "current-context": "x"}
    file.write_text(yaml.safe_dump(config))
    result = run("list", env={"KUBECONFIG": str(file)})
    assert result.exit_code == 5
    assert "cannot reach the cluster at http://127.0.0.1:9: " in result.output
    assert str(file) in result.output
    assert run("list", "--context", "y", env={"KUBECONFIG": str(file)}).exit_code == 5


@pytest.mark.parametrize("text", ["", "[1]", "contexts: 1", "a: ["])
def test_a_file_that_is_no_kubeconfig_is_named(tmp_path: Path, text: str) -> None:
    file = tmp_path / "config"
    file.write_text(text)
    result = run("list", "--kubeconfig", str(file))
    assert (result.exit_code, str(file) in result.output) == (5, True), result.output


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("90", 90.0), ("1.5s", 1.5), ("10m", 600.0), ("1h30m", 5400.0), ("1d", 86400.0)],
)
def test_durations(text: str, seconds: float) -> None:
    assert DURATION.convert(text, None, None) == seconds


@pytest.mark.parametrize(
    ("seconds", "said"),
    [
        (0, "0s"),
        (119, "119s"),
        (120, "2m"),
        (125, "2m5s"),
        (700, "11m"),
        (3 * 3600, "3h"),
        (3 * 3600 + 60, "3h1m"),
        (9 * 3600, "9h"),
        (3 * 86400, "3d"),
    ],
)
def test_ages(seconds: int, said: str) -> None:
    assert printing.format_duration(seconds) == said


def test_a_table_is_cut_at_the_terminals_width() -> None:
    body = dijob("test", {"image": "x"})
    body["metadata"]["creationTimestamp"] = "2026-11-25T11:59:00Z"
    body["status"] = {"phase": "Running", "desired": 3, "message": "all\n3 ranks are running"}
    row = printing.job_cells(Job(body), NOW)
    assert row == ("test", "Running", "3", "0", "0", "60s", "", "all 3 ranks are running")
    lines = printing.format_table([printing.HEAD, row], 30).splitlines()
    assert [len(line) for line in lines] == [30, 30]
    assert lines[1].endswith("…")


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish", "kubectl"])
def test_completion_is_for_both_names(shell: str) -> None:
    result = run("completion", shell)
    assert result.exit_code == 0
    assert "_DIJOB_COMPLETE" in result.output
    assert "kubectl-dijob" in result.output


def test_words_are_completed() -> None:
    env = {"_DIJOB_COMPLETE": "bash_complete", "COMP_WORDS": "dijob sus", "COMP_CWORD": "1"}
    argv = [sys.executable, "-m", "dijob.cli.main"]
    found = subprocess.run(argv, capture_output=True, text=True, env=environment(env))
    assert found.stdout == "plain,suspend\n"


def environment(more: Mapping[str, str]) -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": "operator", **more}


@pytest.mark.parametrize(
    ("to", "code", "words"),
    [
        (">/dev/full", Exit.FAILED, "Error: cannot write the output: No space left on device"),
        (">&-", Exit.OK, ""),
        (">&- 2>&-", Exit.OK, ""),
        ("| true", Exit.OK, ""),
    ],
)
def test_an_output_that_cannot_be_written(to: str, code: int, words: str) -> None:
    """Such errors were once reported as internal errors."""
    line = f"{sys.executable} -m dijob.cli.main list --help {to}"
    done = subprocess.run(["bash", "-c", line], capture_output=True, text=True, timeout=60)
    assert done.returncode == code
    assert done.stderr.strip() == words


@pytest.mark.parametrize("rank", ["1500", "9" * 5000])
def test_a_rank_that_no_job_has_is_refused(rank: str) -> None:
    """H3: `cp` with 5,000 digits was reported as an internal error."""
    done = CliRunner().invoke(group, ["cp", f"a:{rank}:/x", "."])
    assert done.exit_code == Exit.USAGE
    assert "is not a rank: the highest rank is 1499" in done.output


@pytest.mark.parametrize("command", ["watch", "wait"])
async def test_commands_that_watch_reject_invalid_names_too(tmp_path: Path, command: str) -> None:
    async with kubelets(tmp_path) as (_, kubeconfig):
        args = [command, "a/b", "--kubeconfig", kubeconfig]
        done = await asyncio.to_thread(CliRunner().invoke, group, args)
    assert done.exit_code == Exit.USAGE, done.output
    assert "is not a valid object name" in done.output
