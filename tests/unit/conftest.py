"""Hypothesis for the unit tests: the same examples on every run; `--hypothesis-profile=search` looks for new ones."""

from hypothesis import HealthCheck, settings

settings.register_profile(
    "dijob", derandomize=True, deadline=None, database=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.register_profile(
    "search", settings.get_profile("dijob"), derandomize=False, print_blob=True, max_examples=5000
)
settings.load_profile("dijob")
