"""`kubectl dijob explain`: what a file becomes, before anything is created."""

from typing import Any

import click

from dijob.cli import options
from dijob.cli.calling import Where
from dijob.cli.errors import Exit
from dijob.cli.printing import echo

NOT_ASKED = {"asked": False, "why": "--offline: this looked at the file only", "findings": []}


@click.command()
@click.argument("file")
@click.option("-o", "--output", type=click.Choice(["json", "yaml"]), help="Print it as data.")
@click.option("--full", is_flag=True, help="All pods, with all variables of each.")
@click.option("--offline", is_flag=True, help="Look at the file only, ask no cluster.")
@options.cluster
def command(where: Where, file: str, output: str | None, full: bool, offline: bool) -> None:
    """Say what the DIJob in a file becomes; nothing is created.

    Pods and ranks, the variables that their processes will have, who dials whom, how many
    connections that makes, what the operator creates, warnings. It is made by the operator's own
    code. Where the kubeconfig leads to a cluster, it also asks whether that accepts the job and its
    pods, and whether the job fits into nodes and quotas, by dry runs and with your own rights. The
    lines begin with OK, NO, or ? for what your rights do not show. Ends with 1 where one says NO.
    FILE "-" is standard input.

    \b
    Example:
      kubectl dijob explain examples/cartpole-dqn.yaml
      kubectl dijob explain job.yaml --offline -o json | jq .connections
    """
    from dijob.cli.explain import text
    from dijob.cli.explain.report import explanation
    from dijob.cli.files import read
    from dijob.cli.jobs import job_of
    from dijob.core.options import Options

    given = read(file)
    job_of(given)
    seen: dict[str, Any] = NOT_ASKED
    if not offline:
        from dijob.cli.explain.cluster import ask

        seen = ask(given, where)
    namespace = where.namespace or seen.get("namespace", "")
    found = {**explanation(job_of(given, namespace), Options()), "cluster": seen}
    echo(_data(found, output) if output else "\n".join(text.lines(found, full)))
    if any(one["verdict"] == "no" for one in seen["findings"]):
        click.get_current_context().exit(Exit.FAILED)


def _data(found: dict[str, Any], form: str) -> str:
    if form == "json":
        import json

        return json.dumps(found, indent=2)
    import yaml

    text: str = yaml.safe_dump(found, sort_keys=False, width=110)
    return text.rstrip("\n")
