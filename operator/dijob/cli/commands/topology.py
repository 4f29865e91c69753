"""`kubectl dijob topology`: prints the report of dijob.cli.topology."""

import click

from dijob.cli import options
from dijob.cli.calling import Where, call_client, client_errors
from dijob.cli.errors import Exit
from dijob.cli.printing import echo, format_object, write_file


@click.command()
@options.job
@click.option(
    "--svg",
    metavar="FILE",
    type=click.Path(dir_okay=False),
    help="Also write an SVG diagram of the ranks and their connections to this file.",
)
@options.output_option("table", "json", "yaml")
@options.cluster_options
def topology_command(where: Where, name: str, svg: str | None, output: str) -> None:
    """Show which connections a job's processes have, which are missing, and why.

    Connections are read from /proc/net in each pod through exec, with your permissions. The image
    needs python3, sh or cat. A pod without any of them is observed through its peers. The exit code
    is 0 if all connections are up, else 1.

    \b
    Example:
      kubectl dijob topology test --svg test.svg
    """
    with client_errors():
        from dijob.cli.topology import show
        from dijob.cli.topology.looking import observe_connections
        from dijob.cli.topology.svg import draw_report
    report = call_client(where, lambda client: observe_connections(client, name))
    if svg:
        write_file(svg, draw_report(report))
    output_text = (
        show.format_report(report) + "\n"
        if output == "table"
        else format_object(show.report_data(report), output)
    )
    echo(output_text, nl=False)
    # This is not a CliError, because the report has already been printed, and an error line would
    # repeat it.
    if not report.whole:
        raise click.exceptions.Exit(Exit.FAILED)
