"""What the tests of this folder share."""

from fixtures import api, cluster, open_space, pytest_runtest_makereport, shelf, space

__all__ = ["api", "cluster", "open_space", "pytest_runtest_makereport", "shelf", "space"]
