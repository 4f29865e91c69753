"""H10, H22: text that a tenant has written is made safe before it reaches a terminal, status or
log."""

import json
import re
import sys
import unicodedata
from typing import Final

import pytest
from dijob.api.printed import coloured_line, escape_json, one_line, plain_text
from dijob.core.observed import parse
from hypothesis import example, given
from hypothesis import strategies as st
from samples.builders import pod_body
from samples.statuses import main_status, terminated

PRINTED = {
    "colours": ("\x1b[31;1mRuntimeError\x1b[0m: x", "RuntimeError: x"),
    "a window's title": ("\x1b]0;owned\x07all is well", "all is well"),
    "a title up to ST": ("\x1b]0;owned\x1b\\all is well", "all is well"),
    "the whole screen": ("\x1b[2J\x1bcall is well", "all is well"),
    "a character set": ("\x1b(0all is well\x1b(B", "all is well"),
    "sequences of eight bits": ("\x9b2J\x9d0;owned\x9call is well\x90q\x9c", "all is well"),
    "a title without an end": ("\x1b]0;owned\nall is well\x07", "0;owned\nall is well"),
    "single characters": ("a\x00b\x08c\x7fd\x84e", "abcde"),
    "bidirectional controls": ("user\u202egnp.exe\u2066\u200f\u061c", "usergnp.exe"),
    "characters of no width": ("ro\u200bot\ufeff\u00ad\u2060", "root"),
    "hidden tags": ("ok\U000e0065\U000e0076\U000e0069\U000e006c", "ok"),
    "half of a character": ("a\ud800b", "ab"),
    "lines and tabs": ("a\n\tb\r\nc", "a\n\tb\nc"),
    "other line breaks": ("a\rb\vc\fd\x85e\u2028f\u2029g", "a\nb\nc\nd\ne\nf\ng"),
}

KEPT = {
    "umlauts": "Übergröße, façade, naïve",
    "combining marks": "e\u0301 n\u0303",
    "Hebrew": "שגיאה: הקובץ לא נמצא",
    "Arabic": "خطأ في الملف ٣",
    "Persian with a joiner": "می\u200cخواهم",
    "Hindi with a joiner": "क्\u200dष",
    "Chinese and Japanese": "显存不足，メモリ不足",
    "a family": "👨\u200d👩\u200d👧\u200d👦",
    "a skin tone": "👍🏽",
    "a variation selector": "❤\ufe0f",
    "a flag of a country": "🇩🇪",
    "a flag of a region": "🏴\U000e0067\U000e0062\U000e0065\U000e006e\U000e0067\U000e007f",
    "a frame": "│ 71% ┃ █████▏",
}

# Format characters that stay: the joiners, signs that span digits, and those that arrange
# hieroglyphs. All are part of what is seen.
SEEN_FORMATS: Final = re.compile(
    "[\u200c\u200d\u0600-\u0605\u06dd\u070f\u0890\u0891\u08e2\U000110bd\U000110cd"
    "\U00013430-\U0001343f]"
)
UNSAFE = st.sampled_from([*"\x00\x07\x08\t\n\r\x1b[]\\;m2J\x7f\x85\x90\x9b\x9c\x9d", "\u202e", "x"])
TEXTS = (
    st.text()
    | st.text(alphabet=UNSAFE)
    | st.lists(st.sampled_from(list(KEPT.values()))).map("".join)
)


@pytest.mark.parametrize(("text", "seen"), PRINTED.values(), ids=PRINTED)
def test_plain_removes_what_cannot_be_read(text: str, seen: str) -> None:
    assert plain_text(text) == seen


@pytest.mark.parametrize("text", KEPT.values(), ids=KEPT)
def test_plain_keeps_what_people_write(text: str) -> None:
    assert plain_text(text) == one_line(text) == coloured_line(text) == escape_json(text) == text


def test_every_control_or_format_character_is_removed_or_visible() -> None:
    left = {
        char
        for char in map(chr, range(sys.maxunicode + 1))
        if unicodedata.category(char) in ("Cc", "Cf", "Cs", "Zl", "Zp")
        and one_line(f"a{char}図") not in ("a図", "a 図")
    }
    assert not {char for char in left if not SEEN_FORMATS.match(char)}


@given(TEXTS)
@example("\x1b\x1b[2J[2J")
@example("\x1b\u202e[31m")
@example("🏴\x00\U000e0067\U000e007f")
def test_no_text_stays_unsafe(text: str) -> None:
    shown = plain_text(text)
    assert all(
        char in "\t\n" or unicodedata.category(char) not in ("Cc", "Cs", "Zl", "Zp")
        for char in shown
    )
    assert plain_text(shown) == shown
    line = one_line(text)
    assert len(line.splitlines()) <= 1
    assert line == one_line(line) == plain_text(line)


@given(TEXTS)
@example("\x1b[31mred\x1b[2J")
@example("[0] \x1b[1A\r[1] forged")
def test_coloured_keeps_colours_only_and_resets_them(text: str) -> None:
    shown = coloured_line(text)
    assert len(shown.splitlines()) <= 1
    assert "\x1b" not in shown or shown.endswith("\x1b[0m")
    without_colours = re.sub(r"\x1b\[[0-9;:]*m", "", shown)
    assert without_colours.rstrip() == plain_text(without_colours)


def test_no_colour_hides_text() -> None:
    assert coloured_line("\x1b[8mhidden\x1b[1;08mtoo\x1b[28mseen") == "hiddentoo\x1b[28mseen\x1b[0m"


def test_coloured_shows_the_last_state_of_a_progress_bar() -> None:
    assert coloured_line("10%\r50%\r\x1b[32m100%\r\n") == "\x1b[32m100%\x1b[0m"


@given(st.dictionaries(TEXTS, TEXTS))
def test_escaped_json_is_safe_and_has_the_same_values(data: dict[str, str]) -> None:
    document = escape_json(json.dumps(data, ensure_ascii=False, indent=2))
    assert json.loads(document) == data
    assert plain_text(document) == document


def test_the_message_of_a_failure_is_safe() -> None:
    ended = terminated(1, message="\x1b[2Jprogress\r\n\x1b[31mValueError: no GPU\x1b[0m\n")
    body = pod_body(phase="Running", containerStatuses=[main_status(state=ended)])
    pod = parse.parse_pod(body)
    assert pod.containers.last_end is not None
    assert pod.containers.last_end.words == "exited 1: ValueError: no GPU"
    assert pod.complaint.endswith("exited 1: ValueError: no GPU")
