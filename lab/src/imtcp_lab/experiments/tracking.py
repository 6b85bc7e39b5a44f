"""The error of imtcp's measurements of available bandwidth.

The path has 100 Mbit/s and a round trip of 30 ms; for another capacity all rates change in
proportion.  The cross traffic is one of these:

* UDP of a constant rate, with none or a part of the capacity;
* UDP in steps (the shape of [BG fig. 12]);
* ten TCP flows of 4 Mbit/s, one joining each second (the same shape).

The truth is the capacity less the cross traffic's schedule, in whole frames.  It is exact by
construction; with TCP it is exact once each flow has its rate.  Errors are of valid results, in per
cent of the truth.  A result within :data:`SETTLE_US` after a step does not count, because its
packets saw both rates.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Sequence
from itertools import pairwise

import polars as pl

from imtcp_lab.experiments.base import Experiment, Rows, background_bps, identity
from imtcp_lab.metrics import Window, counted
from imtcp_lab.results import Point
from imtcp_lab.scenario import Scenario
from imtcp_lab.stats import quantile
from imtcp_lab.tables import Column, as_number, as_percent
from imtcp_lab.topology import FRAME_BYTES, PAYLOAD_BYTES, Dumbbell, bdp_pkts
from imtcp_lab.traffic import Bulk, Steady, Times, Udp, shift_s

CAPACITY_BPS = 100e6
#: Packets in the bottleneck's buffer, or two bandwidth-delay products if that is more.
BUFFER_PKTS = 1000
#: For this time after a step, results may rest on packets from before it.
SETTLE_US = 300_000
#: A smoothed value this near to the new truth has found it. Smaller steps do not count.
FOUND_SHARE = 0.2
STEP_S = 8
#: The TCP flows of [BG fig. 12].
FLOWS = 10
FLOW_BPS = 4e6
JOIN_S = 1.0

#: Frame sizes as on backbones: many small, some middling, many full.
MIXED_FRAMES = (90, 90, 590, FRAME_BYTES, FRAME_BYTES)
#: Headers of Ethernet, IPv4 and UDP.
UDP_HEADER_BYTES = 42
#: A schedule of rates: (start in s, bit/s).
Steps = Sequence[tuple[float, float]]
#: Cross traffic by name, at :data:`CAPACITY_BPS`.
CROSS: dict[str, Steps] = {
    "0pct": ((0, 0),),
    "30pct": ((0, 30e6),),
    "60pct": ((0, 60e6),),
    "steps": ((0, 30e6), (STEP_S, 70e6), (2 * STEP_S, 50e6)),
    "tcp": tuple(
        (n * JOIN_S, (n + 1) * FLOW_BPS * FRAME_BYTES / PAYLOAD_BYTES) for n in range(FLOWS)
    ),
}


def _arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--cross", default=",".join(CROSS), help="which of " + " ".join(CROSS))
    parser.add_argument("--capacity-mbps", type=float, default=CAPACITY_BPS / 1e6, help="(100)")
    parser.add_argument("--rtt-ms", type=float, default=30, help="(30)")
    parser.add_argument("--mixed-sizes", action="store_true", help="mixed frame sizes")


def scaled(name: str, capacity_bps: float) -> Steps:
    """Cross traffic with the same shares of another capacity."""
    return tuple((start_s, bps * capacity_bps / CAPACITY_BPS) for start_s, bps in CROSS[name])


def schedule_text(steps: Steps) -> str:
    """The schedule as text for ``imtcp-load udp --schedule``."""
    return ",".join(f"{start_s:g}:{rate_bps:.0f}" for start_s, rate_bps in steps)


def true_available_bps(steps: Steps, t_us: float, capacity_bps: float = CAPACITY_BPS) -> float:
    """Capacity less the schedule's rate at that time."""
    rate_bps = 0.0
    for start_s, step_bps in steps:
        if t_us >= start_s * 1e6:
            rate_bps = step_bps
    return capacity_bps - rate_bps


def _scenarios(args: argparse.Namespace) -> list[Scenario]:
    capacity_bps = args.capacity_mbps * 1e6
    path = Dumbbell(
        capacity_bps=capacity_bps,
        background_rtt_ms=args.rtt_ms,
        buffer_pkts=max(BUFFER_PKTS, round(2 * bdp_pkts(capacity_bps, args.rtt_ms / 1e3))),
    )
    frames = MIXED_FRAMES if args.mixed_sizes else (FRAME_BYTES,)
    out = []
    for name in args.cross.split(","):
        if name not in CROSS:
            raise ValueError(f"unknown cross traffic {name} (known: {', '.join(CROSS)})")
        seconds = 3 * STEP_S if name == "steps" else 12
        cross = (
            Steady(FLOWS, FLOW_BPS * capacity_bps / CAPACITY_BPS, JOIN_S)
            if name == "tcp"
            else Udp(schedule_text(scaled(name, capacity_bps)), frames=frames)
        )
        out += [
            Scenario(
                path,
                cross,
                Bulk(start_s=shift_s(seed)),
                control,
                Times(warmup_s=2, measure_s=seconds - 2, drain_s=0.5),
                seed=seed,
                variant=name,
            )
            for seed in args.seed_numbers
            for control in args.chosen
        ]
    return out


