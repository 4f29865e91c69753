"""The launcher stands in for the command: arguments, stdin, exit code, signals; and it sees who
goes round it.
"""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from cluster.waiting import until_true
from pod.boxes import ENTER, JOB, NET_NAMESPACE, PID_NAMESPACE, WITHOUT_PROC, Box, shown
from pod.processes import LISTEN, WHERE, answer, end, first_process, line, python

ARGS = [
    "two words",
    "",
    "'",
    '"',
    "new\nline",
    "$HOME",
    "`id`",
    "*",
    "?",
    "\\",
    "--",
    "-n",
    "--platform",
    "a=b",
    "é",
]
ECHO = "import json, sys; print(json.dumps(sys.argv[1:]))"


@WHERE
def test_arguments_arrive_unchanged(box: Box, namespace: list[str]) -> None:
    rc, out, err = box.run([*namespace, box.launch, *python(ECHO, *ARGS)])
    assert (rc, json.loads(out), err) == (0, ARGS, "")


@pytest.mark.parametrize("code", [0, 1, 85, 126, 127, 255])
def test_the_exit_code_is_the_commands(box: Box, code: int) -> None:
    rc, _, err = box.run([box.launch, "sh", "-c", f"exit {code}"])
    assert (rc, err) == (code, "")


@pytest.mark.parametrize("name", ["TERM", "KILL", "INT"])
@WHERE
def test_a_command_ended_by_a_signal_is_128_and_its_number(
    box: Box, namespace: list[str], name: str
) -> None:
    suicide = (
        "import os, signal, sys; signal.signal(int(sys.argv[1]), 0) if sys.argv[1] != '9' else 0;"
    )
    number = getattr(signal, f"SIG{name}")
    rc, _, _ = box.run(
        [
            *namespace,
            box.launch,
            *python(suicide + "os.kill(os.getpid(), int(sys.argv[1]))", str(+number)),
        ]
    )
    assert rc == 128 + number


@WHERE
def test_stdin_goes_to_the_command(box: Box, namespace: list[str]) -> None:
    text = "one\ntwo \\n three\n" * 5000
    assert box.run([*namespace, box.launch, "cat"], stdin=text) == (0, text, "")


@pytest.mark.parametrize(
    ("name", "code", "why"),
    [
        ("no-such-program", 127, "no such program here (PATH={bin}:"),
        ("./no-such-file", 127, "no such program here (PATH={bin}:"),
        ("cd", 127, "no such program here (PATH={bin}:"),  # it is of the shell alone
        ("./plain", 126, "permission denied\n"),
        ("./bare", 126, "exec format error\n"),
    ],
)
def test_a_command_that_cannot_run(box: Box, name: str, code: int, why: str) -> None:
    (box.path / "plain").write_text("no program")
    box.script("bare", "echo a script without its first line\n")
    rc, _, err = box.run([box.launch, name])
    assert rc == code
    assert err.startswith(f"dijob: cannot run '{name}': {why.format(bin=box.bin)}")


def test_no_command(box: Box) -> None:
    rc, _, err = box.run([box.launch])
    assert (rc, err) == (2, f"dijob: usage: {box.launch} COMMAND [ARGUMENT...]\n")


NEW = ("3", "10.0.0.1,10.0.0.2")
TOLD = ("DI_LIST_NUMBER", "DI_NODES", "DI_NODE_IPS")


@pytest.mark.parametrize(
    ("env", "expected"),
    [
        ({"DI_LIST_NUMBER": "", "DI_NODES": "", "DI_NODE_IPS": ""}, (*NEW, NEW[1])),
        (
            {"DI_LIST_NUMBER": "2", "DI_NODES": "10.0.0.9", "DI_NODE_IPS": "10.0.0.9"},
            (*NEW, NEW[1]),
        ),
        ({"DI_LIST_NUMBER": "3", "DI_NODES": "10.0.0.1,10.0.0.2", "DI_NODE_IPS": "x"}, (*NEW, "x")),
        (
            {"DI_LIST_NUMBER": "4", "DI_NODES": "10.0.0.7", "DI_NODE_IPS": "10.0.0.7"},
            ("4", "10.0.0.7", "10.0.0.7"),
        ),
    ],
    ids=["empty", "older", "the-same", "newer"],
)
def test_an_environment_older_than_the_files_is_made_true(
    box: Box, env: dict[str, str], expected: tuple[str, ...]
) -> None:
    """The kubelet can start a container with a view of the pod that is older than the files that it
    shows.
    """
    box.shows(*NEW)
    program = (
        f"import os; print(*(os.environ[name] for name in {TOLD!r})); print(os.environ['PATH'])"
    )
    rc, out, err = box.run([box.launch, *python(program)], DI_RANK="0", **env)
    *told, path = out.split()
    assert (rc, tuple(told), path) == (0, expected, f"{box.bin}:{box.env['PATH']}"), err


