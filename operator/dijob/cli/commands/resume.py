"""`kubectl dijob resume`."""

from dijob.cli.verbs import verb

command = verb(
    lambda client, name: client.resume(name),
    "resumed",
    """Bring suspended jobs back, with the same ranks.

    They start from their checkpoints, where their programs have any.

    \b
    Example:
      kubectl dijob resume test
    """,
)
