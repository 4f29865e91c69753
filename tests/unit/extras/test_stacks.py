"""`doctor --stacks`: from the output of the image dijob/stacks to groups and a summary.

The files of the folder stacks were recorded from examples/events.yaml with 3 ranks of 2 processes,
before all had started (one of rank 0 starts later). All threads except the main one and the
listener were removed.
"""

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from dijob.cli.doctor import checks
from dijob.cli.doctor.extension import ExtensionFindings
from dijob.cli.doctor.verdict import CheckStatus
from dijob.client import AsyncClient
from dijob.client.errors import ApiError, api_error
from dijob_extras.stacks import container, places, report, take
from dijob_extras.stacks.container import StackContainer
from dijob_extras.stacks.read import Frame, Look, PythonProcess, Thread, parse_dump
from unit.cli.evidence import evidence, pod
from unit.client.kubelets import kubelets

RECORDED = {
    rank: (Path(__file__).parent / f"stacks/rank{rank}.jsonl").read_text() for rank in range(3)
}
WANTED = StackContainer("r/stacks:1", "dijob-stacks-1a2b3c")
RECV = Frame("Socket.recv", "/x/site-packages/pynng/nng.py", "pynng/nng.py", 470)
POLL = Frame("Poller.wait", "/usr/lib/python3.11/selectors.py", "selectors.py", 415)
STEP = Frame("Env.step", "/code/envs.py", "envs.py", 7)
MAIN = Frame("main", "/code/main.py", "main.py", 30)


def process(*frames: Frame, pid: int = 9, parent: int = 1, **more: Any) -> PythonProcess:
    thread = Thread("MainThread", frames, more.pop("active", False), more.pop("waits", ""))
    return PythonProcess(pid, parent, ("python3",), (thread,), **more)


def look(*processes: PythonProcess) -> Look:
    return Look(processes)


def told(*looks: Look) -> list[str]:
    found = places.group_processes(dict(enumerate(looks)))
    return [places.summarize_groups(found), *(f"{one.who}: {one.where}" for one in found)]


def test_a_recorded_job_is_grouped_by_position() -> None:
    """Pools that wait for these processes, and multiprocessing's own processes, are not named."""
    assert told(*(parse_dump(RECORDED[rank]) for rank in range(3))) == [
        "most processes are at the same position, and may be waiting for rank 0 (process 60)",
        "ranks 1-2, rank 0 (process 59): sleep in together (events.py:70)",
        "rank 0 (process 60): sleeps in Parallel._subprocess_runner"
        " (ding/framework/parallel.py:204)",
    ]


ROWS = [
    pytest.param(
        [process(RECV, MAIN, waits="futex_do_wait")] * 2,
        [
            "ranks 0-1: all processes are at the same position",
            "ranks 0-1: wait for another thread in Socket.recv (pynng/nng.py:470), called by main"
            " (main.py:30)",
        ],
        id="all at one position",
    ),
    pytest.param(
        [process(RECV, MAIN), process(STEP, MAIN, active=True), process(RECV, MAIN)],
        [
            "most processes are at the same position, and may be waiting for rank 1",
            "ranks 0,2: wait in Socket.recv (pynng/nng.py:470), called by main (main.py:30)",
            "rank 1: runs in Env.step (envs.py:7)",
        ],
        id="one at another position",
    ),
    pytest.param(
        [process(MAIN, waits="sk_wait_data"), process(STEP, waits="hrtimer_nanosleep")],
        [
            "the processes are at 2 different positions, and no position is shared by more than"
            " half of the processes",
            "rank 0: waits for a socket in main (main.py:30)",
            "rank 1: sleeps in Env.step (envs.py:7)",
        ],
        id="one each",
    ),
    pytest.param(
        [process(POLL, MAIN, waits="do_epoll_wait"), process(replace(POLL, line=9), MAIN)],
        [
            "ranks 0-1: all processes are at the same position",
            "ranks 0-1: wait for input in Poller.wait (selectors.py:415), called by main"
            " (main.py:30)",
        ],
        id="a library's loop is at another line each time",
    ),
    pytest.param(
        [process(), process(MAIN)],
        [
            "the processes are at 2 different positions, and no position is shared by more than"
            " half of the processes",
            "rank 0: starting or exiting: no Python code is running",
            "rank 1: waits in main (main.py:30)",
        ],
        id="one that exits",
    ),
]


@pytest.mark.parametrize(("processes", "lines"), ROWS)
def test_the_description_of_groups(processes: list[PythonProcess], lines: list[str]) -> None:
    assert told(*map(look, processes)) == lines


def test_a_pool_is_named_only_if_it_works_itself() -> None:
    pool, worker = process(POLL, pid=5), process(STEP, pid=6, parent=5)
    assert told(look(pool, worker))[1:] == ["rank 0: waits in Env.step (envs.py:7)"]
    busy = process(POLL, MAIN, pid=5)
    assert len(told(look(busy, worker))) == 3


