"""Exponential back-off."""


def doubled_wait(times: int, bounds: tuple[float, float]) -> float:
    """Return how many seconds to wait after this many consecutive failures: the lower bound, twice
    that, and so on, up to the upper bound.
    """
    first, last = bounds
    # The exponent is bounded, because 2.0 ** 1024 raises OverflowError.
    return min(last, first * 2.0 ** min(times - 1, 30))
