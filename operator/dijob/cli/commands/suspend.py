"""`kubectl dijob suspend`: sets spec.suspend of jobs."""

from dijob.cli.verbs import build_command

command = build_command(
    lambda client, name: client.suspend(name),
    "suspended",
    """Delete the pods of jobs until the jobs are resumed.

    The pods get their termination grace period. Their capacity is free for other jobs. The jobs
    keep their ranks.

    \b
    Example:
      kubectl dijob suspend test
    """,
)