def test_the_sizes_follow_from_the_files(box: Box) -> None:
    box.shows("3", "10.0.0.1,10.0.0.2,10.0.0.3")
    program = "import os; print(os.environ['DI_NUM_NODES'], os.environ['DI_WORLD_SIZE'])"
    env = {
        "DI_RANK": "0",
        "DI_NODES": "",
        "DI_NUM_NODES": "",
        "DI_WORLD_SIZE": "",
        "DI_PARALLEL_WORKERS": "2",
    }
    rc, out, err = box.run([box.launch, *python(program)], **env)
    assert (rc, out) == (0, "3 6\n"), err


@pytest.mark.parametrize(
    ("tasks", "expected"),
    [
        ("LEARNER 1 SIDE_CAR 1 COLLECTOR 1", "10.0.0.1 10.0.0.2 10.0.0.3,10.0.0.4"),
        ("LEARNER 3 SIDE_CAR 1 COLLECTOR 2", "10.0.0.1,10.0.0.2,10.0.0.3 10.0.0.4 -"),
        ("LEARNER 1", "10.0.0.1,10.0.0.2,10.0.0.3,10.0.0.4 - -"),
    ],
    ids=["the-last-has-grown", "nobody-left-for-the-last", "one-task"],
)
def test_each_task_has_its_part_of_the_list(box: Box, tasks: str, expected: str) -> None:
    box.shows("3", "10.0.0.1,10.0.0.2,10.0.0.3,10.0.0.4")
    variables = ("DI_LEARNER_NODES", "DI_SIDE_CAR_NODES", "DI_COLLECTOR_NODES")
    program = f"import os; print(*(os.environ.get(name) or '-' for name in {variables!r}))"
    rc, out, err = box.run(
        [box.launch, *python(program)], DI_RANK="0", DI_NODES="", DIJOB_TASKS=tasks
    )
    assert (rc, out) == (0, f"{expected}\n"), err


def test_a_tasks_part_of_the_list_has_the_brackets_of_the_whole(box: Box) -> None:
    box.shows("3", "fd00::1,fd00::2,fd00::3")
    program = "import os; print(os.environ['DI_NODES'], os.environ['DI_COLLECTOR_NODES'])"
    tasks = {"DIJOB_TASKS": "LEARNER 1 COLLECTOR 2"}
    rc, out, err = box.run([box.launch, *python(program)], DI_RANK="0", DI_NODES="", **tasks)
    assert (rc, out) == (0, "[fd00::1],[fd00::2],[fd00::3] [fd00::2],[fd00::3]\n"), err


def test_what_a_runtime_makes_of_the_list_is_mended_too(box: Box) -> None:
    box.shows("3", "10.0.0.1,10.0.0.2", master_addr="10.0.0.1")
    program = (
        "import os; print(os.environ['MASTER_ADDR'], os.environ['PET_MASTER_ADDR'],"
        " os.environ['ABSENT'])"
    )
    listed = {"DIJOB_LISTED": "MASTER_ADDR=master-addr PET_MASTER_ADDR=master-addr ABSENT=absent"}
    stale = {"MASTER_ADDR": "10.0.0.9", "PET_MASTER_ADDR": "", "ABSENT": "as it was"}
    rc, out, err = box.run(
        [box.launch, *python(program)], DI_RANK="0", DI_NODES="", **listed, **stale
    )
    assert (rc, out) == (0, "10.0.0.1 10.0.0.1 as it was\n"), err


