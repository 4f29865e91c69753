"""Seeded faults, several at once, over jobs on real pods, and what must hold after them.

kinds, plan, shapes, judge, charges, ranks, healing and table are pure: they draw and judge. hosts,
looks and leftovers look, the modules of acts act, and run brings them together.
"""
