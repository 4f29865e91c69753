"""Features of the command line that most users do not need, as packages of their own.

Each adds a command, or a check of `doctor`, through an entry point of the distribution
(pyproject.toml), as a package of another project can. So the command line imports none of them
before it is used, and knows no name of them.
"""
