"""Made days of available bandwidth, in the shape of the thesis's router [EN §5.5.1].

Its trace was never published.  The thesis's tables give some points of it. Tables 3, 6 and 9 have
TCP's throughput at five times of day. Tables 4, 7 and 10 and figures 9, 11 and 13 say when the
advice switched: there the trace crosses the threshold of 42 Mbit/s.  :data:`SHAPE` goes through
these."""

from __future__ import annotations

import itertools
import random
from datetime import UTC, datetime, timedelta

from imtcp_lab.loss_schedule import Trace

#: (hour, Mbit/s) of the slightly congested network, with straight lines between them and over
#: midnight.  Just below the threshold at 0:15, above it from 3:35 on, most at 7:25, below from
#: 14:31 to 15:00 and from 21:40 for half an hour, a little above until midnight.
SHAPE = (
    (0.25, 41.2), (3.25, 41.2), (4.0, 43.0), (5.0, 46.0), (7.0, 52.0), (8.5, 52.5), (12.0, 48.0),
    (14.4, 42.5), (14.8, 41.0), (15.2, 43.0), (16.5, 45.5), (20.0, 45.0), (21.5, 42.5),
    (21.9, 41.0), (22.4, 42.5), (23.5, 42.5),
)  # fmt: skip
#: Ours: what a day differs from the shape, with a memory of half an hour.  The shape is at most as
#: much below the threshold, so a day may be above it where the thesis's was below.
DEVIATION_MBPS = 1.0
STEP_S, MEMORY_S = 300, 1800
#: Ours: the more congested networks have so much less at all times, as their thresholds are so much
#: lower.  The thesis converted its data to at most 40 and 25 Mbit/s, and does not say how
#: [EN §5.5.1].
LEVEL_STEP_MBPS = 15.0
#: [EN tables 2, 5 and 8], by the least used share of the line.
THRESHOLD_MBPS = {45: 42.0, 60: 27.0, 75: 12.0}


def shape_mbps(hour: float) -> float:
    """The mean of all days."""
    first, last = SHAPE[0], SHAPE[-1]
    knots = ((last[0] - 24, last[1]), *SHAPE, (first[0] + 24, first[1]))
    for (left, low), (right, high) in itertools.pairwise(knots):
        if left <= hour <= right:
            return low + (high - low) * (hour - left) / (right - left)
    raise ValueError(f"a day has 24 hours: {hour}")


def trace(first: datetime, days: int, least_used_pct: int, seed: int) -> Trace:
    """Records of five minutes from a midnight on."""
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
    """A time of the day of the tests, a Friday."""
    return day + timedelta(hours=hour, minutes=minute)