def valid_results(point: Point, steps: Steps) -> pl.DataFrame:
    """Valid measurements in the window, with truth and error."""
    window = point.scenario.window
    capacity_bps = point.scenario.path.capacity_bps
    events = point.tables.get("events")
    if events is None:
        events = pl.DataFrame(schema={"t_us": pl.Int64, "avail_bps": pl.Float64})
    else:
        events = events.filter(pl.col("outcome") == "valid")
    near_step = [
        (pl.col("t_us") >= s * 1e6) & (pl.col("t_us") < s * 1e6 + SETTLE_US) for s, _ in steps[1:]
    ]
    judged = events.filter(
        pl.col("t_us").is_between(window.start_us, window.end_us)
        & pl.col("avail_bps").is_not_null()
        & ~pl.any_horizontal([pl.lit(False), *near_step])
    )
    truth = [true_available_bps(steps, t, capacity_bps) for t in judged["t_us"].to_list()]
    return judged.with_columns(pl.Series("true_bps", truth, dtype=pl.Float64)).with_columns(
        error=pl.col("avail_bps") / pl.col("true_bps") - 1
    )


def large_steps_s(steps: Steps, capacity_bps: float = CAPACITY_BPS) -> list[float]:
    """Times of steps that are large enough to be found."""
    out = []
    for (_, before_bps), (start_s, after_bps) in pairwise(steps):
        truth_bps = capacity_bps - after_bps
        if abs(after_bps - before_bps) > FOUND_SHARE * truth_bps:
            out.append(start_s)
    return out


def time_to_find_us(point: Point, step_s: float) -> float:
    """Time from a step until the smoothed value is near the new truth; NaN if never."""
    events = point.tables.get("events")
    if events is None:
        return math.nan
    capacity_bps = point.scenario.path.capacity_bps
    steps = scaled(point.scenario.variant, capacity_bps)
    truth = true_available_bps(steps, step_s * 1e6, capacity_bps)
    near = events.filter(
        (pl.col("t_us") >= step_s * 1e6)
        & (pl.col("t_us") < (step_s + STEP_S) * 1e6)
        & ((pl.col("smoothed_bps") / truth - 1).abs() <= FOUND_SHARE)
    )
    first = near["t_us"].min()
    return math.nan if first is None else float(first) - step_s * 1e6  # type: ignore[arg-type]


def carried_share(point: Point, steps: Steps) -> float:
    """The share of the planned UDP cross traffic that arrived; NaN without a plan.

    If it is much less than 1, the truth is wrong: the guest's processor was too slow, or the
    bottleneck dropped packets.
    """
    window = point.scenario.window
    udp = point.tables.get("udp")
    capacity_bps = point.scenario.path.capacity_bps
    planned_bps = capacity_bps - mean_available_bps(window, steps, capacity_bps)
    if udp is None or planned_bps <= 0:
        return math.nan
    frames = counted(udp, "bytes", window) + UDP_HEADER_BYTES * counted(udp, "packets", window)
    return frames * 8 / window.seconds / planned_bps


def mean_available_bps(window: Window, steps: Steps, capacity_bps: float) -> float:
    """The truth's mean over the window."""
    times_us = range(window.start_us, window.end_us, 10_000)
    return sum(true_available_bps(steps, t, capacity_bps) for t in times_us) / len(times_us)


def _rows(points: Sequence[Point]) -> Rows:
    out = []
    for point in points:
        window = point.scenario.window
        capacity_bps = point.scenario.path.capacity_bps
        steps = scaled(point.scenario.variant, capacity_bps)
        results = valid_results(point, steps)
        errors = results["error"].to_list()
        sizes = [abs(e) for e in errors]
        events = point.tables.get("events")
        outcomes: dict[str, int] = {}
        if events is not None:
            inside = pl.col("t_us").is_between(window.start_us, window.end_us)
            told = events.filter(inside)["outcome"].value_counts(sort=True)
            outcomes = dict(told.iter_rows())
        ended = sum(outcomes.values())
        spare_bps = mean_available_bps(window, steps, capacity_bps)
        found = [time_to_find_us(point, start_s) for start_s in large_steps_s(steps, capacity_bps)]
        found = [f for f in found if not math.isnan(f)]
        out.append(
            identity(point)
            | {
                "bias": sum(errors) / len(errors) if errors else math.nan,
                "error_median": quantile(sizes, 0.5),
                "error_p90": quantile(sizes, 0.9),
                "results_per_s": len(errors) / window.seconds,
                "valid_share": len(errors) / ended if ended else math.nan,
                "found_s": sum(found) / len(found) / 1e6 if found else math.nan,
                "U": background_bps(point) / spare_bps,
                "carried": carried_share(point, steps),
                "outcomes": outcomes,
            }
        )
    return out


EXPERIMENT = Experiment(
    name="tracking",
    help="error of measured available bandwidth against the truth",
    controls=("imtcp", "imtcp_bg", "paper_bg"),
    scenarios=_scenarios,
    rows=_rows,
    columns=(
        Column("error_median", "error median", as_percent),
        Column("error_p90", "error p90", as_percent),
        Column("bias", "bias", as_percent),
        Column("results_per_s", "results/s", lambda v: as_number(v, 1)),
        Column("valid_share", "valid", as_percent),
        Column("found_s", "step found, s"),
        Column("U", "U"),
        Column("carried", "cross carried", as_percent),
    ),
    add_arguments=_arguments,
    needs_none=False,
)
