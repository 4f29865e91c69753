"""The soak in little (make soak: half an hour): jobs and faults come and go on two operators."""

import asyncio

import pytest
from faultbench.soak import on_own_plane
from faultbench.soaked import table

pytestmark = pytest.mark.apiserver

# Figures of time and memory need a longer one on a quiet machine.
MINUTES, SEED, LEAST_JOBS = 2.0, 7, 10


def test_whatever_befalls_two_operators_all_jobs_run_and_nothing_leaks() -> None:
    soaked = asyncio.run(on_own_plane(MINUTES, SEED))
    print(table(soaked))
    assert (soaked.leaks, soaked.wrong) == ([], [])
    assert soaked.jobs >= LEAST_JOBS
