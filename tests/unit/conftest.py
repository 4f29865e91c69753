"""Hypothesis for the unit tests: the same examples on every run; `--hypothesis-profile=search` looks for new ones."""

from hypothesis import HealthCheck, settings

COMMON = settings(deadline=None, database=None, suppress_health_check=[HealthCheck.too_slow])

settings.register_profile("dijob", COMMON, max_examples=100, derandomize=True)
settings.register_profile("search", COMMON, max_examples=5000, derandomize=False, print_blob=True)
settings.load_profile("dijob")
