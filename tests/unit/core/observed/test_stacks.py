"""The innermost functions of a program, from the text that faulthandler writes."""

import pytest
from dijob.core.observed.stacks import MOST_CHARACTERS, shorten_stack

HEAD = "Current thread 0x00007f6a (most recent call first):\n"


def frame(path: str, line: int, function: str) -> str:
    return f'  File "{path}", line {line} in {function}\n'


CASES = {
    "the innermost frames": (
        HEAD + "".join(frame("/work/a.py", n, f"f{n}") for n in range(1, 9)),
        "f1 (a.py:1) < f2 (a.py:2) < f3 (a.py:3)",
    ),
    "a single frame": (frame("train.py", 3, "<module>"), "<module> (train.py:3)"),
    "the user's code below a library": (
        "".join(frame("/opt/lib/python3.9/site-packages/x/b.py", n, "g") for n in (1, 2, 3))
        + frame("/work/a.py", 4, "main"),
        "g (b.py:1) < g (b.py:2) < g (b.py:3) < main (a.py:4)",
    ),
    "nothing": ("", "an unreadable stack"),
    "another text": ("Segmentation fault\nFile x line 3\n", "an unreadable stack"),
    "a path of Windows": (frame("C:\\x\\a.py", 1, "f"), "f (a.py:1)"),
}


@pytest.mark.parametrize(("text", "short"), CASES.values(), ids=CASES)
def test_the_short_form_of_a_stack(text: str, short: str) -> None:
    assert shorten_stack(text) == short


def test_long_names_are_cut() -> None:
    text = "".join(frame("/" + "p" * 900 + ".py", n, "f" * 190) for n in range(1, 5))
    assert len(shorten_stack(text)) <= MOST_CHARACTERS


def test_a_hostile_text_is_read_in_time() -> None:
    assert shorten_stack('  File "' * 600) == "an unreadable stack"
