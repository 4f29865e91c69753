"""Random faults from a seed, several at once, on jobs with real pods, and the invariants that must
hold after them. docs/reliability.md describes faults, invariants and results.

The modules kinds, plan, shapes, judge, charges, ranks, healing and table draw faults and judge
observations with pure functions, so that unit tests can cover them without a cluster. hosts, looks
and leftovers observe, the modules named *_acts inject faults, and run connects all of them.
"""
