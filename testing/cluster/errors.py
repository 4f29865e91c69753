"""The exception of the test cluster. Its message is for the person at the terminal."""


class ClusterError(Exception):
    """The message names the object, the problem and what to do."""
