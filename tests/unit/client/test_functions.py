"""Functions that run as jobs: the script that is sent, and what is rejected."""

import linecache
import textwrap
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from dijob.client import BadFile, Client, JobFunction, as_job
from dijob.client.functions import SCRIPT, build_script, list_command, read_source

CELL = """
import math
from dijob.client import Client, as_job
SCALE = 2

def scaled(x):
    return SCALE * math.sqrt(x)

def show(client: Client):
    print(client.list())

@as_job(image="x", replicas=2)
def my_main():
    print(scaled(4), [one for one in (1,)], __name__)

client = Client()
job = my_main.run(client)
print(job)
get_ipython().run_line_magic("time", "")
"""
KEPT = """import math
SCALE = 2

def scaled(x):
    return SCALE * math.sqrt(x)

def my_main():
    print(scaled(4), [one for one in (1,)], __name__)
if __name__ == '__main__':
    my_main()
"""


def cell(text: str, function: str = "my_main", **other_cells: Any) -> Callable[..., Any]:
    """Run a cell as IPython does, and return its function."""
    name = f"<cell {abs(hash(text))}>"
    linecache.cache[name] = (len(text), None, text.splitlines(keepends=True), name)
    client = SimpleNamespace(run=lambda *_, **__: "job")
    shell = SimpleNamespace(run_line_magic=lambda *_: None)
    names = {"__name__": "__main__", "get_ipython": lambda: shell, **other_cells}
    body = text.replace("Client()", "_fake")
    exec(compile(body, name, "exec"), names | {"_fake": client}, found := dict(names))
    made = found[function]
    function_of: Callable[..., Any] = made.function if isinstance(made, JobFunction) else made
    return function_of


LATER_CELL = """
import os

@as_job("x", replicas=2)
def greet():
    print(os.environ["DI_RANK"])

greet.run(client)
"""
LATER_SCRIPT = """import os

def greet():
    print(os.environ['DI_RANK'])
if __name__ == '__main__':
    greet()
"""


def test_another_cell_has_imported_the_client() -> None:
    client = Client.__new__(Client)
    client.run = lambda *_, **__: None  # type: ignore[method-assign, assignment]
    function = cell(LATER_CELL, "greet", as_job=as_job, client=client)
    assert build_script(function, LATER_CELL) == LATER_SCRIPT


def test_a_cell_is_sent_without_the_lines_that_use_the_client() -> None:
    assert build_script(cell(CELL), CELL) == KEPT
    (file,) = read_source(cell(CELL)).files
    assert (file.path, file.content.decode()) == (SCRIPT, KEPT)


def test_a_module_in_a_file_is_sent() -> None:
    (file,) = read_source(textwrap.indent).files
    assert file.content.decode().endswith("if __name__ == '__main__':\n    indent()\n")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        pytest.param(
            "def my_main():\n    print(data, len('a'), x.data)\n",
            r"my_main uses names that the code of the job does not define \(data, x\)",
            id="names of another cell",
        ),
        pytest.param(
            "def outer():\n    def my_main():\n        pass\n    return my_main\n"
            "my_main = outer()\n",
            "define it with `def` at the top level",
            id="an inner function",
        ),
    ],
)
def test_functions_that_cannot_run_alone_are_rejected(text: str, said: str) -> None:
    function = cell(text, data=[1], x=1)
    function.__globals__.update(data=1, x=1)
    with pytest.raises(BadFile, match=said):
        read_source(function)


def test_a_decorated_function_can_be_called_and_run() -> None:
    given: dict[str, Any] = {}

    @as_job("my/image", replicas=3, env={"A": "b"})
    def my_main() -> str:
        """Train."""
        return "done"

    def run(name: str, **more: Any) -> str:
        given.update(more, name=name)
        return "job"

    client: Any = SimpleNamespace(run=run)
    assert (my_main(), my_main.__doc__) == ("done", "Train.")
    assert repr(my_main).endswith("my_main: job my-main, image my/image>")
    created: Any = my_main.run(client)
    assert created == "job"
    assert (given.pop("code"), given.pop("replace")) == (my_main.function, True)
    assert given == {"name": "my-main", "image": "my/image", "replicas": 3, "env": {"A": "b"}}


@pytest.mark.parametrize(
    ("command", "code", "said"),
    [
        pytest.param("python3 main.py", None, r"write \['python3', 'main.py'\]", id="a string"),
        pytest.param([], ".", "command is missing", id="no command"),
    ],
)
def test_commands_that_are_rejected(command: Any, code: str | None, said: str) -> None:
    with pytest.raises(BadFile, match=said):
        list_command(command, code)
