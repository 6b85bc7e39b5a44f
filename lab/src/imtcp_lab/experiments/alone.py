"""Flows on an idle path: the cost of a control without other traffic.

The path has 50 Mbit/s, an RTT of 30 ms and 1000 packets of buffer; 1 and 5 flows run on it.
``--loss-pct`` adds random loss.  Utilisation is goodput, scaled to whole frames, over the capacity.
The queue is the background's own.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Sequence

from imtcp_lab.controls import Control
from imtcp_lab.engine.joboptions import count, listed
from imtcp_lab.experiments.base import (
    Experiment,
    Rows,
    background_bps,
    flow_bytes,
    identity,
    judged_seconds,
)
from imtcp_lab.metrics import drops_pkts, foreground_queue_pkts
from imtcp_lab.results import Point
from imtcp_lab.scenario import Scenario
from imtcp_lab.stats import jain
from imtcp_lab.tables import Column, as_number
from imtcp_lab.topology import Dumbbell
from imtcp_lab.traffic import Bulk, Times, shift_s


def _arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--flows", type=listed(count), default="1,5", help="background flows (1,5)")
    parser.add_argument("--capacity-mbps", type=float, default=50, help="(50)")
    parser.add_argument("--rtt-ms", type=float, default=30, help="(30)")
    parser.add_argument("--buffer-pkts", type=int, default=1000, help="(1000)")
    parser.add_argument("--loss-pct", type=float, default=0, help="lost at random (0)")
    judged_seconds(parser, 20)


def on_idle(path: Dumbbell, flows: int, control: Control, measure_s: float, seed: int) -> Scenario:
    """Greedy flows of a control, alone on the path."""
    return Scenario(
        path,
        None,
        # The path has no other traffic, so the seed shifts the start of the flows.
        Bulk(flows=flows, stagger_s=0.5, start_s=shift_s(seed)),
        control,
        Times(warmup_s=5, measure_s=measure_s, drain_s=0.5),
        seed=seed,
        variant=f"{flows}flows",
    )


def _scenarios(args: argparse.Namespace) -> list[Scenario]:
    path = Dumbbell(
        capacity_bps=args.capacity_mbps * 1e6,
        background_rtt_ms=args.rtt_ms,
        buffer_pkts=args.buffer_pkts,
        loss_pct=args.loss_pct,
    )
    return [
        on_idle(path, flows, control, args.measure_s, seed)
        for flows in args.flows
        for seed in args.seed_numbers
        for control in args.chosen
    ]


def _rows(points: Sequence[Point]) -> Rows:
    out = []
    for point in points:
        window = point.scenario.window
        queue = point.tables["queue"]
        flows = flow_bytes(point)
        out.append(
            identity(point)
            | {
                "utilisation": background_bps(point) / point.scenario.path.capacity_bps,
                "queue_pkts_mean": foreground_queue_pkts(queue, window),
                "drops_pkts": drops_pkts(queue, window),
                "jain": jain(flows) if len(flows) > 1 else math.nan,
            }
        )
    return out


EXPERIMENT = Experiment(
    name="alone",
    help="utilisation, queue and fairness of flows on an idle path",
    controls=(
        "reno",
        "cubic",
        "bbr",
        "vegas",
        "tcp_lp",
        "cdg",
        "nv",
        "imtcp",
        "imtcp_bg",
        "paper_bg",
    ),
    scenarios=_scenarios,
    rows=_rows,
    columns=(
        Column("utilisation", "utilisation", lambda v: as_number(v, 3)),
        Column("queue_pkts_mean", "queue, pkts", lambda v: as_number(v, 1)),
        Column("drops_pkts", "drops, pkts", lambda v: as_number(v, 0)),
        Column("jain", "Jain", lambda v: as_number(v, 3)),
    ),
    add_arguments=_arguments,
    needs_none=False,
)