def test_outside_a_dijob_the_files_are_nothing(box: Box) -> None:
    box.shows("3", "10.0.0.1")
    assert (
        box.run([box.launch, *python("import os; print('DI_NODES' in os.environ)")])[1] == "False\n"
    )


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("fd00::1,fd00::2,127.0.0.2", "[fd00::1],[fd00::2],127.0.0.2"),
        ("[fd00::1],[fd00::2]", "[fd00::1],[fd00::2]"),
        ("10.0.0.1,10.0.0.2", "10.0.0.1,10.0.0.2"),
    ],
    ids=["IPv6", "brackets-already", "IPv4"],
)
def test_ipv6_gets_the_brackets_that_a_url_needs(box: Box, given: str, expected: str) -> None:
    """DI-engine forms tcp://ADDRESS:PORT from DI_NODES; DI_NODE_IPS is bare."""
    program = "import os; print(os.environ['DI_NODES'], os.environ['DI_NODE_IPS'])"
    rc, out, err = box.run(
        [box.launch, *python(program)], DI_RANK="0", DI_NODES=given, DI_NODE_IPS=given
    )
    assert (rc, out) == (0, f"{expected} {given}\n"), err


def test_its_folder_comes_first_in_path(box: Box, shell: list[str]) -> None:
    rc, out, _ = box.run([box.launch, *shell, "-c", 'echo "$PATH"; command -v ditask'])
    assert (rc, out) == (0, f"{box.bin}:{box.env['PATH']}\n{box.ditask}\n")


@WHERE
def test_term_reaches_the_program_which_may_save_its_state(box: Box, namespace: list[str]) -> None:
    process = box.start([*namespace, box.launch, *python(LISTEN)])
    assert line(process) == "ready"
    os.kill(first_process(process, namespace), signal.SIGTERM)
    assert end(process) == (7, ["SIGTERM", "saved"])


@WHERE
def test_also_below_a_shell_which_dies_of_it_at_once(
    box: Box, namespace: list[str], shell: list[str]
) -> None:
    wrapper = [*shell, "-c", '"$0" "$@"; true']
    process = box.start([*namespace, box.launch, *wrapper, *python(LISTEN)])
    assert line(process) == "ready"
    os.kill(first_process(process, namespace), signal.SIGTERM)
    assert end(process) == (128 + signal.SIGTERM, ["SIGTERM", "saved"])


@WHERE
def test_signals_that_tell_go_to_the_command_alone_and_end_nothing(
    box: Box, namespace: list[str]
) -> None:
    # `sleep` has no handler: a broadcast USR1 would kill it, and the shell would say so.
    both = f"sleep 3600 & exec python3 -c '{LISTEN}'"
    process = box.start([*namespace, box.launch, "sh", "-c", both])
    assert line(process) == "ready"
    launch = first_process(process, namespace)
    for name in ("USR1", "USR2", "USR1"):
        os.kill(launch, getattr(signal, f"SIG{name}"))
        assert line(process) == f"SIG{name}"
    until_true(
        "sleep is there",
        lambda: any(command.startswith("sleep 3600") for command in box.alive().values()),
    )
    for name in ("HUP", "TERM"):
        os.kill(launch, getattr(signal, f"SIG{name}"))
        assert line(process) == f"SIG{name}"
    assert end(process) == (7, ["saved"])


@WHERE
def test_int_and_quit_are_not_ignored(box: Box, namespace: list[str]) -> None:
    show = (
        "import signal; print([signal.getsignal(s) is signal.SIG_IGN for s in (signal.SIGINT,"
        " signal.SIGQUIT)])"
    )
    _, out, _ = box.run([*namespace, box.launch, *python(show)])
    assert out == "[False, False]\n"


