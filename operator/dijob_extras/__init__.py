"""Features of the command line that most users do not need, each in its own package.

Each package adds a command, or a check of `doctor`, through an entry point of the distribution
(pyproject.toml). Packages of other projects can do the same. The command line does not contain the
names of these packages, and imports each only when it is used.
"""
