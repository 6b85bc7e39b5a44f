"""Paths like those that people use: the harm of each control to the web, a call or a greedy flow.

U is as in ``scoreboard``; on a path that changes, it counts from the mean capacity.  Harm depends
on the foreground:

web     mean time of the objects over that without a background, less 1
call    added milliseconds at the 95th and the 99th percentile of its packets' delay, and the
        share of packets that only the run with the background loses
greedy  goodput without a background over goodput beside it, less 1

A peer *beats* a control if the 95 % intervals of both U and harm are apart in its favour.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence

import polars as pl

from imtcp_lab import everyday
from imtcp_lab.controls import CONTROLS, Control
from imtcp_lab.experiments.base import Experiment, Rows, judged_seconds
from imtcp_lab.experiments.scoreboard import harm_and_use
from imtcp_lab.measured import alone_of
from imtcp_lab.metrics import Window, counted, delay_quantile_s
from imtcp_lab.results import Point
from imtcp_lab.scenario import Scenario
from imtcp_lab.stats import ensemble
from imtcp_lab.tables import Column, as_number, as_percent, groups, text_table
from imtcp_lab.topology import Dumbbell
from imtcp_lab.traffic import Bulk, Foreground, Rival, Times, Web, call, shift_s

#: The control that is compared with its peers.
OURS = "imtcp_bg"

FOREGROUNDS: dict[str, Foreground] = {
    "web": Web(load=0.4),
    "call": call(),
    "reno": Rival("reno"),
    "cubic": Rival("cubic"),
    "bbr": Rival("bbr"),
}


def _arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--paths", default=",".join(everyday.EVERYDAY), metavar="A,B,…", help="which (all)"
    )
    parser.add_argument(
        "--foreground", choices=sorted(FOREGROUNDS), default="web", help="whose path it is (web)"
    )
    parser.add_argument("--flows", type=int, default=1, help="connections of the background (1)")
    judged_seconds(parser, 20)


def _has(path: Dumbbell, control: Control) -> bool:
    """Strict priority is an ideal only on a link with a constant rate."""
    return not (control.priority and path.changes)


def _ideal(path: Dumbbell, control: Control) -> Control:
    """Beside random loss, CUBIC under strict priority is no ideal, but BBR is."""
    return CONTROLS["priority_bbr"] if control.priority and path.loss_pct else control


def _scenarios(args: argparse.Namespace) -> list[Scenario]:
    out = []
    for name in everyday.named(args.paths):
        kind = everyday.EVERYDAY[name]
        for seed in args.seed_numbers:
            path = kind.path(seed)
            out += [
                Scenario(
                    path,
                    FOREGROUNDS[args.foreground],
                    Bulk(flows=args.flows, start_s=shift_s(seed)),
                    _ideal(path, control),
                    Times(warmup_s=kind.warmup_s, measure_s=args.measure_s, drain_s=3),
                    seed=seed,
                    variant=name,
                    watch_every_ms=0,
                )
                for control in args.chosen
                if _has(path, control)
            ]
    return out


def _call_harm(beside: pl.DataFrame, alone: pl.DataFrame, window: Window) -> dict[str, float]:
    def later_s(share: float) -> float:
        return delay_quantile_s(beside, window, share) - delay_quantile_s(alone, window, share)

    sent, came = (counted(udp, "packets", window) for udp in (alone, beside))
    return {
        "later_p95_ms": later_s(0.95) * 1e3,
        "later_p99_ms": later_s(0.99) * 1e3,
        "lost": 1 - came / sent if sent else 0.0,
    }


def _rows(points: Sequence[Point]) -> Rows:
    alone = alone_of(points)
    out = []
    for point in points:
        scenario = point.scenario
        reference = alone.get((scenario.variant, scenario.seed))
        if reference is None or scenario.control.is_none:
            continue
        harm, use = harm_and_use(point, reference)
        row = {
            "path": scenario.variant,
            "control": scenario.control.name,
            "seed": scenario.seed,
            "U": use,
            "harm": harm,
        }
        if "udp" in point.tables:
            tables = (run.tables["udp"] for run in (point, reference))
            row |= _call_harm(*tables, scenario.window)
            row["harm"] = row["later_p95_ms"]
        out.append(row)
    return out


def beaten(rows: Rows, control: str) -> list[tuple[str, str]]:
    """The paths, each with a peer, on which the peer's intervals are better on both axes."""
    out = []
    for (path,), of_path in groups(rows, ("path",)).items():
        by_control = groups(of_path, ("control",))
        if (control,) not in by_control:
            continue
        use, harm = _intervals(by_control[(control,)])
        for (peer,), its in by_control.items():
            if CONTROLS[peer].by_run or peer == control or peer.startswith("priority"):
                continue
            peers_use, peers_harm = _intervals(its)
            if peers_use[0] > use[1] and peers_harm[1] < harm[0]:
                out.append((path, peer))
    return out


def _intervals(rows: Sequence[dict]) -> tuple[tuple[float, float], tuple[float, float]]:
    both = (ensemble(row[key] for row in rows) for key in ("U", "harm"))
    use, harm = ((e.mean - e.half_width_95, e.mean + e.half_width_95) for e in both)
    return use, harm


_SHARES = (Column("U", "U"), Column("harm", "harm", as_percent))
_CALL = (
    Column("U", "U"),
    Column("later_p95_ms", "p95 later, ms", lambda v: as_number(v, 1)),
    Column("later_p99_ms", "p99 later, ms", lambda v: as_number(v, 1)),
    Column("lost", "lost", as_percent),
)


def _text(rows: Rows) -> str:
    columns = _CALL if any("later_p95_ms" in row for row in rows) else _SHARES
    lines = [text_table(rows, ("path", "control"), columns)]
    if any(row["control"] == OURS for row in rows):
        found = ", ".join(f"{path} ({peer})" for path, peer in beaten(rows, OURS)) or "none"
        lines.append(f"paths on which a peer's intervals beat those of {OURS}: {found}")
    return "\n\n".join(lines)


EXPERIMENT = Experiment(
    name="everyday",
    help="paths where people are: Wi-Fi, LTE, cable, satellites, small buffers, loss",
    controls=(
        "none", "imtcp_bg", "imtcp_lp", "imtcp_nice", "imtcp_ledbat", "imtcp_ledbatpp", "vegas",
        "nv", "cdg", "bbr", "cubic", "priority",
    ),
    scenarios=_scenarios,
    rows=_rows,
    columns=_SHARES,
    by=("path", "control"),
    add_arguments=_arguments,
    text=_text,
    partial=True,
    seeds=1,
)  # fmt: skip
