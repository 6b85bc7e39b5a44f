"""Artificial days of available bandwidth, shaped like the thesis's measurements [EN §5.5.1].

The thesis does not publish its trace, but some of its tables and figures give points of it. Tables
3, 6 and 9 have TCP's throughput at five times of day. Tables 4, 7 and 10 show when the advice
switched; figures 9, 11 and 13 also show it. At those times the trace crosses the threshold of
42 Mbit/s. :data:`SHAPE` passes through all these points.
"""

from __future__ import annotations

import itertools
import random
from datetime import UTC, datetime, timedelta

from imtcp_lab.loss_schedule import Trace

#: (hour, Mbit/s) of the slightly congested network, joined by straight lines, also over midnight.
SHAPE = (
    (0.25, 41.2), (3.25, 41.2), (4.0, 43.0), (5.0, 46.0), (7.0, 52.0), (8.5, 52.5), (12.0, 48.0),
    (14.4, 42.5), (14.8, 41.0), (15.2, 43.0), (16.5, 45.5), (20.0, 45.0), (21.5, 42.5),
    (21.9, 41.0), (22.4, 42.5), (23.5, 42.5),
)  # fmt: skip
#: Ours: standard deviation of a day from the shape. The shape lies below the threshold by at most
#: this much, so a day may be above the threshold where the thesis's was below.
DEVIATION_MBPS = 1.0
STEP_S, MEMORY_S = 300, 1800
#: Ours: the more congested networks have this much less at all times, like their thresholds.  The
#: thesis limited its data to 40 and 25 Mbit/s, and does not say how [EN §5.5.1].
LEVEL_STEP_MBPS = 15.0
#: [EN tables 2, 5 and 8]: Mbit/s, by the least share of the line in use (per cent).
THRESHOLD_MBPS = {45: 42.0, 60: 27.0, 75: 12.0}


def shape_mbps(hour: float) -> float:
    """The mean over all days, in Mbit/s."""
    first, last = SHAPE[0], SHAPE[-1]
    knots = ((last[0] - 24, last[1]), *SHAPE, (first[0] + 24, first[1]))
    for (left, low), (right, high) in itertools.pairwise(knots):
        if left <= hour <= right:
            return low + (high - low) * (hour - left) / (right - left)
    raise ValueError(f"a day has 24 hours: {hour}")


def trace(first: datetime, days: int, least_used_pct: int, seed: int) -> Trace:
    """One record every five minutes, from midnight of the first day on."""
    less = LEVEL_STEP_MBPS * sorted(THRESHOLD_MBPS).index(least_used_pct)
    chance = random.Random(seed)
    memory = 1 - STEP_S / MEMORY_S
    news = DEVIATION_MBPS * (1 - memory**2) ** 0.5
    differs = chance.gauss(0, DEVIATION_MBPS)
    out = []
    for n in range(days * 86400 // STEP_S):
        at_s = n * STEP_S
        mbps = shape_mbps(at_s % 86400 / 3600) - less + differs
        out.append((first + timedelta(seconds=at_s), max(0.0, mbps) * 1e6))
        differs = memory * differs + chance.gauss(0, news)
    return out


def at(hour: int, minute: int, day: datetime = datetime(2026, 1, 30, tzinfo=UTC)) -> datetime:
    """A time on the day of the tests, a Friday."""
    return day + timedelta(hours=hour, minutes=minute)
