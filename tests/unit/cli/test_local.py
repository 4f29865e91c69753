"""A DIJob on this machine: real processes that open sockets to each other by what they are told,
failures by the operator's rules, volumes as folders, and no process left."""

import asyncio
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from cluster.waiting import until, until_true
from dijob.cli.errors import CliError, Exit
from dijob.cli.files import parsed
from dijob.cli.local import places, plan, waiting
from dijob.cli.local import run as local_run
from dijob.cli.local.ledger import Ledger, Outcome
from dijob.cli.local.volumes import Paths
from dijob.cli.local.waiting import Running
from dijob.core.membership import address_list
from dijob_runtime.hook import connected
from manifests import dijob
from unit.builders import container, job

ROOT = Path(__file__).parents[3]
MARKED = "TEST_OF_LOCAL"
MEET = """
import json, os, socket, time
rank, nodes = int(os.environ["DI_RANK"]), os.environ["DI_NODES"].split(",")
assert nodes[rank] == os.environ["DI_POD_IP"]
server = socket.create_server((nodes[rank], 50515))
server.settimeout(20)
end = time.monotonic() + 20
for node in nodes[:rank]:
    while True:
        try:
            socket.create_connection((node, 50515), timeout=5).sendall(b"%d" % rank)
            break
        except OSError:
            assert time.monotonic() < end
            time.sleep(0.02)
heard = sorted(int(server.accept()[0].recv(9)) for _ in nodes[rank + 1:])
print(json.dumps({"rank": rank, "heard": heard, "ids": os.environ["DI_NODE_IDS"]}))
"""


def script(name: str, text: str, **more: Any) -> str:
    """The YAML of a job that runs a Python program, which a ConfigMap holds."""
    main = {
        "image": "none",
        "command": ["python3", "main.py"],
        "workingDir": "/code",
        "volumeMounts": [{"name": "code", "mountPath": "/code"}],
    }
    pod = {"volumes": [{"name": "code", "configMap": {"name": "code"}}]}
    config = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "code"}}
    body = dijob(name, main, pod, **{"replicas": 2, **more})
    return yaml.safe_dump_all([body, {**config, "data": {"main.py": text}}])


@pytest.fixture
def run(tmp_path: Path) -> Iterator[Any]:
    """Starts `dijob local` on a file; in the end none of its processes is there."""
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    env = {**os.environ, "PATH": path, "PYTHONPATH": str(ROOT / "operator"), MARKED: str(tmp_path)}

    started: list[subprocess.Popen[str]] = []

    def start(text: str, *args: str) -> subprocess.Popen[str]:
        file = tmp_path / "job.yaml"
        file.write_text(text)
        process = subprocess.Popen(
            [sys.executable, "-m", "dijob.cli.main", "local", str(file), *args],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=env,
            cwd=tmp_path,
        )
        started.append(process)
        return process

    yield start
    for process in started:
        process.kill()
        process.wait()
        process.stdout.close()  # type: ignore[union-attr]
        process.stderr.close()  # type: ignore[union-attr]
    until("no process is left", lambda: str(alive(tmp_path) or ""), 5)


def alive(mark: Path) -> list[str]:
    """The processes of a test's runs."""
    wanted, found = f"{MARKED}={mark}".encode(), []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if wanted in (folder / "environ").read_bytes().split(b"\0"):
                found.append((folder / "cmdline").read_text().replace("\0", " "))
        except OSError:
            continue
    return found


def finished(process: subprocess.Popen[str]) -> tuple[int, str, str]:
    out, err = process.communicate(timeout=60)
    return process.returncode, out, err


def test_ranks_open_sockets_to_each_other_by_di_nodes(run: Any, tmp_path: Path) -> None:
    logs = tmp_path / "logs"
    text = script("meet", MEET, replicas=4, parallelWorkers=2)
    code, out, err = finished(run(text, "--logs", str(logs)))
    assert (code, err) == (0, "dijob: Succeeded: all ranks have exited 0\n"), out
    said = [json.loads(line.partition(" | ")[2]) for line in sorted(out.splitlines())]
    assert [one["heard"] for one in said] == [[1, 2, 3], [2, 3], [3], []]
    assert [one["ids"] for one in said] == ["0,1", "2,3", "4,5", "6,7"]
    files = {path.name: json.loads(path.read_text())["rank"] for path in logs.iterdir()}
    assert files == {f"meet-{rank}.log": rank for rank in range(4)}


