"""Configures the unit tests. Hypothesis uses the same examples in every run;
`--hypothesis-profile=search` looks for new ones. Tests marked `virtual_time` run in an event loop
that never waits.
"""

import asyncio
import gc
from collections.abc import Callable

import pytest
from hypothesis import HealthCheck, settings
from simulator.virtual import VirtualLoop

COMMON = settings(deadline=None, database=None, suppress_health_check=[HealthCheck.too_slow])

settings.register_profile("dijob", COMMON, max_examples=60, derandomize=True)
settings.register_profile("search", COMMON, max_examples=5000, derandomize=False, print_blob=True)
settings.load_profile("dijob")


def pytest_asyncio_loop_factories(
    item: pytest.Item,
) -> dict[str, Callable[[], asyncio.AbstractEventLoop]]:
    if item.get_closest_marker("virtual_time"):
        return {"virtual": VirtualLoop}
    return {"real": asyncio.new_event_loop}


def pytest_collection_finish() -> None:
    """Exclude all imported objects from garbage collections: they live as long as the process."""
    gc.collect()
    gc.freeze()
