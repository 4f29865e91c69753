"""Shared fixtures of the end-to-end tests."""

from fixtures import api, cluster, open_space, pytest_runtest_makereport, shelf, space

__all__ = ["api", "cluster", "open_space", "pytest_runtest_makereport", "shelf", "space"]
