"""The pause after something has failed: longer each time, and not the same for all that failed together."""

import random

from dijob.core.backoff import doubled


def jittered(times: int, bounds: tuple[float, float]) -> float:
    """Seconds to wait after so many failures in a row, a fifth more or less."""
    return doubled(times, bounds) * random.uniform(0.8, 1.2)
