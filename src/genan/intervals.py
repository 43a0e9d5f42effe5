"""How certain a success rate is."""

import math


def wilson(succeeded: int, trials: int, *, z: float = 1.959964) -> tuple[float, float]:
    """Wilson's 95 % interval of a success rate."""
    if trials < 1:
        return 0.0, 1.0
    p, n = succeeded / trials, trials
    middle = (p + z * z / (2 * n)) / (1 + z * z / n)
    half = z / (1 + z * z / n) * math.sqrt(p * (1 - p) / n + z * z / (4 * n * n))
    return max(middle - half, 0.0), min(middle + half, 1.0)
