"""What the parser reads from a container's command, and what it must not guess."""

from typing import Any

import pytest
from dijob.api.command import Command, listen_port
from hypothesis import given, settings
from hypothesis import strategies as st
from samples.commands import SEED, argv, bash

RUNS = {
    "the seed's own": bash(SEED),
    "exec form": argv("ditask", "--parallel-workers", "2"),
    "command and args": {"command": ["ditask"], "args": ["--parallel-workers", "2"]},
    "equals sign": argv("ditask", "--parallel-workers=2"),
    "one word": {"command": ["bash", "-c", "ditask --parallel-workers 2"]},
    "sh": {"command": ["sh", "-c"], "args": ["ditask --parallel-workers 2"]},
    "options of the shell": bash("ditask --parallel-workers 2", "-euo", "pipefail", "-c"),
    "option joined with -c": bash("ditask --parallel-workers 2", "-xec"),
    "cd first": bash("cd /code && ditask --parallel-workers 2"),
    "exec": bash("exec ditask --parallel-workers 2"),
    "assignment": bash("FOO=1 BAR='x y' ditask --parallel-workers 2"),
    "env": argv("env", "FOO=1", "ditask", "--parallel-workers", "2"),
    "wrapper with options": bash(
        "xvfb-run -a -s '-screen 0 640x480x24' ditask --parallel-workers 2"
    ),
    "timeout": argv("timeout", "3600", "ditask", "--parallel-workers", "2"),
    "tini and a shell": argv("/usr/bin/tini", "--", "sh", "-c", "exec ditask --parallel-workers 2"),
    "continuation": bash("ditask \\\n  --main a.main \\\n  --parallel-workers 2\n"),
    "comments with quotes": bash("# don't\nditask --parallel-workers 2 # can't\n"),
    "hash inside a word": bash("ditask --labels a#b --parallel-workers 2"),
    "here-document": bash(
        "cat > m.py <<'EOF'\nprint(\"it's\")\nditask --parallel-workers 9\nEOF\n" + SEED
    ),
    "redirected": bash("ditask --parallel-workers 2 > /tmp/log 2>&1"),
    "piped": bash("ditask --parallel-workers 2 2>&1 | tee log"),
    "background": bash("ditask --parallel-workers 2 &\nwait $!"),
    "in an if": bash('if [ "$A" = b ]; then ditask --parallel-workers 2; fi'),
    "in a loop": bash("for i in 1 2; do ditask --parallel-workers 2; done"),
    "last one wins": argv("ditask", "--parallel-workers", "1", "--parallel-workers", "2"),
    "shell in shell": bash("bash -c 'ditask --parallel-workers 2'"),
    "value of an option looks like one": argv(
        "ditask", "--labels", "--x", "--parallel-workers", "2"
    ),
    "quoted main": bash("ditask --main 'a b.main' --parallel-workers '2'"),
    "quoted operators": bash("ditask --labels '>' \">\" \\> --parallel-workers 2"),
    "a comment after a parenthesis": bash("(cd /code)# can't\nditask --parallel-workers 2"),
    "two here-documents": bash(
        "cat <<A; cat <<-'B'\nditask\nA\ncat <<B\nditask --mq-type redis\n\tB\n" + SEED
    ),
    "a here-document that does not end": bash("cat <<A\nditask --parallel-workers 2"),
    "substitutions in substitutions": bash(
        "export A=$(b $((1 + 2)) $(c `d`) (e)); ditask --parallel-workers 2"
    ),
    "equal calls": bash("ditask --parallel-workers 2 || ditask --parallel-workers 2"),
}


@pytest.mark.parametrize("container", RUNS.values(), ids=RUNS.keys())
def test_a_ditask_call_with_two_workers_is_recognized(container: dict[str, Any]) -> None:
    command = Command.of(container)
    assert (command.runs_ditask, command.parallel_workers, command.hides("parallel-workers")) == (
        True,
        2,
        False,
    )
    assert command.bypass is None
    assert listen_port(Command.of(container)) == 50515


OTHERS = {
    "no command: the image decides": {"args": ["ditask"]},
    "nothing": {},
    "another program": argv("python", "train.py"),
    "asks where it is": bash("command -v ditask"),
    "names it only": bash("echo ditask; ls /opt/ditask-data"),
    "in a comment": bash("# ditask --parallel-workers 2\nsleep 1"),
    "a script": argv("/app/run.sh"),
    "open quote": bash("ditask --labels 'x"),
    "a shell that reads stdin": argv("bash"),
}


@pytest.mark.parametrize("container", OTHERS.values(), ids=OTHERS.keys())
def test_other_commands_are_not_ditask_and_have_no_port(container: dict[str, Any]) -> None:
    assert Command.of(container).runs_ditask is False
    assert listen_port(Command.of(container)) is None


@pytest.mark.parametrize(
    ("container", "dynamic"),
    [
        pytest.param(argv("/app/run.sh"), True, id="script"),
        pytest.param(bash("./run.sh"), True, id="script in a shell"),
        pytest.param(bash('exec "$@"'), True, id="whatever is given"),
        pytest.param({"args": ["x"]}, True, id="entry point"),
        pytest.param(bash("ditask --labels 'x"), True, id="open quote"),
        pytest.param(argv("sleep", "1"), False, id="plain program"),
        pytest.param(bash(SEED), False, id="seed"),
        pytest.param(bash("ditask --parallel-workers $N"), True, id="variable"),
    ],
)
def test_dynamic_is_true_if_a_part_of_the_command_is_hidden(
    container: dict[str, Any], dynamic: bool
) -> None:
    assert Command.of(container).dynamic is dynamic


