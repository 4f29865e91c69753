"""The prose check finds docstrings, comments and messages at their lines, and no code."""

import pytest
from prose.extract import document, passages

PYTHON = '''"""First line,
    # no comment
and the second."""

URL = "https://example.org/#top"  # after code
# A comment
# of two lines.

class Job:
    phase: str = "x"
    """What the job does."""

def run(argument):
    raise ValueError(
        f"cannot read {argument}:"
        " the file is not there"
    )
    apply("""apiVersion: v1 is no docstring""")
    other(
        """kind: List is none either""",
    )
'''


def _extract(name: str, source: str) -> dict[int, str]:
    text, numbers = document(passages(name, source))
    lines = zip(numbers, text.split("\n"), strict=False)
    return dict(sorted((number, line) for number, line in lines if line))


def test_python() -> None:
    docstrings_and_comments = {
        1: "First line,",
        3: "and the second.",
        5: "after code",
        6: "A comment",
        7: "of two lines.",
        11: "What the job does.",
    }
    assert _extract("tests/job.py", PYTHON) == docstrings_and_comments
    messages = {15: "cannot read X:", 16: "the file is not there"}
    assert _extract("operator/job.py", PYTHON) == docstrings_and_comments | messages


def test_comments_of_consecutive_lines_are_one_passage_unless_they_follow_code() -> None:
    source = "// One\n// sentence.\na = 1 // a value\nb = 2 // another\n"
    found = [[line.text for line in passage] for passage in passages("main.go", source)]
    assert found == [["One", "sentence."], ["a value"], ["another"]]


@pytest.mark.parametrize(
    ("comment", "text"),
    [
        ("#   kubectl apply -f job.yaml", {}),
        ("# make  builds the images", {1: "make  builds the images"}),
        ("## help", {1: "help"}),
        ("image: a#b", {}),
    ],
    ids=["a command", "a table", "two marks", "no comment"],
)
def test_yaml(comment: str, text: dict[int, str]) -> None:
    assert _extract("job.yaml", comment) == text
