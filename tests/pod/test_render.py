"""The gate's command is what the kubelet hands on unchanged, and every script is sound as text."""

import ast
import shlex
import subprocess
from importlib.resources import files
from pathlib import Path

import pytest
from dijob import pod
from hypothesis import given
from hypothesis import strategies as st
from pod.boxes import SHELLS, program

SCRIPTS = {"gate": pod.GATE, "launch": pod.LAUNCHER, "ditask": pod.DITASK}


def expand(text: str, env: dict[str, str]) -> str:
    """The kubelet's expansion of command and args (Kubernetes'
    third_party/forked/golang/expansion), written anew.
    """
    out, at = "", 0
    while at < len(text):
        rest = text[at:]
        end = rest.find(")")
        if rest.startswith("$$"):
            out, at = out + "$", at + 2
        elif rest.startswith("$(") and end > 0:
            name = rest[2:end]
            out, at = out + env.get(name, f"$({name})"), at + end + 1
        else:
            out, at = out + rest[0], at + 1
    return out


@pytest.mark.parametrize(
    ("text", "seen"),
    [
        ("$(A)", "1"),
        ("$$(A)", "$(A)"),
        ("$(B)", "$(B)"),
        ("$A", "$A"),
        ("$$$(A)", "$1"),
        ("$(A", "$(A"),
        ("a$", "a$"),
    ],
)
def test_the_expansion_is_the_kubelets(text: str, seen: str) -> None:
    # Rows of the documentation of `command` in the Pod API.
    assert expand(text, {"A": "1"}) == seen


@given(st.text(alphabet="$(){}AB \n'\"\\"))
def test_any_escaped_text_comes_back(text: str) -> None:
    assert expand(pod.escape(text), {"A": "1", "B": "", "AB": "2"}) == text


def test_the_gates_command_comes_back_byte_for_byte() -> None:
    # The worst case: a variable for every $( ) in the scripts.
    env = {
        part.partition(")")[0]: "EXPANDED"
        for text in SCRIPTS.values()
        for part in text.split("$(")[1:]
    }
    assert env, "the scripts use no $( ) any more: this test needs another worst case"
    assert expand(pod.GATE, env) != pod.GATE, (
        "an unescaped script must be damaged, or the test sees nothing"
    )
    want = ["/bin/sh", "-c", pod.GATE, "dijob-gate", pod.LAUNCHER, pod.DITASK, pod.REACH]
    assert [expand(part, env) for part in pod.GATE_COMMAND] == want


def test_the_pod_object_stays_small() -> None:
    """Each of up to 1,500 pods carries it, in etcd and in the operator's watch."""
    assert sum(map(len, pod.GATE_COMMAND)) < 15_500


@pytest.mark.parametrize("shell", SHELLS.values(), ids=list(SHELLS))
@pytest.mark.parametrize("name", SCRIPTS)
def test_every_shell_can_read_it(name: str, shell: str) -> None:
    name_of_program, *options = shlex.split(shell)
    command = [program(name_of_program), *options, "-n"]
    read = subprocess.run(command, input=SCRIPTS[name], text=True, capture_output=True, timeout=9)
    assert (read.returncode, read.stderr) == (0, "")


@pytest.mark.parametrize("name", SCRIPTS)
def test_shellcheck(name: str) -> None:
    source = str(files(pod) / f"{name}.sh")
    check = subprocess.run(
        [program("shellcheck"), "-s", "sh", source], text=True, capture_output=True, timeout=60
    )
    assert check.returncode == 0, check.stdout


def test_the_check_runs_on_the_oldest_python_of_di_engine() -> None:
    # DI-engine 0.5.3 says python_requires >= 3.7.
    ast.parse(pod.REACH, feature_version=(3, 7))


def test_stripping_drops_comments_only() -> None:
    text = "#!/bin/sh\n# why\n\n  echo '# kept' # kept\n"
    assert pod.strip_sh(text) == "#!/bin/sh\necho '# kept' # kept"
    assert pod.strip_python('"""Doc."""\n# why\nif x:\n    y = 1\n') == "if x:\n y = 1"


def test_a_missing_program_skips_its_tests_but_fails_them_in_ci(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("PATH", "")
    monkeypatch.delenv("DIJOB_SKIP_NOTHING", raising=False)
    with pytest.raises(pytest.skip.Exception, match="missing: dash"):
        program("dash")
    ci = Path(__file__).parents[2] / ".ci/run"
    assert "DIJOB_SKIP_NOTHING=1" in ci.read_text()
    monkeypatch.setenv("DIJOB_SKIP_NOTHING", "1")
    with pytest.raises(pytest.fail.Exception, match="missing: dash"):
        program("dash")


def test_the_shell_of_the_command_is_the_one_that_launch_names() -> None:
    assert pod.GATE_COMMAND[0] == pod.LAUNCHER.partition("\n")[0].removeprefix("#!")
    assert subprocess.run([pod.GATE_COMMAND[0], "-c", "exit 7"], check=False).returncode == 7