def test_the_position_is_in_the_thread_with_the_programs_own_code() -> None:
    """Otherwise the position is in the main thread."""
    threads = (Thread("MainThread", (POLL,), False), Thread("Thread-1", (RECV, STEP), False))
    assert PythonProcess(1, 0, (), threads).thread == threads[1]
    assert PythonProcess(1, 0, (), (Thread("a", (RECV,), False), threads[0])).thread == threads[0]
    assert PythonProcess(1, 0).thread is None


@pytest.mark.parametrize(
    ("path", "own"),
    [
        ("/code/main.py", True),
        ("/home/me/lib/main.py", True),
        ("/usr/lib/python3.11/threading.py", False),
        ("/opt/conda/lib/python3.9/site-packages/torch/x.py", False),
        ("/usr/local/lib/python3.11/dist-packages/ding/x.py", False),
        ("/run/dijob/bin/python/dijob_runtime/hook/connected.py", False),
        ("/usr/local/bin/ditask", False),
        ("/code/bin/main.py", True),
        ("<frozen importlib._bootstrap>", False),
        ("<string>", False),
    ],
)
def test_which_files_are_the_programs_own_code(path: str, own: bool) -> None:
    assert Frame("f", path, path, 1).own is own


@pytest.mark.parametrize(
    ("text", "said"),
    [
        pytest.param("", "is incomplete", id="nothing"),
        pytest.param(RECORDED[0].splitlines()[0], "is incomplete", id="no end"),
        pytest.param("exec /stacks: no such file", "no such file", id="no JSON"),
        pytest.param('{"processes":0}\n', "no Python process was found", id="no Python"),
    ],
)
def test_invalid_output_of_the_stacks_image_is_reported(text: str, said: str) -> None:
    assert said in parse_dump(text).problem


def test_an_unreadable_process_is_named_with_its_rank() -> None:
    line = {"pid": 7, "parent": 1, "command": ["python3"], "waits": {}, "problem": "too new"}
    looks = {
        0: parse_dump(f'{json.dumps(line)}\n{{"processes":1}}'),
        2: Look(problem="it does not run"),
    }
    assert list(places.find_dump_problems(looks)) == [
        ("process 7: too new", [0]),
        ("it does not run", [2]),
    ]
    assert places.group_processes(looks) == []


def dumped(*rows: Any) -> Look:
    """Return the processes of a container that printed these rows."""
    rows = tuple({"parent": 1, "command": ["python3"], "waits": {}, **row} for row in rows)
    end = json.dumps({"processes": len(rows)})
    return parse_dump("\n".join([*map(json.dumps, rows), end]))


AT_MAIN = [
    {
        "thread_name": "MainThread",
        "active": False,
        "os_thread_id": 1,
        "frames": [{"name": "main", "filename": "/a.py", "short_filename": "a.py", "line": 3}],
    }
]
CONTINUE = (
    "find out what sent SIGSTOP, then send SIGCONT: kubectl -n default exec test-1 -c di-container"
    " -- sh -c 'kill -CONT 26 27'"
)


@pytest.mark.parametrize(
    ("rows", "status", "text", "remedy"),
    [
        pytest.param(
            [{"pid": 26, "state": "T", "threads": AT_MAIN}, {"pid": 27, "state": "T"}],
            CheckStatus.PROBLEM,
            "rank 1: processes 26 and 27 are stopped (state T) in main (a.py:3)",
            CONTINUE,
            id="stopped",
        ),
        pytest.param(
            [{"pid": 26, "state": "T", "problem": "py-spy"}, {"pid": 27, "state": "T"}],
            CheckStatus.PROBLEM,
            "rank 1: processes 26 and 27 are stopped (state T)",
            CONTINUE,
            id="stopped, and not readable",
        ),
        pytest.param(
            [{"pid": 26, "state": "t"}, {"pid": 27, "state": "S", "threads": AT_MAIN}],
            CheckStatus.PROBLEM,
            "rank 1: process 26 is held by a debugger (state t)",
            "detach or stop the debugger",
            id="a debugger",
        ),
        pytest.param(
            [{"pid": 26, "state": "S", "waits": {"26": "do_freezer_trap"}, "threads": AT_MAIN}],
            CheckStatus.PROBLEM,
            "rank 1: process 26 is frozen by the cgroup freezer in main (a.py:3)",
            "find out what froze the container on its node (`ctr task pause`, `docker pause`, a"
            " checkpoint), and resume it",
            id="frozen",
        ),
        pytest.param(
            [{"pid": 26, "state": "Z"}, {"pid": 27, "state": "S", "threads": AT_MAIN}],
            CheckStatus.OK,
            "rank 1: process 26 is in state Z (zombie): exited, but not yet reaped by the parent"
            " process",
            "",
            id="a zombie",
        ),
        pytest.param(
            [{"pid": 26, "state": "D", "threads": AT_MAIN}],
            CheckStatus.OK,
            "rank 1: process 26 is in state D (uninterruptible sleep), usually because a disk or a"
            " network file system does not respond",
            "",
            id="uninterruptible",
        ),
    ],
)
def test_the_state_of_a_process_comes_first(
    rows: list[Any], status: CheckStatus, text: str, remedy: str
) -> None:
    """P8: a stopped process was unknown, and the rank that waited for it was suspected."""
    others = look(process(RECV, MAIN, pid=26), process(STEP, MAIN, pid=27))
    given = evidence()
    looks = {0: others, 1: dumped(*rows)}
    found = list(report.report_stacks(looks, given.job, given.pods))
    assert (found[0].status, found[0].text, found[0].remedy) == (status, text, remedy)
    assert not any(one.status is CheckStatus.UNKNOWN for one in found)
    suspects = [one.text for one in found if "may wait" in one.text or "positions" in one.text]
    assert bool(suspects) == (status is CheckStatus.OK)


