"""Statistics over seeds: one number per seed gives a mean and a spread."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

#: Two-sided 95 % points of Student's t for 1…30 degrees of freedom.
_T95 = (
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228,
    2.201, 2.179, 2.160, 2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086,
    2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042,
)  # fmt: skip


def student_t95(degrees: int) -> float:
    """Two-sided 95 % point of Student's t; beyond 30 degrees within 0.1 %."""
    if degrees < 1:
        raise ValueError("a confidence interval needs two values")
    if degrees <= len(_T95):
        return _T95[degrees - 1]
    # First terms of the expansion of t in 1/degrees around the normal quantile.
    z = 1.959964
    return z + (z**3 + z) / (4 * degrees) + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * degrees**2)


@dataclass(frozen=True)
class Ensemble:
    """Mean and spread over seeds, in the unit of the values."""

    count: int
    mean: float
    #: Sample standard deviation (n - 1); NaN for one value.
    deviation: float
    #: Half the width of the 95 % confidence interval of the mean; NaN for one value.
    half_width_95: float
    lowest: float
    highest: float


def ensemble(values: Iterable[float | None]) -> Ensemble:
    """Mean and spread; None and NaN (not measured) do not count."""
    kept = [float(v) for v in values if v is not None and not math.isnan(v)]
    if not kept:
        return Ensemble(0, *(math.nan,) * 5)
    n = len(kept)
    mean = math.fsum(kept) / n
    if n == 1:
        return Ensemble(1, mean, math.nan, math.nan, mean, mean)
    deviation = math.sqrt(math.fsum((v - mean) ** 2 for v in kept) / (n - 1))
    half_width = student_t95(n - 1) * deviation / math.sqrt(n)
    return Ensemble(n, mean, deviation, half_width, min(kept), max(kept))


def quantile(values: Sequence[float], q: float) -> float:
    """Quantile with linear interpolation; NaN without values."""
    if not values:
        return math.nan
    ordered = sorted(values)
    at = q * (len(ordered) - 1)
    low = math.floor(at)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (at - low) * (ordered[high] - ordered[low])


def distance(ones: Sequence[float], others: Sequence[float]) -> float:
    """Kolmogorov's distance: the greatest difference of two distributions, as a share; NaN without
    values."""
    if not ones or not others:
        return math.nan
    a, b = np.sort(ones), np.sort(others)
    at = np.concatenate([a, b])
    shares = (np.searchsorted(x, at, side="right") / len(x) for x in (a, b))
    return float(np.max(np.abs(np.subtract(*shares))))


def jain(shares: Sequence[float]) -> float:
    """Jain's index (Σx)²/(nΣx²): 1 if all are equal, 1/n if one has all."""
    squares = math.fsum(x * x for x in shares)
    if not shares or squares == 0:
        return math.nan
    return math.fsum(shares) ** 2 / (len(shares) * squares)
