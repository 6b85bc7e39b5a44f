"""Beside one greedy foreground flow: does the background leave the link to it?

The path has 50 Mbit/s, round trips of 30 ms for both, and 1000 packets of buffer.  A greedy flow
leaves no spare bandwidth.  So the columns are shares of the capacity, and the foreground's loss
against the run without a background.  Then the foreground ends, and the experiment measures how
soon the background has the link.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from imtcp_lab import series
from imtcp_lab.controls import CONTROLS
from imtcp_lab.engine.joboptions import listed
from imtcp_lab.experiments.base import Experiment, Rows, background_bps, identity, judged_seconds
from imtcp_lab.job import LabError
from imtcp_lab.measured import alone_of
from imtcp_lab.metrics import Window, counted, foreground_queue_pkts, goodput_bps
from imtcp_lab.results import Point
from imtcp_lab.scenario import Scenario
from imtcp_lab.tables import Column, as_number, as_percent
from imtcp_lab.topology import Dumbbell
from imtcp_lab.traffic import Bulk, Rival, Times

#: Seconds after the foreground's end.
AFTER_S = 5.0
#: The background is back at this share of the capacity for half a second.
BACK_SHARE = 0.9
BACK_BINS = 5
BIN_MS = 100


def _rival(name: str) -> str:
    """Checks the name of one of the kernel's own controls."""
    known = [
        c.name for c in CONTROLS.values() if c.congestion_control == c.name and not c.needs_imtcp
    ]
    if name not in known:
        raise argparse.ArgumentTypeError(f"unknown rival {name} (known: {', '.join(known)})")
    return name


def _arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--rivals", type=listed(_rival), default="reno,cubic", help="foreground (reno,cubic)"
    )
    parser.add_argument("--buffer-pkts", type=int, default=1000, help="(1000)")
    judged_seconds(parser, 20)


def _scenarios(args: argparse.Namespace) -> list[Scenario]:
    path = Dumbbell(background_rtt_ms=30, foreground_rtts_ms=(30.0,), buffer_pkts=args.buffer_pkts)
    times = Times(warmup_s=10, measure_s=args.measure_s, drain_s=AFTER_S)
    return [
        Scenario(
            path,
            Rival(congestion_control=rival, end_s=times.active_s),
            # The foreground starts first, as most traffic to be protected does.
            Bulk(start_s=2.0),
            control,
            times,
            seed=seed,
            variant=rival,
        )
        for rival in args.rivals
        for seed in args.seed_numbers
        for control in args.chosen
    ]


def rival_bps(point: Point, window: Window) -> float:
    """Goodput of the foreground in whole frames."""
    return goodput_bps(counted(point.tables["rival"], "bytes", window), window)


def back_s(point: Point) -> float:
    """Seconds from the foreground's last byte until the background has 90 % of the capacity.

    It must keep that for half a second. If it never does: the time until the run's end.
    """
    rival = point.tables["rival"]
    end_us = int(rival.filter(rival["bytes"] > 0)["t_us"].max())  # type: ignore[arg-type]
    total_us = round(point.scenario.times.total_s * 1e6)
    times, rates = series.throughput(point.tables.get("tcp"), BIN_MS, total_us)
    least_bps = BACK_SHARE * point.scenario.path.capacity_bps
    for i, middle_s in enumerate(times[: len(times) - BACK_BINS + 1]):
        start_s = middle_s - BIN_MS / 2000
        if start_s >= end_us / 1e6 and sum(rates[i : i + BACK_BINS]) >= least_bps * BACK_BINS:
            return start_s - end_us / 1e6
    return (total_us - end_us) / 1e6


def _rows(points: Sequence[Point]) -> Rows:
    alone = alone_of(points)
    out = []
    for point in points:
        scenario = point.scenario
        reference = alone.get((scenario.variant, scenario.seed))
        if reference is None:
            raise LabError(f"{scenario.key} has no run without background to compare with")
        window, capacity_bps = scenario.window, scenario.path.capacity_bps
        rival = rival_bps(point, window)
        out.append(
            identity(point)
            | {
                "share": background_bps(point) / capacity_bps,
                "rival_share": rival / capacity_bps,
                "rival_loss": 1 - rival / rival_bps(reference, window),
                "back_s": None if scenario.control.is_none else back_s(point),
                "queue_pkts_mean": foreground_queue_pkts(point.tables["queue"], window),
            }
        )
    return out


EXPERIMENT = Experiment(
    name="greedy",
    help="shares beside one greedy Reno or CUBIC flow",
    controls=(
        "none", "reno", "cubic", "bbr", "vegas", "tcp_lp", "cdg", "nv",
        "imtcp", "imtcp_bg", "paper_bg", "priority",
    ),
    scenarios=_scenarios,
    rows=_rows,
    columns=(
        Column("share", "background's share"),
        Column("rival_share", "foreground's share"),
        Column("rival_loss", "foreground's loss", as_percent),
        Column("back_s", f"back at 90 %, s (of {AFTER_S:g})"),
        Column("queue_pkts_mean", "queue, pkts", lambda v: as_number(v, 1)),
    ),
    add_arguments=_arguments,
)  # fmt: skip