FAILS_ONCE = """
import os, pathlib, sys
seen = pathlib.Path(os.environ["SEEN"])
if os.environ["DI_RANK"] == "1" and not seen.exists():
    seen.write_text("")
    sys.exit(3)
"""


def with_env(text: str, **env: str) -> str:
    """The YAML with variables in the main container."""
    bodies = list(yaml.safe_load_all(text))
    main = bodies[0]["spec"]["template"]["spec"]["containers"][0]
    main["env"] = [{"name": name, "value": value} for name, value in env.items()]
    return yaml.safe_dump_all(bodies)


def test_a_rank_that_fails_starts_again_and_is_charged(run: Any, tmp_path: Path) -> None:
    text = with_env(script("again", FAILS_ONCE), SEEN=str(tmp_path / "seen"))
    code, _, err = finished(run(text))
    assert code == 0, err
    assert err.splitlines()[0] == (
        "dijob: rank 1 (again-1) exited 3 (charged failure 1 of 3): rank 1 starts again"
    )


def test_more_failures_than_the_limit_fail_the_job(run: Any) -> None:
    code, _, err = finished(run(script("bad", "raise SystemExit(3)", replicas=1, backoffLimit=1)))
    assert code == Exit.FAILED
    last = err.splitlines()[-1]
    assert last == "Error: the job has Failed: rank 0 (bad-0) exited 3; backoffLimit is 1."


def test_ranks_that_fail_together_are_charged_as_one(run: Any) -> None:
    """As in a pass of the operator, where one of them restarts all."""
    text = script("group", "print('up', flush=True)\nraise SystemExit(3)", runtime="torch")
    bodies = list(yaml.safe_load_all(text))
    bodies[0]["spec"] |= {"replicas": 4, "backoffLimit": 1}
    code, out, err = finished(run(yaml.safe_dump_all(bodies)))
    said = err.splitlines()
    assert (code, len(said)) == (Exit.FAILED, 2), err
    assert said[0].endswith("exited 3 (charged failure 1 of 1): ranks 0-3 start again")
    assert out.count("up") > 1


def test_rank_0s_success_ends_the_others(run: Any) -> None:
    text = "import os, time\nif os.environ['DI_RANK'] != '0':\n    time.sleep(600)\n"
    code, _, err = finished(run(script("first", text, replicas=3, successPolicy="Rank0")))
    assert (code, err) == (0, "dijob: Succeeded: rank 0 has exited 0\n")


STAYS = """
import subprocess, sys, time
subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], start_new_session=True)
print("up", flush=True)
"""


@pytest.mark.parametrize("tail", ["", "time.sleep(600)"], ids=["the rank ends", "it is ended"])
def test_a_process_that_left_its_group_is_ended_too(run: Any, tail: str) -> None:
    limit = ["--timeout", "2"] if tail else []
    code, out, err = finished(run(script("stays", STAYS + tail), *limit))
    assert code == (Exit.TIMED_OUT if tail else Exit.OK), err
    assert out.count("up") == 2


def test_a_timeout_ends_it(run: Any) -> None:
    code, _, err = finished(run(script("slow", "import time; time.sleep(600)"), "--timeout", "1"))
    said = (
        r"Error: it has not ended within --timeout 1: rank 0 \(process \d+, for \d s\), rank 1"
        r" \(process \d+, for \d s\) still run\.\n"
    )
    assert (code, bool(re.fullmatch(said, err))) == (Exit.TIMED_OUT, True), err


def test_the_jobs_own_deadline_fails_it(run: Any) -> None:
    text = script("late", "import time; time.sleep(600)", activeDeadlineSeconds=1)
    code, _, err = finished(run(text))
    assert code == Exit.FAILED
    assert "within activeDeadlineSeconds, 1" in err


SAVES = """
import signal, sys, time
signal.signal(signal.SIGTERM, lambda *_: (print("saved", flush=True), sys.exit(0)))
print("up", flush=True)
time.sleep(600)
"""


def test_ctrl_c_ends_all_ranks_gently(run: Any) -> None:
    process = run(script("told", SAVES))
    for _ in range(2):
        assert process.stdout.readline().endswith("| up\n")
    process.send_signal(signal.SIGINT)
    code, out, err = finished(process)
    assert (code, err.splitlines()[-1]) == (130, "dijob: ended by SIGINT")
    assert out.count("saved") == 2


