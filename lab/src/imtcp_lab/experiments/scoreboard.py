"""Every control on every kind of path, one factor at a time.

The base path has 20 Mbit/s, a round trip of 20 ms, a DropTail queue of four BDP, a web load of 40 %
and one background flow.  Each dimension varies alone, so the cells show which property of a path
changes the order of controls.  This design cannot show an effect of two properties together.  All
combinations (``--full``) would cost over a thousand times as much, and need a cluster.  Only the
background's round trip varies, and the buffer in proportion; the foreground's round trips stay.

Harm to the foreground, I, is what its users would notice, relative to *none*:

web     mean time of the objects, less 1
bulk    goodput without a background over goodput beside it, less 1
voice   mean delay added to a packet, in packet intervals of 20 ms

U is the share of the spare bandwidth that the background uses.  A greedy foreground leaves none, so
U is then the share of the link that both use together.
"""

from __future__ import annotations

import argparse
import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

from imtcp_lab import results, scoreboard
from imtcp_lab.experiments.base import Experiment, Rows, background_bps, judged_seconds
from imtcp_lab.experiments.greedy import rival_bps
from imtcp_lab.measured import alone_of
from imtcp_lab.metrics import mean_delay_s, point_metrics
from imtcp_lab.queues import CAKE, DROPTAIL, FQ_CODEL, RED_ECN, WayBack
from imtcp_lab.results import Point
from imtcp_lab.scenario import Scenario
from imtcp_lab.tables import Column, as_percent
from imtcp_lab.topology import Dumbbell, bdp_pkts
from imtcp_lab.traffic import (
    VOICE_INTERVAL_S,
    Bulk,
    Foreground,
    Rival,
    Times,
    Web,
    shift_s,
    voice,
)

CAPACITY_BPS = 20e6
#: Queue names that mean a shaper's bucket that passes bursts.
BUCKETS = {"bucket-16K": 16 << 10, "bucket-128K": 128 << 10}
#: Ours: a tenth of the base's round trip, and an aggregate of a busy wireless link.
JITTER_MS, BUNCH_MS = 2.0, 4.0
#: Foregrounds by name; the greedy ones leave no spare bandwidth.
FOREGROUNDS: dict[str, Foreground] = {
    "web": Web(load=0.4),
    "reno": Rival("reno"),
    "cubic": Rival("cubic"),
    "bbr": Rival("bbr"),
    "voice": voice(calls=10),
}


@dataclass(frozen=True)
class Cell:
    """One kind of path; the defaults are the base."""

    buffer_bdp: float = 4
    rtt_ms: float = 20
    foreground: str = "web"
    queue: str = DROPTAIL
    flows: int = 1
    thinned: str = "off"
    jitter: str = "off"
    bursts: str = "off"
    loss_pct: float = 0

    @property
    def name(self) -> str:
        """The differences from the base."""
        base = Cell()
        parts = [
            f"{f.name}-{getattr(self, f.name)}"
            for f in fields(self)
            if getattr(self, f.name) != getattr(base, f.name)
        ]
        return "_".join(parts) or scoreboard.BASE

    def path(self) -> Dumbbell:
        """The bottleneck and the paths across it."""
        bdp = bdp_pkts(CAPACITY_BPS, self.rtt_ms / 1e3)
        return Dumbbell(
            capacity_bps=CAPACITY_BPS,
            background_rtt_ms=self.rtt_ms,
            buffer_pkts=max(2, round(self.buffer_bdp * bdp)),
            queue=DROPTAIL if self.queue in BUCKETS else self.queue,
            bucket_bytes=BUCKETS.get(self.queue, 0),
            loss_pct=self.loss_pct,
            way_back=WayBack(
                thinned=self.thinned == "on",
                jitter_ms=JITTER_MS if self.jitter == "on" else 0.0,
                aggregated_ms=BUNCH_MS if self.bursts == "on" else 0.0,
            ),
        )


#: The values of each dimension, the base's first.
DIMENSIONS: dict[str, tuple] = {
    "buffer_bdp": (4, 0.25, 1, 8),
    "rtt_ms": (20, 5, 100, 300),
    "foreground": tuple(FOREGROUNDS),
    "queue": (DROPTAIL, FQ_CODEL, CAKE, RED_ECN, *BUCKETS),
    "flows": (1, 5, 10),
    "thinned": ("off", "on"),
    "jitter": ("off", "on"),
    "bursts": ("off", "on"),
    "loss_pct": (0, 0.1, 1),
}


