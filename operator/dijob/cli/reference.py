"""`python -m dijob.cli.reference` writes docs/cli.md from the commands' own help; `--check` says
whether it is out of date.
"""

import ast
import importlib
import inspect
import sys
from collections.abc import Iterator
from typing import Final

import click

from dijob.cli import errors
from dijob.cli.commands import COMMANDS
from dijob.crd.pages import settle

_PAGE: Final = "docs/cli.md"
_WIDTH: Final = 100

_HEAD: Final = """# kubectl dijob

Generated from the commands' `--help` (`operator/dijob/cli`) by `make crds`; do not edit.

```sh
pip install '.[cli]'      # in a clone of this repository: the programs kubectl-dijob and dijob
kubectl dijob --help      # kubectl finds kubectl-dijob in PATH; `dijob --help` is the same
```

Each command works with your own kubeconfig and your own rights, and needs nothing in the cluster
but the operator. Results go to the standard output, what happens meanwhile and errors to stderr. An
error is one sentence that says what to do. Without a terminal nothing is coloured or drawn.
`kubectl dijob completion --help` says how your shell completes commands and the names of jobs.
Python programs use [the client](client.md) instead.

## Exit codes

| code | when |
|---|---|
"""


def page() -> str:
    """The page's text."""
    codes = "".join(f"| {code.value} | {said} |\n" for code, said in exit_codes())
    parts = [_HEAD, codes]
    for name in COMMANDS:
        module = importlib.import_module(f"dijob.cli.commands.{name.replace('-', '_')}")
        command: click.Command = module.command
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
    """Each exit code with the docstring below it."""
    source = ast.parse(inspect.getsource(errors.Exit)).body[0]
    assert isinstance(source, ast.ClassDef)
    said = {errors.Exit.OK.name: "What was asked for is done."}
    for line, below in zip(source.body, source.body[1:], strict=False):
        if isinstance(line, ast.Assign) and isinstance(below, ast.Expr):
            target = line.targets[0]
            assert isinstance(target, ast.Name)
            said[target.id] = " ".join(str(ast.literal_eval(below.value)).split())
    return ((code, said[code.name]) for code in errors.Exit)


def main() -> int:
    """Exit code 1: with --check, the page is out of date."""
    return settle("python -m dijob.cli.reference", str(__doc__), {_PAGE: page()})


if __name__ == "__main__":
    sys.exit(main())
