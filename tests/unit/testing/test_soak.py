"""What counts as a leak in the soak test."""

from collections import Counter

import pytest
from faults.soak.held import IN_TURN, Held

YOUNG = Held(Counter({"watch": 3}), 10, 0)


@pytest.mark.parametrize(
    ("old", "leaks"),
    [
        (YOUNG, []),
        (Held(Counter({"watch": 2}), 8, 0), []),
        (Held(Counter({"watch": 3}), 10 + IN_TURN, 0), []),
        (Held(Counter({"watch": 3}), 11 + IN_TURN, 0), [f"{1 + IN_TURN} sockets"]),
        (Held(Counter({"watch": 4}), 10, 0), ["1 tasks watch"]),
        (Held(Counter({"watch": 3}), 10, 2), ["2 children"]),
    ],
    ids=["the same", "less", "connections in turn", "more sockets", "a task", "children"],
)
def test_additional_resources_are_a_leak_except_for_connections_in_use(
    old: Held, leaks: list[str]
) -> None:
    assert old.beyond(YOUNG) == leaks
