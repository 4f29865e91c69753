"""What a tenant's program has printed reaches no one's terminal as it is."""

import pytest
from dijob.api.printed import plain
from dijob.core.observed import parse
from unit.builders import pod_body
from unit.statuses import main_status, terminated

PRINTED = {
    "colours": ("\x1b[31;1mRuntimeError\x1b[0m: x", "RuntimeError: x"),
    "a window's title": ("\x1b]0;owned\x07all is well", "all is well"),
    "the whole screen": ("\x1b[2J\x1bcall is well", "call is well"),
    "single characters": ("a\x00b\x08c\x7fd", "abcd"),
    "lines and tabs": ("a\n\tb\r\nc", "a\n\tb\r\nc"),
}


@pytest.mark.parametrize(("text", "seen"), PRINTED.values(), ids=PRINTED)
def test_only_what_can_be_read_is_left(text: str, seen: str) -> None:
    assert plain(text) == seen


def test_no_message_of_a_failure_has_more() -> None:
    ended = terminated(1, message="\x1b[2Jprogress\r\n\x1b[31mValueError: no GPU\x1b[0m\n")
    body = pod_body(phase="Running", containerStatuses=[main_status(state=ended)])
    pod = parse.pod(body)
    assert pod.containers.last_end is not None
    assert pod.containers.last_end.words == "exited 1: ValueError: no GPU"
    assert pod.complaint.endswith("exited 1: ValueError: no GPU")