DEAF = "import signal, time\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\n" + (
    "print('up', flush=True)\ntime.sleep(600)\n"
)


def test_a_second_ctrl_c_ends_who_does_not_listen(run: Any, tmp_path: Path) -> None:
    process = run(script("deaf", DEAF, replicas=1))
    assert process.stdout.readline().endswith("| up\n")
    process.send_signal(signal.SIGINT)
    assert process.stderr.readline() == (
        "dijob: SIGINT: the ranks have 30 s to end; once more kills them\n"
    )
    assert any("main.py" in line for line in alive(tmp_path))
    process.send_signal(signal.SIGINT)
    until_true("it has ended", lambda: process.poll() is not None, 10)
    assert finished(process)[0] == 130


STILL = [
    pytest.param([], "SIGTERM", "", "", id="nobody"),
    pytest.param(
        [Running(1, 71, 65.4)],
        "rank 0 (a-0) has exited 0",
        "",
        "rank 1 (process 71, for 65 s) still runs, 30 s after rank 0 (a-0) has exited 0",
        id="one",
    ),
    pytest.param(
        [Running(0, 70, 7), Running(2, 72, 6)],
        "SIGTERM",
        "after 40 s they are killed",
        "rank 0 (process 70, for 7 s), rank 2 (process 72, for 6 s) still run, 30 s after SIGTERM;"
        " after 40 s they are killed",
        id="two that are told to end",
    ),
]


@pytest.mark.parametrize(("left", "since", "then", "said"), STILL)
def test_who_still_runs_in_words(left: list[Running], since: str, then: str, said: str) -> None:
    assert waiting.still(left, since, 30, then) == said


def started(text: str) -> list[plan.Start]:
    """Two ranks that run a Python program."""
    found = []
    for rank in range(2):
        mark = {plan.MARK: f"test-{os.getpid()}-{rank}.", "R": str(rank)}
        env = {"PATH": os.environ["PATH"], **mark}
        words = ("python3", "-c", text)
        found.append(plan.Start(rank, f"rank {rank}", f"a-{rank}", words, env, ROOT))
    return found


ONE_STAYS = "import os, time\nif os.environ['R'] == '1':\n    time.sleep(600)"


def said_until(text: str, marked: str, grace: float) -> list[str]:
    """What a run of it says; Ctrl-C comes with the second line that has the mark."""
    said: list[str] = []

    def show(_: plan.Start | None, line: str) -> None:
        said.append(line)
        if marked in line and sum(marked in one for one in said) == 2:
            os.kill(os.getpid(), signal.SIGINT)

    limits = local_run.Limits(timeout=60, grace=grace)
    run = local_run.Run(started(text), Ledger(job(replicas=2)), limits, show)
    assert asyncio.run(run.run()).how == local_run.INTERRUPTED, said
    return said


def test_who_does_not_end_is_named_while_it_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local_run, "FIRST_SECONDS", 0.2)
    said = said_until(ONE_STAYS, "still runs", 30)
    form = r"rank 1 \(process \d+, for \d+ s\) still runs, \d s after rank 0 \(a-0\) has exited 0"
    assert all(re.fullmatch(form, one) for one in said[:2]), said


def test_who_does_not_hear_sigterm_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local_run, "ENDING_SECONDS", 0.2)
    said = said_until(DEAF, "up", 1)
    form = (
        r"rank 0 \(process \d+, for \d+ s\), rank 1 \(process \d+, for \d+ s\) still run,"
        r" 0 s after SIGTERM; after 1 s they are killed"
    )
    assert any(re.fullmatch(form, one) for one in said), said


def test_a_program_that_is_not_here_is_named_before_any_rank_starts(run: Any) -> None:
    main = {"image": "none", "command": ["ditask-of-nobody"]}
    text = yaml.safe_dump(dijob("away", main, replicas=2))
    code, out, errors = finished(run(text))
    assert (code, out) == (Exit.USAGE, "")
    assert "rank 0 runs ditask-of-nobody, and this machine has no such program" in errors


def test_it_ends_when_nobody_reads_its_output_any_more(run: Any) -> None:
    process = run(script("talks", "while True:\n    print('word' * 1000, flush=True)\n"))
    assert process.stdout.readline()
    process.stdout.close()
    assert process.stderr.read() == "dijob: nobody reads the output any more\n"
    assert process.wait(20) == 130


