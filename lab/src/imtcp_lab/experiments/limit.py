"""The distance of each control from the line of delayed information, beside web-like traffic.

``limit.py`` computes the line from the foreground's arrivals in each seed's run without a
background.  Each round trip of the background has its own line, because the background learns of
the queue that much later.  All else is as in ``web`` with 1000 packets of buffer.  Results are in
lab/measurements.md.
"""

from __future__ import annotations

import argparse
import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np

from imtcp_lab import figures, measured
from imtcp_lab.engine.joboptions import listed, positive
from imtcp_lab.experiments.base import Experiment, Rows, judged_seconds
from imtcp_lab.experiments.web import CAPACITY_BPS, LOAD, beside_web
from imtcp_lab.limit import Front, harm, line, recorded_bytes
from imtcp_lab.results import Point
from imtcp_lab.scenario import Scenario
from imtcp_lab.stats import ensemble
from imtcp_lab.tables import Column, as_number, as_percent, groups
from imtcp_lab.topology import Dumbbell

BUFFER_PKTS = 1000
#: Values of U at which the table shows the line.
TOLD_AT = (0.5, 0.6, 0.7, 0.8, 0.85, 0.9, 0.95)
#: The line needs the foreground's arrivals by the millisecond.
ALONE_EVERY_MS = 1


def _arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--rtts", type=listed(positive), default="15,30,100", help="background RTTs, ms (15,30,100)"
    )
    parser.add_argument("--load", type=positive, default=LOAD, help="web load (0.4)")
    judged_seconds(parser, 20)


def _scenarios(args: argparse.Namespace) -> list[Scenario]:
    out = []
    for rtt_ms in args.rtts:
        path = Dumbbell(
            capacity_bps=CAPACITY_BPS, background_rtt_ms=rtt_ms, buffer_pkts=BUFFER_PKTS
        )
        for seed in args.seed_numbers:
            for control in args.chosen:
                one = beside_web(path, args.load, 1, control, args.measure_s, seed)
                every_ms = ALONE_EVERY_MS if control.is_none else one.queue_every_ms
                variant = f"{rtt_ms:g}ms"
                out.append(dataclasses.replace(one, variant=variant, queue_every_ms=every_ms))
    return out


def _line(alone: Point) -> Front:
    path, window = alone.scenario.path, alone.scenario.window
    rtt_s = path.background_rtt_ms / 1000
    return line(alone.tables, path.foreground_rtts_ms, path.capacity_bps, rtt_s, window)


def _harm_by_queue(point: Point, alone: Point) -> float:
    """I, computed from the queue in the control's run by the line's formula."""
    path, window = point.scenario.path, point.scenario.window
    end_us = round(point.scenario.times.total_s * 1e6)
    queues = [recorded_bytes(p.tables["queue"], end_us) for p in (point, alone)]
    web = alone.tables["web"]
    added = queues[0] - queues[1]
    return float(harm(added, web, path.foreground_rtts_ms, path.capacity_bps, window)[0])


def _rows(points: Sequence[Point]) -> Rows:
    alone = measured.alone_of(points)
    lines = {which: _line(point) for which, point in alone.items()}
    rows = measured.rows(points)
    for row, point in zip(rows, points, strict=True):
        which = (row["variant"], row["seed"])
        row["I_queue"] = _harm_by_queue(point, alone[which])
        row["I_line"] = None if row["U"] is None else lines[which].harm_at(row["U"])
    for (variant, seed), front in lines.items():
        rows += [_told(variant, seed, used, front) for used in TOLD_AT]
    # Keep the rows of a variant together, the line after the controls.
    return sorted(rows, key=lambda row: float(row["variant"].removesuffix("ms")))


def _told(variant: str, seed: int, used: float, front: Front) -> dict[str, Any]:
    control = f"the line at {used:g}"
    harmed = front.harm_at(used)
    return {"variant": variant, "control": control, "seed": seed, "U": used, "I_line": harmed}


def _figures(rows: Rows, points: Sequence[Point]) -> dict[str, bytes]:
    names = {point.scenario.control.name for point in points}
    out = {}
    for (variant,), part in groups(rows, ("variant",)).items():
        told = [row for row in part if row["control"] not in names]
        curve = [
            (ensemble(row["I_line"] for row in same).mean, used)
            for (used,), same in groups(told, ("U",)).items()
        ]
        measured_rows = [row for row in part if row["control"] in names]
        limit = [(i, used) for i, used in curve if np.isfinite(i)]
        out[f"plane-{variant}.png"] = figures.plane(measured_rows, limit=limit)
    return out


EXPERIMENT = Experiment(
    name="limit",
    help="how far every control is from what delayed information allows",
    controls=(
        "none", "reno", "cubic", "bbr", "vegas", "tcp_lp", "cdg", "nv",
        "imtcp", "imtcp_bg", "paper_bg", "imtcp_lp", "imtcp_nice", "imtcp_ledbat",
        "imtcp_ledbatpp", "priority",
    ),
    scenarios=_scenarios,
    rows=_rows,
    columns=(
        Column("U", "U"),
        Column("I_mean", "I mean", as_percent),
        Column("I_queue", "I by its queue", as_percent),
        Column("I_line", "I of the line there", as_percent),
        Column("queue_pkts_mean", "queue, pkts", lambda v: as_number(v, 1)),
    ),
    add_arguments=_arguments,
    figures=_figures,
    seeds=3,
)  # fmt: skip
