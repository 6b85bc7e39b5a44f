"""LP-F6: the greatest ratio of round trips at which TCP-LP yields before TCP loses a packet.

The model and its derivation are in lab/lp-rtt-ratio.md; the experiment runs nothing.
"""

from __future__ import annotations

import argparse
import itertools
import math
from collections.abc import Sequence

from imtcp_lab import plots
from imtcp_lab.experiments.base import Experiment, Rows
from imtcp_lab.experiments.paper import Claim, Paper
from imtcp_lab.results import Point
from imtcp_lab.scenario import Scenario
from imtcp_lab.tables import Column, as_number

#: 2.5 bandwidth-delay products of the paper's path at 1.5 and at 10 Mbit/s, and a larger buffer.
BUFFERS_PKTS = (15, 99, 400)
#: TCP-LP's delta [LP §III-D], and a ratio that [LP §V-D] relies on.
DELTA, RATIO = 0.15, 3
DELTAS = (0.02, *(i / 100 for i in range(5, 61, 5)))


def greatest_ratio(buffer_pkts: float, delta: float) -> float:
    """h_max = √(2B(1 - √δ)² - 1); NaN if no ratio is small enough."""
    square = 2 * buffer_pkts * (1 - math.sqrt(delta)) ** 2 - 1
    return math.sqrt(square) if square >= 0 else math.nan


def _scenarios(args: argparse.Namespace) -> list[Scenario]:
    return []


def _rows(points: Sequence[Point]) -> Rows:
    return [
        {"buffer": f"{b} packets", "delta": d, "ratio": greatest_ratio(b, d), "seed": 1}
        for b in BUFFERS_PKTS
        for d in DELTAS
    ]


def _judge(rows: Sequence[dict]) -> list[Claim]:
    out = []
    for buffer in dict.fromkeys(row["buffer"] for row in rows):
        curve = {r["delta"]: r["ratio"] for r in rows if r["buffer"] == buffer}
        known = [ratio for ratio in curve.values() if ratio is not None]
        falls = all(a > b for a, b in itertools.pairwise(known))
        out.append(Claim(f"with {buffer} the ratio falls as δ grows", falls))
        out.append(
            Claim(f"and is {curve[DELTA]:.1f} at δ = {DELTA}, at least {RATIO} wanted",
                  curve[DELTA] >= RATIO)
        )  # fmt: skip
    return out


EXPERIMENT = Experiment(
    name="LP-F6",
    help="the model of TCP-LP's round trip ratio (nothing is run)",
    controls=(),
    scenarios=_scenarios,
    rows=_rows,
    columns=(Column("ratio", "greatest ratio", lambda v: as_number(v, 1)),),
    by=("buffer", "delta"),
    needs_none=False,
    seeds=1,
    paper=Paper(
        source="[LP §III-C, figure 6]",
        expected="TCP-LP may have a much longer round trip than TCP and still yield in time; the"
        " smaller δ is, the longer.",
        choices="The paper's inequality is not legible in our copy. Ours is derived from its"
        " assumptions in lab/lp-rtt-ratio.md. The buffers of 15 and 99 packets are those of the"
        " paper's links of 1.5 and 10 Mbit/s.",
        judge=_judge,
        draw=lambda rows, theme: plots.lines(
            rows, "delta", "ratio", "δ", "greatest ratio of round trips", theme, by="buffer"
        ),
    ),
)