def test_the_hook_is_in_the_path_of_each_program(run: Any) -> None:
    text = (
        "import sys, dijob_runtime\nprint(sys.meta_path[0].__module__, sys.meta_path[0].__name__)"
    )
    code, out, _ = finished(run(script("hook", text, replicas=1)))
    assert (code, out) == (0, "rank 0 | sitecustomize Finder\n")


def test_ranks_know_each_other_by_name_where_the_runtime_wants_that(run: Any) -> None:
    if os.geteuid() != 0:
        pytest.skip("an /etc/hosts of one's own needs root, or a user namespace")
    text = "import os, socket\nname = os.environ['SLURMD_NODENAME']\n" + (
        "print(socket.gethostbyname(name) == os.environ['DI_POD_IP'], os.environ['DI_NODES'])"
    )
    code, out, err = finished(run(script("named", text, runtime="slurm")))
    assert code == 0, err
    assert (
        sorted(line.partition(" | ")[2] for line in out.splitlines())
        == ["True named-0.named,named-1.named"] * 2
    )


def test_two_runs_have_other_addresses() -> None:
    with places.addresses(3) as first, places.addresses(300) as second:
        assert len({*first, *second}) == 303
        assert first[0].endswith(".0.3")
        assert second[250].endswith(".1.3")


def test_no_rank_has_the_address_of_those_who_have_succeeded() -> None:
    """The others would begin without it, and what they say first would be lost."""
    found = {places.address(run, rank) for run in range(places.RUNS) for rank in range(600)}
    assert not found & {address_list.NOBODY, connected.NOBODY}


RULES = [
    pytest.param({}, [(1, 3)], {1}, None, id="the rank that fails starts again"),
    pytest.param({"backoffLimit": 0}, [(1, 3)], set(), Outcome.FAILED, id="no failure is allowed"),
    pytest.param({"runtime": "torch"}, [(0, 0), (1, 3)], {0, 1, 2}, None, id="a group as a whole"),
    pytest.param(
        {"preemptible": True, "backoffLimit": 0}, [(1, -15)], {1}, None, id="ended on demand"
    ),
    pytest.param(
        {
            "backoffLimit": 0,
            "failurePolicy": {"rules": [{"action": "Ignore"}]},
        },
        [(1, 3), (1, 3)],
        {1},
        None,
        id="a rule forgives",
    ),
    pytest.param(
        {"failurePolicy": {"rules": [{"action": "FailJob"}]}},
        [(1, 3)],
        set(),
        Outcome.FAILED,
        id="a rule ends the job",
    ),
    pytest.param(
        {"failurePolicy": {"rules": [{"action": "RestartJob"}]}},
        [(0, 0), (1, 3)],
        {1, 2},
        None,
        id="a rule restarts all that have not succeeded",
    ),
    pytest.param({}, [(0, 0), (1, 0), (2, 0)], set(), Outcome.SUCCEEDED, id="all succeed"),
    pytest.param({"successPolicy": "Rank0"}, [(0, 0)], set(), Outcome.SUCCEEDED, id="rank 0's"),
]


@pytest.mark.parametrize(("spec", "ends", "restart", "outcome"), RULES)
def test_the_rules_are_the_operators(
    spec: dict[str, Any], ends: list[tuple[int, int]], restart: set[int], outcome: Outcome | None
) -> None:
    ledger = Ledger(job(**spec))
    decisions = [ledger.ended(*end) for end in ends]
    assert (set(decisions[-1].restart), decisions[-1].outcome) == (restart, outcome)


PATHS = [
    ("/out", "/x/out"),
    ("--dir=/out/a", "--dir=/x/out/a"),
    ("cd /out && ls", "cd /x/out && ls"),
    ("/output", "/output"),
    ("/my/out", "/my/out"),
    ("http://h/out", "http://h/out"),
]


@pytest.mark.parametrize(("words", "here"), PATHS, ids=[words for words, _ in PATHS])
def test_paths_below_a_mount_are_replaced(words: str, here: str) -> None:
    paths = Paths(Path("/x"), ("/out",), {"/out": Path("/x/out")})
    assert paths.translated(words) == here


def request_of(text: str, tmp_path: Path, **more: Any) -> plan.Request:
    from dijob.cli.jobs import job_of

    file = parsed("job.yaml", text)
    made = job_of(file)
    ips = tuple(f"127.0.0.{rank + 2}" for rank in range(made.spec.desired))
    return plan.Request(made, file, ips, tmp_path, **more)


