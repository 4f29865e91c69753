"""How long to wait after something has failed several times in a row."""


def doubled(times: int, bounds: tuple[float, float]) -> float:
    """Seconds to wait after so many failures in a row: the first bound, twice that, ... the last
    bound.
    """
    first, last = bounds
    # 2.0 ** 1024 raises.
    return min(last, first * 2.0 ** min(times - 1, 30))
