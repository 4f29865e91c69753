"""C27, C16: the message for an invalid name has the nearest allowed name, or the length that
fits."""

import pytest
from dijob.api.job_names import NAME_LENGTH, is_allowed, nearest_allowed, room_for_task
from dijob.api.parse import parse_job
from samples.builders import Body, container, job_body
from samples.specs import named, rejection


@pytest.mark.parametrize(
    ("name", "near"),
    [
        ("train-seed.0-lr.1e-1", "train-seed-0-lr-1e-1"),
        ("My_Job", "my-job"),
        ("7seeds", "job-7seeds"),
        ("1.5", "job-1-5"),
        ("-a-", "a"),
        ("a..b", "a-b"),
        ("x" * 70, "x" * 58),
        ("x" * 57 + ".y", "x" * 57),
        ("9" * 70, "job-" + "9" * 54),
        ("Zürich", "z-rich"),
    ],
)
def test_the_message_suggests_the_nearest_allowed_name(name: str, near: str) -> None:
    assert nearest_allowed(name) == near
    assert is_allowed(near)
    ((field, message),) = rejection(named(name))
    assert field == "metadata.name"
    assert message.endswith(f"choose another name, such as {near}")


@pytest.mark.parametrize("name", ["...", "-", "训练"])
def test_a_name_of_which_nothing_can_be_kept_gets_no_suggestion(name: str) -> None:
    assert nearest_allowed(name) == ""
    ((_, message),) = rejection(named(name))
    assert message.endswith("choose another name")


@pytest.mark.parametrize("name", ["a", "job-0", "a--b", "x" * NAME_LENGTH])
def test_an_allowed_name_is_its_own_nearest_or_shorter(name: str) -> None:
    assert is_allowed(name)
    assert is_allowed(nearest_allowed(name))


@pytest.mark.parametrize(
    ("replicas", "room"), [(1, 34), (10, 34), (11, 33), (100, 33), (101, 32), (1001, 31)]
)
def test_a_task_name_that_is_too_long_is_rejected_with_the_length_that_fits(
    replicas: int, room: int
) -> None:
    assert room_for_task("a" * 26, replicas) == room
    parse_job(with_task("a" * 26, "t" * room, replicas))
    ((field, message),) = rejection(with_task("a" * 26, "t" * (room + 1), replicas))
    assert field == "spec.tasks[0].name"
    assert message.startswith(f"has {room + 1} characters, but there is room for only {room}: ")
    assert "at most 63 characters in all" in message


def with_task(job: str, task: str, replicas: int) -> Body:
    template = {"spec": {"containers": [container()]}}
    tasks = [{"type": "none", "name": task, "replicas": replicas, "template": template}]
    made = job_body(tasks=tasks, template=None, replicas=None)
    made["metadata"]["name"] = job
    return made
