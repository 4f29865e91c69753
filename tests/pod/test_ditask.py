"""The launcher's ditask passes the job's options to the image's ditask. The user's options take
precedence.
"""

from pathlib import Path

import pytest
from pod.boxes import ALONE, JOB, SEED, WITHOUT_PROC, WORLD, Box, arguments, told

SERVER = ["--redis-host", "localhost", "--redis-port", "6379"]
NASTY = ["--package", "two words", "-m", "", "'", '"', "a\nb", "$HOME", "*", "\\", "-p=x"]


@pytest.mark.parametrize(
    ("args", "env", "added"),
    [
        (SEED, {"DI_PARALLEL_WORKERS": "2"}, WORLD),
        (["-p", "a", "-m", "b.main"], {}, [*WORLD, *ALONE]),
        (["-p.", "-mhavoc.main"], {}, [*WORLD, *ALONE]),
        (["--topology", "star"], {}, ["--platform", "k8s", *ALONE]),
        (["--topology=alone"], {}, ["--platform", "k8s", *ALONE]),
        (["--platform", "k8s"], {}, ["--topology", "mesh", *ALONE]),
        (["--platform=k8s", "--topology", "star", "--parallel-workers=1"], {}, []),
        (
            ["-m", "a"],
            {"DI_TOPOLOGY": "star", "DI_PARALLEL_WORKERS": "3"},
            [*WORLD[:3], "star", *ALONE[:1], "3"],
        ),
        (["-m", "a"], {"DI_LABELS": "x,y"}, [*WORLD, *ALONE, "--labels", "x,y"]),
        (["--labels", "mine"], {"DI_LABELS": "x"}, [*WORLD, *ALONE]),
        (["--labels="], {"DI_LABELS": "x"}, [*WORLD, *ALONE]),
        (
            ["--mq-type", "redis"],
            {"DI_NODE_IDS": "4,5"},
            [*WORLD, *ALONE, "--node-ids", "4,5", *SERVER],
        ),
        (["--mq-type=redis", "--node-ids", "9"], {"DI_NODE_IDS": "4"}, [*WORLD, *ALONE, *SERVER]),
        (
            [],
            {"DI_MQ_TYPE": "redis", "DI_REDIS_HOST": "10.0.0.9", "DI_REDIS_PORT": "7000"},
            [
                *WORLD,
                *ALONE,
                "--node-ids",
                "0",
                *SERVER[:1],
                "10.0.0.9",
                *SERVER[2:3],
                "7000",
                "--mq-type",
                "redis",
            ],
        ),
        (
            ["--mq-type", "redis", "--redis-host", "a", "--redis-port=7"],
            {},
            [*WORLD, *ALONE, "--node-ids", "0"],
        ),
        (["--mq-type", "other"], {}, [*WORLD, *ALONE, "--node-ids", "0"]),
        (["--mq-type", "nng"], {"DI_MQ_TYPE": "redis"}, [*WORLD, *ALONE]),
        (["--node-ids", "7", "--ports", "6000"], {}, [*WORLD, *ALONE]),
        (NASTY, {}, [*WORLD, *ALONE]),
        (["--", "--topology", "star"], {}, [*WORLD, *ALONE]),
        (
            ["--startup-interval", "2", "--new-flag", "--topology", "star"],
            {},
            ["--platform", "k8s", *ALONE],
        ),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_adds_what_the_user_did_not_say(
    box: Box, image: Path, args: list[str], env: dict[str, str], added: list[str]
) -> None:
    unasked = {"DIJOB_REACH_SECONDS": "0"}  # there is no Redis server here
    assert told(box, args, **JOB | env | unasked) == (added + args, "")


@pytest.mark.parametrize(
    ("args", "env", "said"),
    [
        (SEED, {}, ""),
        (["--version"], JOB, ""),
        (["-v"], JOB, ""),
        (["-h"], JOB, ""),
        (["-m", "x", "--help"], JOB, ""),
        (
            ["--platform", "slurm"],
            JOB,
            "dijob: --platform slurm is given: no options are added and no addresses are checked\n",
        ),
        (
            ["--platform=x"],
            JOB,
            "dijob: --platform x is given: no options are added and no addresses are checked\n",
        ),
    ],
    ids=["outside a DIJob", "--version", "-v", "-h", "--help", "slurm", "unknown"],
)
def test_leaves_alone(
    box: Box, image: Path, args: list[str], env: dict[str, str], said: str
) -> None:
    assert told(box, args, **env) == (args, said)


@pytest.mark.parametrize(
    ("args", "says"),
    [
        (["--parallel-workers", "4"], "--parallel-workers 4, but DI_PARALLEL_WORKERS is 1"),
        (
            ["--platform", "k8s", "--address=10.0.0.1"],
            "--address 10.0.0.1 as the address",
        ),
        (["--platform=k8s", "--protocol=ipc"], "with --protocol ipc, no other pod can reach this"),
    ],
)
def test_warns_of_what_cannot_work(box: Box, image: Path, args: list[str], says: str) -> None:
    _, err = told(box, args, **JOB)
    assert err.startswith("dijob: WARNING: ")
    assert says in err


WARNS = "dijob: WARNING: with {}, ditask runs as outside a job: this rank does not connect"
IS_FINE = "dijob: {} is given: no options are added and no addresses are checked\n"
ON_LOOPBACK = ["--protocol", "tcp", "--address", "127.0.0.1", "--ports", "50515"]
# For each case: the options that determine where ditask listens, the job's variables, and the
# expected log.
OWN_WORLD: dict[str, tuple[list[str], dict[str, str], str]] = {
    "C5": ([*ON_LOOPBACK, "--node-ids", "0", "--topology", "alone"], {}, IS_FINE),
    "attached": ([*ON_LOOPBACK, "--attach-to", "tcp://127.0.0.1:50516"], {}, IS_FINE),
    "one rank": (["--address=127.0.0.1"], {"DI_NODES": "10.0.0.1"}, IS_FINE),
    "peers expected": (["--address", "127.0.0.1"], {}, WARNS),
    "its own address": (["--address", "127.0.0.2", "--topology", "mesh"], {"DI_RANK": "1"}, WARNS),
    "ipc": (["--protocol", "ipc", "--topology=alone"], {}, IS_FINE),
    "ipc, peers expected": (["--protocol=ipc"], {}, WARNS),
    "nng in a job with redis": (
        ["--mq-type", "nng", "--address", "127.0.0.1"],
        {"DI_MQ_TYPE": "redis"},
        WARNS,
    ),
}


@pytest.mark.parametrize(("args", "env", "said"), OWN_WORLD.values(), ids=OWN_WORLD)
def test_c5_a_command_that_says_where_it_listens_runs_as_outside_of_a_job(
    box: Box, image: Path, args: list[str], env: dict[str, str], said: str
) -> None:
    """C5: DI-engine's k8s parser ended with an AssertionError."""
    option = "--protocol ipc" if "ipc" in " ".join(args) else "--address " + _address(args)
    found, err = told(box, args, **JOB | env)
    assert found == args
    assert err.startswith(said.format(option))


def _address(args: list[str]) -> str:
    words = " ".join(args).replace("=", " ").split()
    return words[words.index("--address") + 1]


IN_THE_JOB: dict[str, tuple[list[str], dict[str, str], list[str]]] = {
    "alone": (["--topology", "alone"], {}, ["--platform", "k8s", *ALONE]),
    "empty": (["--address=", "--topology", "alone"], {}, ["--platform", "k8s", *ALONE]),
    "attached": (["--attach-to", "tcp://a:1"], {}, [*WORLD, *ALONE]),
    "ports and ids": (["--ports", "6000", "--node-ids", "4"], {}, [*WORLD, *ALONE]),
    "redis": (["--address", "a"], {"DI_MQ_TYPE": "redis"}, [*WORLD, *ALONE]),
    "tcp": (["--protocol", "tcp"], {}, [*WORLD, *ALONE]),
}


@pytest.mark.parametrize(("args", "env", "added"), IN_THE_JOB.values(), ids=IN_THE_JOB)
def test_c5_all_other_options_leave_ditask_in_the_job(
    box: Box, image: Path, args: list[str], env: dict[str, str], added: list[str]
) -> None:
    """C5: with Redis no process listens, so an address has no effect."""
    found, err = told(box, args, **JOB | env | {"DIJOB_REACH_SECONDS": "0"})
    assert found[: len(added)] == added
    assert found[-len(args) :] == args
    assert err == ""


@pytest.mark.parametrize("spelling", ["{own}", "{own}/", "{own}/../path", "{link}", "", "."])
def test_never_finds_itself(box: Box, image: Path, spelling: str) -> None:
    own = Path(box.ditask).parent
    (box.path / "link").symlink_to(own)
    (box.path / "ditask").write_text("not executable")
    first = spelling.format(own=own, link=box.path / "link")
    rc, out, err = box.run([box.ditask, "--version"], PATH=f"{first}:{box.env['PATH']}")
    assert (rc, out, err) == (0, "--version\0", "")


def test_nor_where_proc_cannot_be_read(box: Box, image: Path) -> None:
    assert box.run([*WITHOUT_PROC, box.ditask, "--version"]) == (0, "--version\0", "")


def test_no_ditask_in_the_image(box: Box) -> None:
    rc, _, err = box.run([box.ditask, "-m", "a"], PATH=f"{box.bin}/path:{box.env['PATH']}", **JOB)
    assert rc == 127
    assert err.startswith("dijob: this image has no ditask (PATH=")


def test_the_exit_code_and_stdin_are_the_images(box: Box, image: Path) -> None:
    image.write_text(f"#!{box.path}/python/python3\nimport sys\nsys.exit(len(sys.stdin.read()))\n")
    box.shows("1", JOB["DI_NODES"])
    assert box.run([box.launch, "ditask"], stdin="abcde", **JOB | {"DI_RANK": "2"})[0] == 5


def test_every_shell_finds_it_and_hands_its_arguments_on(
    box: Box, image: Path, shell: list[str]
) -> None:
    box.shows("1", JOB["DI_NODES"])
    command = [box.launch, *shell, "-c", 'ditask "$@"; exit 5', "sh", *NASTY]
    rc, out, err = box.run(command, **JOB)
    assert (rc, arguments(out), err) == (5, [*WORLD, *ALONE, *NASTY], "")


# --- torchrpc
# ------------------------------------------------------------------------------------------------


@pytest.fixture
def runtime(box: Box, image: Path) -> Path:
    """An image whose ditask is a Python script, with dijob_runtime. The module `ditask` prints its
    arguments.
    """
    image.write_text(f"#!{box.path}/python/python3\nraise SystemExit('not this one')\n")
    package = box.path / "site" / "dijob_runtime"
    (package / "torchrpc").mkdir(parents=True)
    for name in ("", "torchrpc/"):
        (package / f"{name}__init__.py").touch()
    for name in ("ding", "torch"):
        (package.parent / f"{name}.py").touch()
    (package / "ditask.py").write_text("import sys\nfor a in sys.argv[1:]: print(a, end='\\0')\n")
    box.env["PYTHONPATH"] = str(package.parent)
    return package


@pytest.mark.parametrize("how", ["flag", "variable"])
def test_torchrpc_goes_by_dijob_runtime_under_the_images_python(
    box: Box, runtime: Path, how: str
) -> None:
    flag = ["--mq_type", "torchrpc:cpu"]
    args, env = (flag, {}) if how == "flag" else ([], {"DI_MQ_TYPE": "torchrpc:cpu"})
    added = [*WORLD, *ALONE] if how == "flag" else [*WORLD, *ALONE, "--mq-type", "torchrpc:cpu"]
    assert told(box, args, **JOB | env | {"DI_NODE_IDS": "0", "DIJOB_REACH_SECONDS": "0"}) == (
        added + args,
        "",
    )


def test_an_env_in_the_first_line_will_do(box: Box, image: Path, runtime: Path) -> None:
    image.write_text("#!/usr/bin/env python3\nraise SystemExit('not this one')\n")
    args = ["--mq-type", "torchrpc"]
    assert told(box, args, **JOB | {"DIJOB_REACH_SECONDS": "0"}) == ([*WORLD, *ALONE, *args], "")


def test_an_image_without_di_engine_is_told(box: Box, image: Path) -> None:
    rc, out, err = box.run(
        [box.ditask, "--mq-type", "torchrpc"], **JOB | {"DIJOB_REACH_SECONDS": "0"}
    )
    assert (rc, out) == (1, "")
    assert (
        err
        == "dijob: --mq-type torchrpc needs DI-engine and torch 1.13 or newer in this image, for"
        " the Python interpreter of its ditask\n"
    )
