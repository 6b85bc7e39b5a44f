#!/usr/bin/env python3
"""Writes a made history for `imtcp-advice import`: minutes of available bandwidth.

A line of 100 Mbit/s has a daily shape. A quarter is used at night, 28 % more about 10 h, and 42 %
more about 20 h (UTC). Weekends have one broad evening peak of 35 %. Noise with a memory of half an
hour lies on it (AR(1), 0.97 a minute, 1.2 % of the line each).
"""

import argparse
import math
import random
from datetime import datetime, timedelta

LINE_BPS = 100e6


def used(at: datetime) -> float:
    """The share of the line that others use on average at this time."""
    hour = at.hour + at.minute / 60

    def peak(height: float, when: float, width: float) -> float:
        return height * math.exp(-(((hour - when) / width) ** 2))

    if at.weekday() >= 5:
        return 0.20 + peak(0.35, 20, 3)
    return 0.25 + peak(0.28, 10, 2.5) + peak(0.42, 20, 2)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--days", type=int, default=42)
    parser.add_argument("--end", default="2026-03-20T14:30:00+00:00", help="RFC 3339")
    args = parser.parse_args()
    chance, noise = random.Random(args.seed), 0.0
    end = datetime.fromisoformat(args.end)
    print("time,available_bps,capacity_bps,rtt_us")
    for back in range(args.days * 1440, -1, -1):
        at = end - timedelta(minutes=back)
        noise = 0.97 * noise + chance.gauss(0, 0.012)
        share = min(1.0, max(0.01, 1 - used(at) - noise))
        rtt_us = 30_000 + 4_000 * (1 - share)
        print(f"{at.isoformat()},{LINE_BPS * share:.0f},{LINE_BPS:.0f},{rtt_us:.0f}")


if __name__ == "__main__":
    main()
