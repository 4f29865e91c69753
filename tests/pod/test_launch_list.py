"""The launcher sets the variables of the peer list, of the job's tasks and of its runtime."""

import pytest
from pod.boxes import Box
from pod.processes import python

NEW = ("3", "10.0.0.1,10.0.0.2")
TOLD = ("DI_LIST_NUMBER", "DI_NODES", "DI_NODE_IPS", "DI_NUM_NODES", "DI_WORLD_SIZE")


@pytest.mark.parametrize(
    "env",
    [
        dict.fromkeys(TOLD, ""),
        {"DI_LIST_NUMBER": "2", "DI_NODES": "10.0.0.9", "DI_NODE_IPS": "10.0.0.9"},
        {"DI_LIST_NUMBER": "3", "DI_NODES": "10.0.0.1,10.0.0.2", "DI_NODE_IPS": "x"},
        {"DI_LIST_NUMBER": "99", "DI_NODES": "6.6.6.6,7.7.7.7", "DI_WORLD_SIZE": "1"},
        {"DI_NODES": "6.6.6.6", "DIJOB_ADDRESSING": "Hostname", "DIJOB_POD_DIR": "/nowhere"},
    ],
    ids=["empty", "older", "the-same", "newer", "another-folder"],
)
def test_h39_the_annotations_win_over_the_environment(box: Box, env: dict[str, str]) -> None:
    """H39: envFrom, the image, or a kubelet with an older version of the pod can set the variables
    that the launcher takes from the pod's annotations.
    """
    box.shows(*NEW)
    program = (
        f"import os; print(*(os.environ[name] for name in {TOLD!r})); print(os.environ['PATH'])"
    )
    rc, out, err = box.run([box.launch, *python(program)], DI_RANK="0", **env)
    *told, path = out.split()
    expected = [*NEW, NEW[1], "2", "2"]
    assert (rc, told, path) == (0, expected, f"{box.bin}/path:{box.env['PATH']}"), err


def test_h39_a_list_of_names_leaves_no_forged_addresses(box: Box) -> None:
    """H39: with `addressing: Hostname`, the operator does not set DI_NODE_IPS."""
    box.shows("3", "world-0.world,127.0.0.2")
    program = "import os; print(os.environ['DI_NODES'], os.environ.get('DI_NODE_IPS'))"
    rc, out, err = box.run([box.launch, *python(program)], DI_RANK="0", DI_NODE_IPS="6.6.6.6")
    assert (rc, out) == (0, "world-0.world,127.0.0.2 None\n"), err


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
        ("10.0.0.1,10.0.0.2", "10.0.0.1,10.0.0.2"),
    ],
    ids=["IPv6", "IPv4"],
)
def test_ipv6_gets_the_brackets_that_a_url_needs(box: Box, given: str, expected: str) -> None:
    """DI-engine makes tcp://ADDRESS:PORT of each entry of DI_NODES. DI_NODE_IPS has no brackets."""
    box.shows("1", given)
    program = "import os; print(os.environ['DI_NODES'], os.environ['DI_NODE_IPS'])"
    rc, out, err = box.run([box.launch, *python(program)], DI_RANK="0")
    assert (rc, out) == (0, f"{expected} {given}\n"), err
