"""U and I beside web-like traffic.

The link has 50 Mbit/s, the background a round trip of 30 ms, and the web a load of 40 %.  Two
buffers, 1000 packets and one BDP, are combined with 1 and 5 background flows.  Results are in
lab/measurements.md.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from imtcp_lab import figures, measured
from imtcp_lab.controls import Control
from imtcp_lab.engine.joboptions import count, listed, positive
from imtcp_lab.experiments.base import Experiment, Rows, judged_seconds
from imtcp_lab.results import Point
from imtcp_lab.scenario import Scenario
from imtcp_lab.tables import Column, as_number, as_percent, groups
from imtcp_lab.topology import Dumbbell, bdp_pkts
from imtcp_lab.traffic import Bulk, Times, Web

CAPACITY_BPS = 50e6
RTT_MS = 30.0
LOAD = 0.4


def _buffer(text: str) -> int | None:
    """A buffer in packets; None: one bandwidth-delay product of the path."""
    if text == "bdp":
        return None
    try:
        return count(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is neither packets nor bdp") from None


def _arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--buffers", type=listed(_buffer), default="1000,bdp", help="packets, or bdp (1000,bdp)"
    )
    parser.add_argument("--flows", type=listed(count), default="1,5", help="background flows (1,5)")
    parser.add_argument("--load", type=positive, default=LOAD, help="web load (0.4)")
    parser.add_argument("--rtt-ms", type=float, default=RTT_MS, help="background RTT (30)")
    judged_seconds(parser, 20)


def beside_web(
    path: Dumbbell, load: float, flows: int, control: Control, measure_s: float, seed: int
) -> Scenario:
    """Greedy flows of a control beside web-like traffic."""
    return Scenario(
        path,
        Web(load=load),
        Bulk(flows=flows),
        control,
        Times(warmup_s=5, measure_s=measure_s, drain_s=3),
        seed=seed,
        variant=f"{path.buffer_pkts}pkts-{flows}flows",
    )


def _scenarios(args: argparse.Namespace) -> list[Scenario]:
    bdp = round(bdp_pkts(CAPACITY_BPS, args.rtt_ms / 1e3))
    out = []
    for buffer in args.buffers:
        path = Dumbbell(
            capacity_bps=CAPACITY_BPS,
            background_rtt_ms=args.rtt_ms,
            buffer_pkts=buffer or bdp,
        )
        for flows in args.flows:
            out += [
                beside_web(path, args.load, flows, control, args.measure_s, seed)
                for seed in args.seed_numbers
                for control in args.chosen
            ]
    return out


def _figures(rows: Rows, points: Sequence[Point]) -> dict[str, bytes]:
    return {
        f"plane-{variant}.png": figures.plane(part)
        for (variant,), part in groups(rows, ("variant",)).items()
    }


EXPERIMENT = Experiment(
    name="web",
    help="U and I beside web-like traffic",
    controls=(
        "none", "reno", "cubic", "bbr", "vegas", "tcp_lp", "cdg", "nv",
        "imtcp", "imtcp_bg", "paper_bg", "priority",
    ),
    scenarios=_scenarios,
    rows=measured.rows,
    columns=(
        Column("U", "U"),
        Column("I_mean", "I mean", as_percent),
        Column("I_p95", "I p95", as_percent),
        Column("I_small", "I small", as_percent),
        Column("queue_pkts_mean", "queue, pkts", lambda v: as_number(v, 1)),
        Column("drops_pkts", "drops, pkts", lambda v: as_number(v, 0)),
        Column("jain", "Jain"),
    ),
    add_arguments=_arguments,
    figures=_figures,
)  # fmt: skip