@WHERE
@pytest.mark.parametrize("code", [0, 127, 143])
def test_the_code_stays_exact_when_signals_interrupt_the_wait(
    box: Box, namespace: list[str], code: int
) -> None:
    stubborn = f"""
import os, signal, sys
signals = {{signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM}}
signal.pthread_sigmask(signal.SIG_BLOCK, signals)
os.write(1, b"ready\\n")
for count in range(1, 5):
    signal.sigwait(signals)
    os.write(1, b"%d\\n" % count)
os.read(0, 1)
sys.exit({code})
"""
    process = box.start([*namespace, box.launch, *python(stubborn)])
    assert line(process) == "ready"
    launch = first_process(process, namespace)
    for count, name in enumerate(("HUP", "INT", "QUIT", "TERM"), 1):
        os.kill(launch, getattr(signal, f"SIG{name}"))
        assert line(process) == str(count)
    assert end(process) == (code, [])


def test_others_in_a_shared_namespace_are_left_alone(box: Box) -> None:
    neighbour = box.start(["sleep", "60"])
    process = box.start([box.launch, *python(LISTEN)])
    assert line(process) == "ready"
    process.terminate()
    assert end(process) == (7, ["SIGTERM", "saved"])
    assert neighbour.poll() is None
    neighbour.kill()


def test_the_whole_container_hears_term(box: Box) -> None:
    process = box.start([*PID_NAMESPACE, box.launch, *python(LISTEN)])
    assert line(process) == "ready"
    launch = first_process(process, PID_NAMESPACE)
    # As `kubectl exec` does it: in the container, but no descendant of launch.
    enter = [*ENTER, f"--target={launch}", "--pid", "--mount", "--wdns=/"]
    visitor = box.start([*enter, *python(LISTEN)])
    assert line(visitor) == "ready"
    os.kill(launch, signal.SIGTERM)
    assert end(process) == (7, ["SIGTERM", "saved"])
    assert line(visitor) == "SIGTERM"
    end(visitor)


def test_works_where_proc_cannot_be_read(box: Box) -> None:
    process = box.start([*WITHOUT_PROC, box.launch, *python(LISTEN)], DI_NODES="a")
    assert line(process) == "ready"
    process.terminate()
    assert end(process) == (7, ["SIGTERM", "saved"])
    assert box.err() == ""


def test_the_dead_do_not_pile_up_below_pid_1(box: Box) -> None:
    orphans = """
import os, sys, time
for _ in range(20):
    if (child := os.fork()) == 0:
        if os.fork(): os._exit(0)
        os._exit(0)
    os.waitpid(child, 0)
end = time.monotonic() + 5
def dead():
    found = 0
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try: found += ") Z " in open(f"/proc/{pid}/stat").read()
        except OSError: pass
    return found
while (found := dead()) and time.monotonic() < end: time.sleep(0.01)
print("dead", found)
"""
    assert box.run([*PID_NAMESPACE, box.launch, *python(orphans)]) == (0, "dead 0\n", "")


# An interpreter that is called like Python, so that the command line is what it is in an image; it
# ends with stdin.
FAKE = "#!{python}\nimport os, sys\nos.write(1, b'ready\\n')\nsys.stdin.read()\n"


def looked(box: Box, command: list[str], programs: int = 1, namespace: tuple[str, ...] = ()) -> str:
    """stderr of launch when its watcher has looked twice at what runs: at its fifth and thirtieth
    look for a new list. The programs run all the while.
    """
    pipe = box.pipe()
    env = {"DI_NODES": "127.0.0.1", "DI_LIST_NUMBER": "1", "DI_RANK": "0", "DIJOB_NAP": "0.02"}
    process = box.start([*namespace, box.launch, *command], **env)
    answer(pipe, [shown("1", "127.0.0.1")])
    for _ in range(programs):
        assert line(process) == "ready"
    answer(box.pipe(), [shown("1", "127.0.0.1")] * 32)
    assert end(process)[0] == 0
    return box.err()


IS_BLIND = {
    "isolated": "python3 -I {image}/ditask --package a",
    "no environment, among flags": "python3 -uE -X dev -W ignore {image}/ditask --labels platform",
    "no site": "python3 -S -m ding.entry.cli_ditask --package a",
    "another folder": "PYTHONPATH=/mine exec {image}/ditask --package a",
    "no folder": "unset PYTHONPATH; {image}/ditask",
}
IS_RIGHT = [
    "{image}/ditask --package a",
    "export PATH={image}:$PATH; ditask --package a; true",
    "python3 -u -X dev -W ignore {image}/ditask --labels platform",
    "python3 -m ding.entry.cli_ditask --package a",
    "PYTHONPATH=/mine:$PYTHONPATH {image}/ditask",
    "ditask --package a",
    "export PATH={image}:$PATH; {bin}/ditask --package a; true",
    "{image}/ditask --package a --platform k8s",
    "{image}/ditask --platform=slurm",
    "python3 {image}/train --package {image}/ditask",
    "python3 {image}/train 'runs ditask'; : ditask",
]


