import math

from faircount import Estimate


def agresti_coull(successes: int, entries: int, z: float = 1.96) -> Estimate:
    """A share with the interval of Agresti and Coull (1998); undefined without entries."""
    if entries == 0:
        return Estimate(None, None, None, n=0, unit="entries", level=0.95, method="Agresti-Coull")
    n = entries + z * z
    centre = (successes + z * z / 2) / n
    half = z * math.sqrt(centre * (1 - centre) / n)
    low, high = max(0.0, centre - half), min(1.0, centre + half)
    return Estimate(successes / entries, low, high, n=entries, unit="entries", level=0.95, method="Agresti-Coull")