def cells(dimensions: Sequence[str], full: bool = False) -> list[Cell]:
    """The base and each dimension's other values, or all combinations."""
    if full:
        every = itertools.product(*(DIMENSIONS[d] for d in dimensions))
        return [Cell(**dict(zip(dimensions, values, strict=True))) for values in every]
    varied = [replace(Cell(), **{d: v}) for d in dimensions for v in DIMENSIONS[d][1:]]
    return [Cell(), *varied]


def dimensions_named(text: str) -> list[str]:
    """The dimensions in a comma-separated text."""
    names = text.split(",")
    unknown = [name for name in names if name not in DIMENSIONS]
    if unknown:
        known = ", ".join(DIMENSIONS)
        told = f"unknown dimension {', '.join(unknown)} (known: {known})"
        raise argparse.ArgumentTypeError(told)
    return names


def _arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--dimensions",
        type=dimensions_named,
        default=list(DIMENSIONS),
        metavar="A,B,…",
        help=f"what is varied ({','.join(DIMENSIONS)})",
    )
    parser.add_argument(
        "--full", action="store_true", help="all combinations of them: for a cluster"
    )
    judged_seconds(parser, 10)


def _scenarios(args: argparse.Namespace) -> list[Scenario]:
    return [
        Scenario(
            cell.path(),
            FOREGROUNDS[cell.foreground],
            Bulk(flows=cell.flows, start_s=shift_s(seed)),
            control,
            # On a long path slow start takes long; it is not part of the measurement.
            Times(warmup_s=5 if cell.rtt_ms < 100 else 15, measure_s=args.measure_s, drain_s=2),
            seed=seed,
            variant=cell.name,
            watch_every_ms=0,
        )
        for cell in cells(args.dimensions, args.full)
        for seed in args.seed_numbers
        for control in args.chosen
    ]


def harm_and_use(point: Point, alone: Point) -> tuple[float | None, float | None]:
    """I and U by the definition for this foreground."""
    scenario = point.scenario
    window = scenario.window
    capacity_bps = scenario.path.mean_capacity_bps(window.start_us / 1e6, window.end_us / 1e6)
    if isinstance(scenario.foreground, Rival):
        rival = rival_bps(point, window)
        harm = rival_bps(alone, window) / rival - 1 if rival else None
        return harm, (rival + background_bps(point)) / capacity_bps
    metrics = point_metrics(point.tables, alone.tables, capacity_bps, window)
    if isinstance(scenario.foreground, Web):
        return metrics["I_mean"], metrics["U"]
    delays_s = [mean_delay_s(run.tables["udp"], window) for run in (point, alone)]
    added_s = delays_s[0] - delays_s[1]
    return added_s / VOICE_INTERVAL_S, metrics["U"]


def _rows(points: Sequence[Point]) -> Rows:
    alone = alone_of(points)
    known = {cell.name: cell for cell in cells(list(DIMENSIONS))}
    out = []
    for point in points:
        scenario = point.scenario
        reference = alone.get((scenario.variant, scenario.seed))
        # Without a reference the other controls have no values, so the page lacks them.
        if reference is None or scenario.control.is_none:
            continue
        harm, use = harm_and_use(point, reference)
        cell = known.get(scenario.variant)
        out.append(
            {
                "cell": scenario.variant,
                "control": scenario.control.name,
                "seed": scenario.seed,
                "I_mean": harm,
                "U": use,
                # A combination belongs to no dimension's table.
                "values": {d: getattr(cell, d) for d in DIMENSIONS} if cell else None,
            }
        )
    return out


def pages(
    rows: Sequence[dict], environment: Mapping[str, Any], commits: Sequence[str]
) -> dict[str, bytes]:
    """The pages by file name, from rows measured now or stored."""
    return scoreboard.files(rows, environment, commits, DIMENSIONS)


EXPERIMENT = Experiment(
    name="scoreboard",
    help="U and I of every control over every kind of path, one factor at a time",
    controls=(
        "none", "imtcp_bg", "imtcp_bg_g", "imtcp_lp", "imtcp_lpecn", "imtcp_nice",
        "imtcp_ledbat", "imtcp_ledbatpp", "vegas", "tcp_lp", "cdg", "nv", "bbr", "cubic",
        "priority",
    ),
    scenarios=_scenarios,
    rows=_rows,
    columns=(Column("U", "U"), Column("I_mean", "I", as_percent)),
    by=("cell", "control"),
    add_arguments=_arguments,
    figures=lambda rows, points: pages(
        rows, points[0].meta["environment"] if points else {}, results.commits(points)
    ),
    text=lambda rows: scoreboard.text(rows, DIMENSIONS),
    partial=True,
    seeds=1,
)  # fmt: skip
