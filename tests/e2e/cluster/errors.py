"""The one exception of the test cluster: what is wrong and what to do about it, for the person at
the terminal.
"""


class ClusterError(Exception):
    """A sentence that names the thing, says what is wrong with it, and what to do."""