@pytest.mark.parametrize(
    "script",
    [
        pytest.param("ditask --topology $T --parallel-workers 2", id="variable"),
        pytest.param(
            'ditask --topology "${T:-star}" --parallel-workers 2', id="default of a variable"
        ),
        pytest.param("ditask --topology $(cat /t) --parallel-workers 2", id="substitution"),
        pytest.param("ditask --topology `cat /t` --parallel-workers 2", id="backticks"),
        pytest.param("ditask --topology=$T --parallel-workers 2", id="equals"),
        pytest.param(
            "if [ $DI_RANK = 0 ]; then ditask --topology star --parallel-workers 2; "
            "else ditask --topology mesh --parallel-workers 2; fi",
            id="calls that differ",
        ),
        pytest.param(
            "ditask --parallel-workers 2 && ditask --topology star --parallel-workers 2",
            id="given once",
        ),
    ],
)
def test_a_hidden_option_is_none_and_other_options_are_parsed(script: str) -> None:
    command = Command.of(bash(script))
    assert command.topology is None
    assert command.hides("topology")
    assert command.parallel_workers == 2
    assert listen_port(Command.of(bash(script))) == 50515


def test_arguments_from_a_variable_hide_every_option() -> None:
    container = bash('ditask --parallel-workers 2 "$@"')
    assert Command.of(container).hides("topology")
    assert listen_port(Command.of(container)) is None


@pytest.mark.parametrize(
    ("words", "port"),
    [
        pytest.param([], 50515, id="default"),
        pytest.param(["--ports", "6000"], 6000, id="ports"),
        pytest.param(["--ports=6000,6001"], 6000, id="list"),
        pytest.param(["--platform", "k8s"], 50515, id="k8s"),
        pytest.param(["--mq-type", "nng"], 50515, id="nng"),
        pytest.param(["--mq-type", "redis"], None, id="redis listens nowhere"),
        pytest.param(["--protocol", "ipc"], None, id="ipc"),
        pytest.param(["--platform", "slurm"], None, id="slurm has its own rule"),
        pytest.param(["--platform-spec", "{}"], None, id="platform-spec may set ports"),
        pytest.param(["--address", "127.0.0.1"], None, id="not on the pod's address"),
        pytest.param(["--ports", "x"], None, id="no number"),
        pytest.param(["--ports", "$P"], None, id="variable"),
        pytest.param(["--ports", "99999"], None, id="no port"),
        pytest.param(["--ports"], None, id="value missing"),
    ],
)
def test_listen_port(words: list[str], port: int | None) -> None:
    assert listen_port(Command.of(argv("ditask", "-m", "a.main", *words))) == port


BYPASSES = {
    "conda activate": (bash("conda activate x && ditask --parallel-workers 2"), "conda activate"),
    "venv": (bash("source /venv/bin/activate\nditask"), "/venv/bin/activate"),
    "dot": (bash(". ./venv/bin/activate; ditask"), "activate"),
    "source activate": (bash("source activate x; ditask"), "activate"),
    "login shell": (bash("ditask", "-lc"), "login shell"),
    "long login": (bash("ditask", "--login", "-c"), "login shell"),
    "absolute path": (argv("/opt/conda/bin/ditask", "-m", "a.main"), "/opt/conda/bin/ditask"),
    "module": (
        argv("python3", "-u", "-m", "ding.entry.cli_ditask", "--package", "."),
        "ding.entry.cli_ditask",
    ),
    "file": (argv("python", "/opt/conda/bin/ditask", "-m", "a.main"), "/opt/conda/bin/ditask"),
    "torch launch": (
        argv(
            "python", "-m", "torch.distributed.launch", "--use_env", "-m", "ding.entry.cli_ditask"
        ),
        "ding.entry",
    ),
    "conda run": (argv("conda", "run", "-n", "x", "ditask", "-m", "a.main"), "conda run"),
    "login around": (bash("bash -lc 'ditask -m a.main'"), "login shell"),
}


@pytest.mark.parametrize(("container", "words"), BYPASSES.values(), ids=BYPASSES.keys())
def test_bypass_names_what_hides_the_launchers_ditask(
    container: dict[str, Any], words: str
) -> None:
    command = Command.of(container)
    assert command.runs_ditask
    assert command.bypass is not None
    assert words in command.bypass


def test_an_activation_after_the_call_is_no_bypass() -> None:
    assert Command.of(bash("ditask -m a.main; conda activate x")).bypass is None


def test_the_options_of_another_program_are_ignored() -> None:
    assert Command.of(bash("prepare --parallel-workers 7; ditask")).parallel_workers is None


SHELL_TEXT = st.text(
    alphabet=st.sampled_from(list("ditask -$`'\"\\\n#;&|()<>{}=abEOF ")), max_size=60
)


@settings(max_examples=400, deadline=None)
@given(st.one_of(SHELL_TEXT, SHELL_TEXT.map(lambda text: "ditask " + text), st.text(max_size=40)))
def test_no_command_raises_an_exception(script: str) -> None:
    for container in (
        bash(script),
        argv("ditask", script),
        argv(script),
        {"command": script, "args": None},
    ):
        listen_port(Command.of(container))


@pytest.mark.parametrize("depth", [1, 7, 40])
def test_a_ditask_behind_many_wrappers_is_recognized(depth: int) -> None:
    words = ["bash", "-c"] * 1 + ["ditask"]
    for _ in range(depth):
        words = ["env", *words]
    assert Command.of(argv(*words)).runs_ditask
