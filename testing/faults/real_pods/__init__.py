"""Random faults from a seed, several at once, on jobs with real pods, and the invariants that must
hold after them. docs/reliability.md describes faults, invariants and results.

The modules `kinds`, `plan`, `shapes`, `judge`, `charges`, `ranks`, `healing` and `table` draw
faults and judge observations. They contain pure functions, so that unit tests can cover them
without a cluster. The modules `hosts`, `looks` and `leftovers` make the observations. The
modules `*_acts` inject the faults. The module `run` connects all of them.
"""
