"""A short soak test (make soak: half an hour) of two operators with random jobs and faults."""

import asyncio

import pytest
from faults.soak.__main__ import on_own_plane
from faults.soak.results import table

pytestmark = [pytest.mark.apiserver, pytest.mark.long]

# Figures of time and memory require a longer run on an idle machine.
MINUTES, SEED, LEAST_JOBS = 1.0, 7, 10


def test_with_random_faults_all_jobs_run_and_nothing_leaks() -> None:
    soaked = asyncio.run(on_own_plane(MINUTES, SEED))
    print(table(soaked))
    assert (soaked.leaks, soaked.wrong) == ([], [])
    assert soaked.jobs >= LEAST_JOBS