def changed(text: str, **pod: Any) -> str:
    bodies = list(yaml.safe_load_all(text))
    bodies[0]["spec"]["template"]["spec"] |= pod
    return yaml.safe_dump_all(bodies)


WRONG = [
    pytest.param(
        [{"name": "code", "hostPath": {"path": "/d"}}], "is of type hostPath", id="a host's folder"
    ),
    pytest.param(
        [{"name": "code", "configMap": {"name": "other"}}],
        "ConfigMap other is not in job.yaml",
        id="a ConfigMap that is not there",
    ),
    pytest.param([], "names no volume", id="no volume"),
]


@pytest.mark.parametrize(("volumes", "said"), WRONG)
def test_a_volume_of_a_cluster_is_a_sentence(tmp_path: Path, volumes: list[Any], said: str) -> None:
    with pytest.raises(CliError, match=said) as error:
        plan.starts(request_of(changed(script("v", ""), volumes=volumes), tmp_path))
    assert error.value.code == Exit.USAGE


def test_a_folder_stands_for_a_volume_of_a_cluster(tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.mkdir()
    claim = {"name": "code", "persistentVolumeClaim": {"claimName": "c"}}
    text = changed(script("v", ""), volumes=[claim])
    (first, second) = plan.starts(request_of(text, tmp_path / "w", folders={"code": data}))
    assert first.folder.resolve() == second.folder.resolve() == data


def test_an_empty_dir_is_each_ranks_own(tmp_path: Path) -> None:
    text = changed(script("v", ""), volumes=[{"name": "code", "emptyDir": {}}])
    first, second = plan.starts(request_of(text, tmp_path))
    assert first.folder.resolve() != second.folder.resolve()
    assert list(first.folder.iterdir()) == []


@pytest.mark.parametrize(
    ("env", "said"),
    [
        ({"secretKeyRef": {"name": "s", "key": "k"}}, "key k of Secret s"),
        ({"resourceFieldRef": {"resource": "limits.cpu"}}, "limits.cpu"),
    ],
    ids=["a Secret", "a resource"],
)
def test_a_variable_that_only_a_cluster_knows_is_a_sentence(
    tmp_path: Path, env: dict[str, Any], said: str
) -> None:
    bodies = list(yaml.safe_load_all(script("v", "")))
    main = bodies[0]["spec"]["template"]["spec"]["containers"][0]
    main["env"] = [{"name": "TOKEN", "valueFrom": env}]
    with pytest.raises(CliError, match=f"variable TOKEN is .*{said}"):
        plan.starts(request_of(yaml.safe_dump_all(bodies), tmp_path))


def test_of_the_machines_variables_only_those_of_another_job_are_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = {"DI_RANK": "7", "SLURM_PROCID": "7", "PET_REDIRECTS": "9:1", "EDITOR": "ed"}
    for name, value in given.items():
        monkeypatch.setenv(name, value)
    env = plan.starts(request_of(script("v", ""), tmp_path))[0].env
    assert {name: env.get(name) for name in given} == {
        "DI_RANK": "0",
        "SLURM_PROCID": None,
        "PET_REDIRECTS": "9:1",
        "EDITOR": "ed",
    }


def test_the_users_python_path_is_meant_from_where_they_stand(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", "mine:/other")
    monkeypatch.chdir(tmp_path)
    start = plan.starts(request_of(script("v", ""), tmp_path / "w"))[0]
    assert start.env["PYTHONPATH"].endswith(f":{tmp_path}/mine:/other")


@pytest.mark.parametrize(
    ("main", "spec", "said"),
    [
        pytest.param({"command": None}, {}, "entry point is not here", id="no command"),
        pytest.param({}, {"suspend": True}, "such a job has no pods", id="suspended"),
        pytest.param({}, {"messageQueue": {"type": "torchrpc"}}, "dijob_runtime.ditask", id="rpc"),
    ],
)
def test_what_cannot_run_here(main: dict[str, Any], spec: dict[str, Any], said: str) -> None:
    (found,) = plan.refusals(job({"containers": [container(**main)]}, **spec))
    assert said in found


def test_what_is_not_run_is_said() -> None:
    pod = {"containers": [container(), {"name": "sidecar"}], "initContainers": [{"name": "first"}]}
    assert plan.remarks(job(pod)) == ["spec.template: of first, sidecar nothing is run"]
