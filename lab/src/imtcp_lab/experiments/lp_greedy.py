"""LP-T1: a TCP-LP flow beside one greedy TCP flow."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from imtcp_lab import plots
from imtcp_lab.experiments import lp_path
from imtcp_lab.experiments.base import Experiment, Rows, background_bps, identity
from imtcp_lab.experiments.greedy import rival_bps
from imtcp_lab.experiments.paper import Claim, Paper, below, mean, pick
from imtcp_lab.results import Point
from imtcp_lab.scenario import Scenario
from imtcp_lab.tables import Column, as_percent
from imtcp_lab.traffic import Bulk, Rival, Times, shift_s

CAPACITY_BPS = 10e6


def _scenarios(args: argparse.Namespace) -> list[Scenario]:
    return [
        Scenario(
            lp_path.path(CAPACITY_BPS),
            Rival(congestion_control="reno"),
            # Paper: both at once. Here the foreground is there first, else who draws the lot of
            # the first slow start decides the run.
            Bulk(start_s=5 + shift_s(seed)),
            control,
            Times(warmup_s=20, measure_s=pick(args, 100, 30), drain_s=0.5),
            seed=seed,
        )
        for seed in args.seed_numbers
        for control in args.chosen
    ]


def _rows(points: Sequence[Point]) -> Rows:
    out = []
    for point in points:
        window, capacity_bps = point.scenario.window, point.scenario.path.capacity_bps
        out.append(
            identity(point)
            | {
                "lp_share": background_bps(point) / capacity_bps,
                "tcp_share": rival_bps(point, window) / capacity_bps,
            }
        )
    return out


def _judge(rows: Sequence[dict]) -> list[Claim]:
    ours = mean(rows, "lp_share", control="imtcp_lp")
    alone = mean(rows, "tcp_share", control="none")
    beside = mean(rows, "tcp_share", control="imtcp_lp")
    return [
        below("the share of imtcp_lp", ours, "twice the paper's 2.7 % =", 0.054, 3),
        Claim(f"and {ours:.3f} is a third of it or more", ours >= 0.009),
        below("what TCP loses", alone - beside, "twice that share =", 0.054, 3),
        below("imtcp_lp's share", ours, "half of a second Reno's =",
              mean(rows, "lp_share", control="reno") / 2, 3),
    ]  # fmt: skip


EXPERIMENT = Experiment(
    name="LP-T1",
    help="TCP-LP beside one greedy TCP flow",
    controls=("none", "reno", "tcp_lp", "imtcp_lp", "imtcp_bg"),
    scenarios=_scenarios,
    rows=_rows,
    columns=(
        Column("lp_share", "background's share", as_percent),
        Column("tcp_share", "TCP's share", as_percent),
    ),
    by=("control",),
    paper=Paper(
        source="[LP §V-A, table I, first row]",
        expected="Beside one greedy TCP flow TCP-LP gets 2.7 % of the link.",
        choices="10 Mbit/s (the paper does not say which of its two links); TCP is Reno and starts"
        " 5 s before; 100 s of each run are judged, not 1000. The second row, with ten"
        " flows in the other direction, is not run: this path is narrow in one direction only.",
        judge=_judge,
        draw=lambda rows, theme: plots.bars(rows, "lp_share", "share of the link", theme),
    ),
)
