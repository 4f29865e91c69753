"""`kubectl dijob explain`: prints the explanation that dijob.cli.explain creates."""

from typing import Any

import click

from dijob.cli import options
from dijob.cli.calling import Where
from dijob.cli.errors import Exit
from dijob.cli.printing import echo


@click.command()
@click.argument("file")
@click.option("-o", "--output", type=click.Choice(["json", "yaml"]), help="Default: text.")
@click.option("--full", is_flag=True, help="Show every pod with all its variables.")
@click.option("--offline", is_flag=True, help="Read only the file, without contacting a cluster.")
@options.cluster_options
def explain_command(where: Where, file: str, output: str | None, full: bool, offline: bool) -> None:
    """Show the pods and connections of the DIJob in a file, without creating anything.

    The output lists pods and ranks, the environment variables of their processes, the connections
    between them, the objects that the operator creates, and warnings. It is computed by the
    operator's own code.

    If the kubeconfig points to a cluster, dry runs show whether the cluster accepts the job and its
    pods. The command also checks which nodes have the images, and whether the objects that the pods
    need exist: ConfigMaps, Secrets, claims, service accounts, priority classes and storage classes.
    The command estimates whether the pods fit on the nodes and in the quotas. These checks use your
    permissions. The result of each check is OK or NO. The last lines begin with a question mark,
    and list what was not checked, and why. The exit code is 1 if a result is NO. FILE "-" is
    standard input.

    \b
    Example:
      kubectl dijob explain examples/cartpole-dqn.yaml
      kubectl dijob explain job.yaml --offline -o json | jq .connections
    """
    from dijob.cli.explain import text
    from dijob.cli.explain.cluster import check_on_cluster, not_asked
    from dijob.cli.explain.report import explain_job
    from dijob.cli.files import job_of, read_file
    from dijob.core.options import Options

    source = read_file(file)
    # An invalid file ends the command here, before a cluster is contacted.
    job_of(source)
    cluster = not_asked(source, "--offline") if offline else check_on_cluster(source, where)
    # The kubeconfig's namespace is known only after the cluster has been contacted.
    namespace = where.namespace or cluster.get("namespace", "")
    # The chart's values are not known here, so the operator's default options are used.
    data = {**explain_job(job_of(source, namespace), Options()), "cluster": cluster}
    echo(_format_data(data, output) if output else "\n".join(text.explanation_lines(data, full)))
    if any(one["verdict"] == "no" for one in cluster["findings"]):
        click.get_current_context().exit(Exit.FAILED)


def _format_data(data: dict[str, Any], form: str) -> str:
    if form == "json":
        import json

        return json.dumps(data, indent=2)
    import yaml

    text: str = yaml.safe_dump(data, sort_keys=False, width=110)
    return text.rstrip("\n")
