"""Generates docs/cli.md from the help of the commands.

`python docs/site/commands.py` writes the page, and `--check` fails if it is out of date. Apart from
its introduction, the page contains only text of the program, so it cannot differ from what the
program does.
"""

import ast
import inspect
import sys
from collections.abc import Iterator
from typing import Final

import click
from dijob.cli import errors
from dijob.cli.loading import command_names, load_command
from dijob.crd.pages import settle_pages

_PAGE: Final = "docs/cli.md"
_WIDTH: Final = 100

_HEAD: Final = """# kubectl dijob

Generated from the commands' `--help` by `make crds`; do not edit.

```sh
pip install '.[cli]'      # in a clone of this repository: the programs kubectl-dijob and dijob
kubectl dijob --help      # kubectl finds kubectl-dijob in PATH; `dijob --help` is the same
```

Every command uses your kubeconfig and your permissions, and needs nothing in the cluster except the
operator. Results are printed on standard output; progress and errors are printed on stderr. An
error is one sentence that says what to do. Colors and live views are used only in a terminal.
`kubectl dijob completion --help` explains how to set up shell completion. For Python programs there
is [a client](client.md).

## Exit codes

| code | meaning |
|---|---|
"""


def render_page() -> str:
    """Return the text of the page."""
    codes = "".join(f"| {code.value} | {said} |\n" for code, said in exit_codes())
    parts = [_HEAD, codes]
    for name in command_names():
        command = load_command(name)
        assert command is not None
        # A fixed width makes the page the same on every machine.
        with click.Context(
            command,
            info_name=f"kubectl dijob {name}",
            terminal_width=_WIDTH,
            max_content_width=_WIDTH,
            help_option_names=["-h", "--help"],
        ) as context:
            parts.append(f"\n## {name}\n\n```text\n{command.get_help(context)}\n```\n")
    return "".join(parts)


def exit_codes() -> Iterator[tuple[errors.Exit, str]]:
    """Yield each exit code with the docstring below it.

    Python does not keep docstrings of enum members, so they are read from the source.
    """
    source = ast.parse(inspect.getsource(errors.Exit)).body[0]
    assert isinstance(source, ast.ClassDef)
    said = {errors.Exit.OK.name: "Success."}
    for line, below in zip(source.body, source.body[1:], strict=False):
        if isinstance(line, ast.Assign) and isinstance(below, ast.Expr):
            target = line.targets[0]
            assert isinstance(target, ast.Name)
            said[target.id] = " ".join(str(ast.literal_eval(below.value)).split())
    return ((code, said[code.name]) for code in errors.Exit)


def main() -> int:
    """Write or check the page. Return 1 if --check finds it out of date."""
    return settle_pages("python docs/site/commands.py", str(__doc__), {_PAGE: render_page()})


if __name__ == "__main__":
    sys.exit(main())
