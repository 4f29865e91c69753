"""`kubectl dijob resume`: clears spec.suspend of jobs."""

from dijob.cli.verbs import build_command

command = build_command(
    lambda client, name: client.resume(name),
    "resumed",
    """Resume suspended jobs with the same ranks.

    The pods are created again. Programs that write checkpoints can continue from them.

    \b
    Example:
      kubectl dijob resume test
    """,
)
