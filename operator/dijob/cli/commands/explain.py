"""`kubectl dijob explain`: what a file becomes, before anything is created."""

from typing import Any

import click


@click.command()
@click.argument("file")
@click.option("-o", "--output", type=click.Choice(["json", "yaml"]), help="Print it as data.")
@click.option("--full", is_flag=True, help="All pods, with all variables of each.")
@click.option("-n", "--namespace", default="", help="The namespace, where the file names none.")
def command(file: str, output: str | None, full: bool, namespace: str) -> None:
    """Say what the DIJob in FILE becomes; nothing is created.

    Pods and ranks, the variables that their processes will have, who dials whom, how many
    connections that makes, what the operator creates, warnings. It is made by the operator's own
    code, from the file alone. FILE "-" is standard input.

    \b
    Example:
      kubectl dijob explain examples/cartpole-dqn.yaml
      kubectl dijob explain job.yaml -o json | jq .connections
    """
    from dijob.cli.explain import text
    from dijob.cli.explain.report import explanation
    from dijob.cli.files import read
    from dijob.cli.jobs import job_of
    from dijob.core.options import Options

    found = explanation(job_of(read(file), namespace), Options())
    click.echo(_data(found, output) if output else "\n".join(text.lines(found, full)))


def _data(found: dict[str, Any], form: str) -> str:
    if form == "json":
        import json

        return json.dumps(found, indent=2)
    import yaml

    text: str = yaml.safe_dump(found, sort_keys=False, width=110)
    return text.rstrip("\n")
