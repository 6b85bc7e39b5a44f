"""Does a flow keep going on any path?  Sixteen kinds of path, and the longest stall on each.

Six properties vary together, on paths without other traffic: round trip, capacity, buffer, random
loss, jitter of the ACKs and reordering.  All combinations would be 1024.  These sixteen are an
orthogonal array of strength two: each pair of values of any two properties occurs at least once.
The design can miss an effect of three properties together.

The result is the longest time in a row in which the flow used less than a tenth of the capacity.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import groupby, product

from imtcp_lab.engine.joboptions import positive
from imtcp_lab.experiments.base import Experiment, Rows, background_bps, identity
from imtcp_lab.metrics import foreground_queue_pkts
from imtcp_lab.queues import WayBack
from imtcp_lab.results import Point
from imtcp_lab.scenario import Scenario
from imtcp_lab.series import throughput
from imtcp_lab.tables import Column, as_number
from imtcp_lab.topology import Dumbbell, bdp_pkts
from imtcp_lab.traffic import Bulk, Times, shift_s

RTTS_MS = (5, 30, 100, 300)
CAPACITIES_MBPS = (1, 10, 100, 1000)
BUFFERS_BDP = (0.25, 0.5, 2, 8)
LOSSES_PCT = (0, 0.01, 0.1, 1)
#: Ours: jitter of the ACKs, and delay of packets that others overtake.
JITTER_MS, LATE_MS = 2.0, 2.0
#: A second with less than this share of the capacity is a stall.
STALLED_SHARE = 0.1
BIN_MS = 1000
#: Ours: the smallest buffer. A share of less than a packet would hold nothing.
LEAST_BUFFER_PKTS = 4


def _doubled(value: int) -> int:
    """Twice a number in the field of four elements, in which addition is xor."""
    return (0, 2, 3, 1)[value]


@dataclass(frozen=True)
class Kind:
    """One kind of path."""

    rtt_ms: float
    capacity_mbps: float
    buffer_bdp: float
    loss_pct: float
    jitter: bool
    reordered: bool

    @property
    def name(self) -> str:
        """The name of the kind, from its values."""
        parts = [f"{self.capacity_mbps:g}mbps", f"{self.rtt_ms:g}ms", f"{self.buffer_bdp:g}bdp"]
        parts += [f"loss{self.loss_pct:g}"] if self.loss_pct else []
        parts += ["jitter"] if self.jitter else []
        parts += ["reordered"] if self.reordered else []
        return "-".join(parts)

    def path(self) -> Dumbbell:
        """The path in the laboratory."""
        capacity_bps = self.capacity_mbps * 1e6
        buffer_pkts = self.buffer_bdp * bdp_pkts(capacity_bps, self.rtt_ms / 1e3)
        return Dumbbell(
            capacity_bps=capacity_bps,
            background_rtt_ms=self.rtt_ms,
            buffer_pkts=max(LEAST_BUFFER_PKTS, round(buffer_pkts)),
            loss_pct=self.loss_pct,
            reordered_ms=LATE_MS if self.reordered else 0.0,
            way_back=WayBack(jitter_ms=JITTER_MS if self.jitter else 0.0),
        )


def kinds() -> list[Kind]:
    """The array: columns a, b, a + b, a + 2b, and the two bits of a + 3b."""
    out = []
    for a, b in product(range(4), repeat=2):
        last = a ^ b ^ _doubled(b)
        out.append(
            Kind(
                RTTS_MS[a],
                CAPACITIES_MBPS[b],
                BUFFERS_BDP[a ^ b],
                LOSSES_PCT[a ^ _doubled(b)],
                jitter=bool(last & 1),
                reordered=bool(last & 2),
            )
        )
    return out


def _arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--kinds", default="", help="those whose name has this in it (all)")
    parser.add_argument("--no-loss", action="store_true", help="the same without random loss")
    parser.add_argument(
        "--measure-s", type=positive, default=30, help="seconds, the start's too (30)"
    )


def _scenarios(args: argparse.Namespace) -> list[Scenario]:
    chosen = [replace(k, loss_pct=0) if args.no_loss else k for k in kinds()]
    chosen = [k for k in chosen if args.kinds in k.name]
    if not chosen:
        known = ", ".join(k.name for k in kinds())
        raise ValueError(f"no kind of path has {args.kinds} in its name (known: {known})")
    return [
        Scenario(
            kind.path(),
            None,
            Bulk(start_s=shift_s(seed)),
            control,
            Times(warmup_s=0, measure_s=args.measure_s, drain_s=0.5),
            seed=seed,
            variant=kind.name,
        )
        for kind in chosen
        for seed in args.seed_numbers
        for control in args.chosen
    ]


def longest_stall_s(rates_bps: Sequence[float], capacity_bps: float) -> float:
    """The longest run of bins with too little arrived data."""
    stalls = groupby(rates_bps, lambda rate: rate < STALLED_SHARE * capacity_bps)
    return max((len(list(run)) for stalled, run in stalls if stalled), default=0) * BIN_MS / 1e3


def _rows(points: Sequence[Point]) -> Rows:
    out = []
    for point in points:
        window, capacity_bps = point.scenario.window, point.scenario.path.capacity_bps
        _, rates_bps = throughput(point.tables.get("tcp"), BIN_MS, window.end_us)
        out.append(
            identity(point)
            | {
                "utilisation": background_bps(point) / capacity_bps,
                "stalled_s": longest_stall_s(rates_bps, capacity_bps),
                "queue_pkts_mean": foreground_queue_pkts(point.tables["queue"], window),
            }
        )
    return out


EXPERIMENT = Experiment(
    name="paths",
    help="sixteen kinds of path, from 1 Mbit/s and 5 ms on, and the longest stall on each",
    controls=("imtcp_bg", "reno", "cubic"),
    scenarios=_scenarios,
    rows=_rows,
    columns=(
        Column("utilisation", "utilisation"),
        Column("stalled_s", "longest below a tenth, s", lambda v: as_number(v, 0)),
        Column("queue_pkts_mean", "queue, pkts", lambda v: as_number(v, 1)),
    ),
    add_arguments=_arguments,
    needs_none=False,
    partial=True,
    seeds=1,
)
