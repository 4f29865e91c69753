"""Runs a Python function as a job: sends the module or the notebook cell that defines it.

This package is not installed in the pods. So the module is sent without the lines that use the
package: its imports, its decorators, and the statements that use an imported name or a decorated
function.
"""

import ast
import builtins
import inspect
import linecache
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from functools import update_wrapper
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, Final, Unpack

from dijob.client.code import Code, CodeFile, read_code
from dijob.client.errors import BadFile
from dijob.client.running import RunOptions

if TYPE_CHECKING:
    from dijob.client.jobs import Job
    from dijob.client.synchronous import Client

Function = Callable[..., Any]
CodeSource = str | Path | Function
# The file that calls the function.
SCRIPT: Final = "job_main.py"
_DEFINITIONS: Final = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)


class JobFunction:
    """A function that `as_job` has decorated. A call runs the function in this process, and `run`
    runs it as a job.
    """

    def __init__(self, function: Function, name: str, image: str, options: RunOptions) -> None:
        self.function, self.name, self.image, self.options = function, name, image, options
        update_wrapper(self, function)

    def __call__(self, *args: Any, **more: Any) -> Any:
        return self.function(*args, **more)

    def __repr__(self) -> str:
        return f"<JobFunction {self.function.__qualname__}: job {self.name}, image {self.image}>"

    def run(self, client: "Client", *, replace: bool = True) -> "Job":
        """Send the function's module, and create the job. By default, a job of the same name is
        replaced, so that a changed cell can be run again.
        """
        return client.run(
            self.name, image=self.image, code=self.function, replace=replace, **self.options
        )


def as_job(
    image: str, name: str = "", **options: Unpack[RunOptions]
) -> Callable[[Function], JobFunction]:
    """Return a decorator that turns a function into a job, with the options of `Client.run`.

    The job's name defaults to that of the function. The function takes no arguments. It can use
    everything that its module or its notebook cell defines.
    """

    def decorate(function: Function) -> JobFunction:
        default = function.__name__.strip("_").replace("_", "-").lower()
        return JobFunction(function, name or default, image, options)

    return decorate


def list_command(command: Sequence[str], code: CodeSource | None) -> list[str]:
    """Return the command of the pods. Raises BadFile if the command is missing, or is a single
    string.
    """
    if isinstance(command, str):
        raise BadFile(
            f"command is the string {command!r}, but no shell splits it: write"
            f" {shlex.split(command)!r}, or ['bash', '-c', {command!r}]"
        )
    if not command and not callable(code):
        raise BadFile("command is missing: write a list such as ['python3', 'main.py']")
    return list(command) or ["python3", SCRIPT]


def read_source(code: CodeSource) -> Code:
    """Return the code of a path or a function. Raises BadFile."""
    if not callable(code):
        return read_code(code)
    function = code.function if isinstance(code, JobFunction) else code
    text = build_script(function, _module_text(function))
    return Code([CodeFile(SCRIPT, text.encode())])


def build_script(function: Function, text: str) -> str:
    """Return the script that calls a function. `text` is the source of the function's module.

    Raises BadFile if the function is not at the top level of the module, or uses a name that only
    another cell defines.
    """
    name = function.__name__
    known = _names_of_client(function.__globals__) - {name}
    body = list(_without_client(ast.parse(text).body, name, known))
    if not any(isinstance(one, _DEFINITIONS) and one.name == name for one in body):
        raise BadFile(
            f"{function.__qualname__} cannot run as a job: define it with `def` at the top level of"
            " a module or a notebook cell"
        )
    names = [one for part in body for one in ast.walk(part)]
    used = {one.id for one in names if isinstance(one, ast.Name)}
    missing = (used - _bound_names(body) - set(vars(builtins))) & set(function.__globals__)
    if missing:
        raise BadFile(
            f"{name} uses names that the code of the job does not define"
            f" ({', '.join(sorted(missing))}): define each of them in the function, or in a"
            " separate statement of the same cell or module. This statement must not use the"
            " client, because statements that use the client are not sent to the job"
        )
    call = ast.parse(f"if __name__ == '__main__':\n    {name}()").body
    return ast.unparse(ast.Module([*body, *call], type_ignores=[])) + "\n"


def _module_text(function: Function) -> str:
    """Return the text of a function's module, or of its notebook cell."""
    # IPython gives each cell a file name, and registers the cell's text in linecache under this
    # name. The code object of each function in the cell contains this file name.
    lines = linecache.getlines(inspect.unwrap(function).__code__.co_filename)
    if not lines:
        raise BadFile(
            f"the source of {function.__qualname__} cannot be read: define it in a file or in a"
            " notebook cell"
        )
    return "".join(lines)


def _names_of_client(names: Mapping[str, Any]) -> set[str]:
    """Return the `names` that refer to objects of this package. Another cell may have imported
    these objects.
    """
    found = set()
    for name, value in names.items():
        own = (
            value.__name__ if isinstance(value, ModuleType) else getattr(value, "__module__", None)
        )
        if str(own or type(value).__module__).partition(".")[0] == "dijob":
            found.add(name)
    return found


def _without_client(
    body: Sequence[ast.stmt], sent: str, known: AbstractSet[str]
) -> Iterator[ast.stmt]:
    """Yield the statements that use neither this package nor a `known` object from it. The
    package's decorators are removed. The definition of the function `sent` is always kept.
    """
    # IPython turns magics such as %time into calls to get_ipython.
    local = {"get_ipython", *known}
    for part in body:
        if isinstance(part, ast.ImportFrom | ast.Import) and _is_own_import(part):
            local |= {(one.asname or one.name).partition(".")[0] for one in part.names}
        elif isinstance(part, _DEFINITIONS):
            kept = [one for one in part.decorator_list if not _names_in(one) & local]
            if len(kept) < len(part.decorator_list):
                local.add(part.name)
                part.decorator_list = kept
            if part.name == sent or not _names_in(part) & local:
                yield part
            else:
                local.add(part.name)
        elif _names_in(part) & local:
            local |= _bound_names([part])
        else:
            yield part


def _is_own_import(part: ast.ImportFrom | ast.Import) -> bool:
    names = (
        [part.module or ""] if isinstance(part, ast.ImportFrom) else [n.name for n in part.names]
    )
    return any(name.partition(".")[0] == "dijob" for name in names)


def _names_in(part: ast.AST) -> set[str]:
    return {one.id for one in ast.walk(part) if isinstance(one, ast.Name)}


def _bound_names(body: Sequence[ast.stmt]) -> set[str]:
    """Return the names that statements bind at any depth, including function parameters."""
    found: set[str] = set()
    for part in body:
        for one in ast.walk(part):
            if isinstance(one, ast.Name) and not isinstance(one.ctx, ast.Load):
                found.add(one.id)
            elif isinstance(one, ast.alias):
                found.add((one.asname or one.name).partition(".")[0])
            elif isinstance(one, _DEFINITIONS):
                found.add(one.name)
            elif isinstance(one, ast.arg):
                found.add(one.arg)
            elif isinstance(one, ast.ExceptHandler) and one.name:
                found.add(one.name)
    return found
