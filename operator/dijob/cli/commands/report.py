"""`kubectl dijob report`: prints the report of dijob.cli.goodput."""

from datetime import UTC, datetime

import click

from dijob.cli import options
from dijob.cli.calling import Where, call_client, client_errors
from dijob.cli.errors import CliError
from dijob.cli.printing import echo, format_object, write_file


@click.command()
@options.job
@click.option(
    "--svg",
    metavar="FILE",
    type=click.Path(dir_okay=False),
    help="Also write an SVG diagram to this file. For each rank, one bar shows how the"
    " rank has spent its time.",
)
@options.output_option("table", "json", "yaml")
@options.cluster_options
def report_command(where: Where, name: str, svg: str | None, output: str) -> None:
    """Show how a job has spent its time, and what interrupted it.

    The goodput is the share of the wall time in which all ranks were Ready and no iterations were
    repeated. The rest is time in which the job waited, started, or recovered from a lost rank.

    \b
    Example:
      kubectl dijob report test --svg test.svg
    """
    with client_errors():
        from dijob.cli.goodput import show
        from dijob.cli.goodput.svg import draw_report
    job = call_client(where, lambda client: client.get(name))
    spent = show.measure_job(job, datetime.now(UTC))
    if spent is None:
        raise CliError(f"{name}: {show.NOT_COUNTED}")
    if svg:
        write_file(svg, draw_report(name, spent, job.ranks))
    if output == "table":
        echo(show.format_report(spent, job.metadata.creation_timestamp))
    else:
        data = {"job": name, **show.report_data(spent, job.ranks)}
        echo(format_object(data, output), nl=False)