@pytest.fixture
def image(box: Box) -> Path:
    """A folder with a ditask and another program, in PATH."""
    fake = FAKE.format(python=box.path / "python" / "python3")
    box.script("image/train", fake)
    box.script("ding/entry/cli_ditask.py", fake)
    image = box.script("image/ditask", fake).parent
    box.env["PATH"] += f":{image}"
    return image


@pytest.mark.parametrize("name", IS_BLIND)
def test_who_cannot_be_told_of_its_peers_is_named_once_and_at_the_end(
    box: Box, image: Path, name: str
) -> None:
    err = looked(box, ["sh", "-c", IS_BLIND[name].format(image=image)])
    assert err.count("dijob: WARNING: this rank works alone: ") == 1, err
    assert f"Write {box.ditask} there, or add --platform k8s --topology mesh" in err
    assert box.said_last().startswith("dijob: this rank works alone: process ")


def test_who_can_is_not(box: Box, image: Path) -> None:
    commands = [command.format(image=image, bin=box.bin) for command in IS_RIGHT]
    together = "exec 3<&0; " + "".join(f"( {command} ) <&3 & " for command in commands) + "wait"
    assert looked(box, ["sh", "-c", together], len(commands)).count("dijob: WARNING") == 0
    assert box.said_last() == ""


def test_who_listens_where_no_other_pod_can_reach_works_alone(box: Box) -> None:
    program = """
import os, socket, sys
where = socket.socket(socket.AF_UNIX)
where.bind(os.environ["HOME"] + "/ditask_a1b2_0.ipc")
where.listen()
print("ready", flush=True)
sys.stdin.read()
"""
    box.env["HOME"] = str(box.path)
    # The sockets of a network namespace are those of one pod.
    err = looked(box, ["python3", "-c", program], namespace=tuple(NET_NAMESPACE))
    assert "listens on an ipc:// address" in err
    assert box.said_last().startswith("dijob: this rank works alone: DI-engine's Parallel listens")


@pytest.mark.parametrize(("code", "said"), [(0, "dijob: this program says otherwise: x"), (1, "")])
def test_a_program_that_contradicts_its_job_is_named_where_it_succeeds(
    box: Box, code: int, said: str
) -> None:
    """dijob_runtime.parallel writes it beside topology.json."""
    box.shows("1", "10.0.0.1")
    program = f"echo x > {box.path}/says-otherwise; exit {code}"
    box.run([box.launch, "sh", "-c", program], DI_RANK="0")
    assert box.said_last().strip() == said


def test_costs_next_to_nothing(box: Box) -> None:
    def cost(command: list[str]) -> float:
        start = time.perf_counter()
        subprocess.run(command, env=box.env | {"DI_NODES": "a"}, check=True)
        return time.perf_counter() - start

    alone = [cost(["true"]) for _ in range(9)]
    launched = [cost([box.launch, "true"]) for _ in range(9)]
    more = min(launched) - min(alone)  # what it takes when nobody else wants the CPU
    print(f"launch adds {more * 1000:.1f} ms to a program's start and end ({sys.platform})")
    assert more < 0.5


def test_python_finds_what_di_engine_is_told_before_the_users_own(box: Box) -> None:
    said = ["sh", "-c", "echo $PYTHONPATH"]
    own = str(box.bin / "python")
    assert box.run([box.launch, *said], **JOB)[1] == f"{own}\n"
    assert box.run([box.launch, *said], **JOB, PYTHONPATH="/mine")[1] == f"{own}:/mine\n"
    assert box.run([box.launch, *said], PYTHONPATH="/mine")[1] == "/mine\n"
