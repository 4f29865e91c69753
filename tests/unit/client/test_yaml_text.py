"""YAML is read as in kubectl. The expected values are those of `kubectl patch --local -o json`."""

import json
from typing import Any

import pytest
from dijob.client import BadFile, dump
from dijob.client.yaml_text import MOST_ALIASES, MOST_LEVELS, parse_documents
from hypothesis import given
from hypothesis import strategies as st

# The value that kubectl 1.32 reads for each text.
WORDS: dict[str, Any] = {
    "1e3": 1000,
    "1E3": 1000,
    "1.5e3": 1500,
    "1e+3": 1000,
    "1e-3": 0.001,
    "1_000": 1000,
    "0x1F": 31,
    "0X1F": 31,
    "-0x1f": -31,
    "0o17": 15,
    "017": 15,
    "0b11": 3,
    "08": 8,
    "-0": 0,
    "1.0": 1,
    "1.": 1,
    ".5": 0.5,
    "+.5": 0.5,
    "+5": 5,
    "-5": -5,
    "1_0.5": 10.5,
    "99999999999999999999": 100000000000000000000,
    "1e20": 100000000000000000000,
    "1e21": 1e21,
    "1e400": "1e400",
    "0x_": "0x_",
    "1:30": "1:30",
    "12:30:45": "12:30:45",
    "2026-11-01": "2026-11-01",
    "2026-11-01T10:00:00Z": "2026-11-01T10:00:00Z",
    "y": True,
    "Y": True,
    "yes": True,
    "on": True,
    "True": True,
    "n": False,
    "no": False,
    "off": False,
    "yEs": "yEs",
    "~": None,
    "Null": None,
    "": None,
    '"null"': "null",
    "!!str 5": "5",
    '!!int "5"': 5,
    "=": "=",
}


@pytest.mark.parametrize(("word", "value"), WORDS.items(), ids=[f"<{word}>" for word in WORDS])
def test_scalars_are_read_as_in_kubectl(word: str, value: Any) -> None:
    ((found,),) = parse_documents(f"- {word}", "f")
    assert json.dumps(found) == json.dumps(value)


def test_keys_are_strings() -> None:
    (found,) = parse_documents("{1: a, 1.5: b, true: c, 1e3: d}", "f")
    assert found == {"1": "a", "1.5": "b", "true": "c", "1000": "d"}


def test_aliases_and_merges_are_expanded() -> None:
    (found,) = parse_documents("a: &a {x: 1}\nb: *a\nc: {<<: *a, z: 2}", "f")
    assert found == {"a": {"x": 1}, "b": {"x": 1}, "c": {"x": 1, "z": 2}}


STEPS = "\n".join(f"a{n}: &a{n} {'[' * 9}*a{n - 1}{']' * 9}" for n in range(1, 20))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        pytest.param(f"a: &a x\nb: [{'*a, ' * (MOST_ALIASES + 1)}]", "aliases", id="aliases"),
        pytest.param("[" * (MOST_LEVELS + 1) + "]" * (MOST_LEVELS + 1), "too deeply", id="deep"),
        pytest.param(f"a0: &a0 x\n{STEPS}", "line 18: nested too deeply", id="by aliases"),
        pytest.param("\na: .nan", "line 2: .nan is not a valid JSON number", id="not a number"),
        pytest.param("a: -.inf", "-.inf is not a valid JSON number", id="endless"),
        pytest.param("a: !!int x", "x is not a valid JSON number", id="no number"),
        pytest.param("a: !!binary aGk=", "invalid YAML", id="bytes"),
        pytest.param("a: !!set {b}", "invalid YAML", id="a set"),
        pytest.param("a: !!timestamp 2026-01-01", "invalid YAML", id="a date by its tag"),
        pytest.param("{[a]: b}", "invalid YAML", id="a list as a key"),
        pytest.param("{a: 1, a: 2}", "duplicate key a", id="a duplicate key"),
    ],
)
def test_texts_that_are_rejected(text: str, words: str) -> None:
    with pytest.raises(BadFile) as caught:
        tuple(parse_documents(text, "f"))
    assert str(caught.value).startswith("f: ")
    assert words in str(caught.value)


def test_the_limits_allow_real_files() -> None:
    levels = MOST_LEVELS - 1
    tuple(parse_documents("[" * levels + "]" * levels, "f"))
    tuple(parse_documents("a: &a x\nb: [" + "*a, " * MOST_ALIASES + "]", "f"))


ODD = st.one_of(st.sampled_from(list(WORDS)), st.text(alphabet="0123456789.eExyn+-_ :#'"))


@given(st.lists(ODD))
def test_written_text_is_read_back_unchanged(words: list[str]) -> None:
    body = {"kind": "A", "args": words}
    assert list(parse_documents(dump(body), "f")) == [body]
