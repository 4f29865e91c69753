"""Hooks for all tests. This file only imports them: mypy skips it, because tests/e2e/conftest.py
has the same module name.
"""

from run_setup import pytest_configure
from workers import pytest_sessionstart, pytest_unconfigure

__all__ = ["pytest_configure", "pytest_sessionstart", "pytest_unconfigure"]
