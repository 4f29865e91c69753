"""`kubectl dijob suspend`."""

from dijob.cli.verbs import verb

command = verb(
    lambda client, name: client.suspend(name),
    "suspended",
    """Take jobs off the cluster, until resume.

    Their pods end with their grace period. The jobs keep their ranks, and the room is free for
    others.

    \b
    Example:
      kubectl dijob suspend test
    """,
)