def test_the_stacks_container_shares_the_main_containers_processes() -> None:
    (made,) = container.build_patch(pod(1), WANTED, "u")["spec"]["ephemeralContainers"]
    assert (made["targetContainerName"], made["image"]) == ("di-container", "r/stacks:1")
    assert made["securityContext"]["capabilities"]["add"] == ["SYS_PTRACE", "DAC_READ_SEARCH"]
    assert "args" not in made


@pytest.mark.parametrize("field", ["hostPID", "shareProcessNamespace"])
def test_in_a_shared_process_namespace_only_the_rank_is_inspected(field: str) -> None:
    body = container.build_patch(pod(1, spec={field: True}), WANTED, "u")
    assert body["spec"]["ephemeralContainers"][0]["args"] == ["DI_JOB_ID=u", "DI_RANK=1"]


@pytest.mark.parametrize(
    ("reason", "said"),
    [
        ("ImagePullBackOff", "node n1 cannot pull the image r/stacks:1 (ImagePullBackOff): push"),
        ("RunContainerError", "the container cannot be started (RunContainerError): why not"),
        ("ContainerCreating", ""),
    ],
)
def test_why_the_stacks_container_does_not_run(reason: str, said: str) -> None:
    waiting = {"waiting": {"reason": reason, "message": "why\nnot"}}
    row = {"name": WANTED.name, "state": waiting}
    found = container.explain_stuck(pod(1, status={"ephemeralContainerStatuses": [row]}), WANTED)
    assert found.startswith(said)
    assert bool(found) == bool(said)


# Messages of an apiserver 1.37.
REFUSED = [
    pytest.param(
        'pods "test-0" is forbidden: User "eve" cannot patch resource "pods/ephemeralcontainers"'
        ' in API group "" in the namespace "ns"',
        "ask for permission to patch pods/ephemeralcontainers",
        id="no permission",
    ),
    pytest.param(
        'pods "test-0" is forbidden: violates PodSecurity "baseline:latest": non-default'
        ' capabilities (container "dijob-stacks-1a2b3c" must not include "SYS_PTRACE" in'
        " securityContext.capabilities.add)",
        "namespace ns forbids containers with SYS_PTRACE",
        id="Pod Security",
    ),
    pytest.param("the request is odd", "the request is odd", id="anything else"),
]


@pytest.mark.parametrize(("message", "said"), REFUSED)
def test_rejections_of_the_stacks_container_say_what_to_do(message: str, said: str) -> None:
    error = api_error(403, {"reason": "Forbidden", "message": message}, "PATCH")
    assert isinstance(error, ApiError)
    assert said in container.explain_rejection(error, "ns")


async def looks(client: AsyncClient) -> Mapping[int, Look]:
    return await take.take_dumps(
        client, await client.get("test"), await client.pods("test"), WANTED
    )


async def test_each_pod_gets_its_own_stacks_container(tmp_path: Path) -> None:
    async with kubelets(tmp_path) as (made, kubeconfig), AsyncClient(kubeconfig) as client:
        await made.start(0)
        await made.start(1)
        await made.stop(1)
        made.looked = RECORDED[0]
        found = await looks(client)
    assert [process.pid for process in found[0].processes] == [15, 57, 59, 60]
    assert found[1].problem == "not running (Ended (0))"


async def test_a_stacks_container_that_does_not_finish_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(take, "_SECONDS", 2.0)  # long enough to see its state
    async with kubelets(tmp_path) as (made, kubeconfig), AsyncClient(kubeconfig) as client:
        await made.start(0)
        found = await looks(client)
    assert found[0].problem == f"the container {WANTED.name} did not finish within 2 s (waiting)"


def test_doctor_reports_stacks_last_and_as_data() -> None:
    looks = {0: look(process(MAIN)), 1: Look(problem="not running (Gate)")}
    given = evidence()
    found = tuple(report.report_stacks(looks, given.job, given.pods))
    given = replace(given, added=[ExtensionFindings("stacks", found)])
    rows = [found for name, found in checks.run_checks(given) if name == "stacks"]
    assert [(row.status, row.text) for row in rows] == [
        (CheckStatus.OK, "rank 0: all processes are at the same position"),
        (CheckStatus.OK, "rank 0: waits in main (main.py:30)"),
        (CheckStatus.UNKNOWN, "rank 1: not running (Gate)"),
    ]
    data = report.stacks_data(looks)["stacks"]
    assert data["groups"][0]["processes"] == [{"rank": 0, "pid": 9}]
    assert [row.get("problem") for row in data["ranks"]] == [None, "not running (Gate)"]
