"""BG-F4, F5, F6: the choice of gamma and delta of ImTCP-bg."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from dataclasses import replace

import polars as pl

from imtcp_lab import measured, plots, raw
from imtcp_lab.experiments import bg_path
from imtcp_lab.experiments.base import Experiment, Rows
from imtcp_lab.experiments.paper import (
    Claim,
    Paper,
    below,
    grows,
    less,
    mean,
    pick,
    values,
)
from imtcp_lab.results import Point
from imtcp_lab.scenario import Scenario
from imtcp_lab.stats import ensemble
from imtcp_lab.tables import Column, as_number, as_percent
from imtcp_lab.traffic import Bulk

GAMMAS = (0.05, 0.1, 0.125, 0.25, 0.5, 0.9)
DELTAS = (1.05, 1.1, 1.2, 1.4, 2.0)
CHOICES = (
    bg_path.CHOICES + bg_path.JUDGED + " The control is paper_bg; each segment leaves by itself."
)


def _sweep(
    name: str, full: tuple[float, ...], quick: tuple[float, ...],
    flows: tuple[int, ...], quick_flows: tuple[int, ...],
) -> Callable[[argparse.Namespace], list[Scenario]]:  # fmt: skip
    def scenarios(args: argparse.Namespace) -> list[Scenario]:
        return [
            bg_path.scenario(
                args,
                Bulk(flows=count, params=(f"{name}={value:g}",)),
                control,
                seed,
                f"{name}{value:g}-{count}flows",
            )
            for value in pick(args, full, quick)
            for count in pick(args, flows, quick_flows)
            for seed in args.seed_numbers
            for control in args.chosen
        ]

    return scenarios


def _rows(points: Sequence[Point]) -> Rows:
    out = []
    for point, row in zip(points, measured.rows(points), strict=True):
        if point.scenario.control.is_none:
            continue
        background = point.scenario.background
        assert isinstance(background, Bulk)
        name, value = background.params[0].split("=")
        out.append(row | {name: float(value), "flows": background.flows})
    return out


COLUMNS = (
    Column("U", "U"),
    Column("I_mean", "I mean", as_percent),
    Column("queue_pkts_mean", "queue, pkts", lambda v: as_number(v, 1)),
)


def _judge_gamma(rows: Sequence[dict]) -> list[Claim]:
    least, *_, most = values(rows, "gamma")
    return [
        less(f"U at gamma = {most:g}", mean(rows, "U", gamma=most), f"U at {least:g}",
             mean(rows, "U", gamma=least)),
    ]  # fmt: skip


def _judge_delta(rows: Sequence[dict]) -> list[Claim]:
    out = []
    for flows in values(rows, "flows"):
        where = bg_path.flows_told(flows)
        for key, what, digits in (("U", "U", 2), ("queue_pkts_mean", "the queue, in packets,", 1)):
            found = [mean(rows, key, delta=delta, flows=flows) for delta in values(rows, "delta")]
            out.append(grows(f"{where}: {what} grows with delta", found, digits))
    return out


def _window_scenarios(args: argparse.Namespace) -> list[Scenario]:
    made = _sweep("gamma", (0.1, 0.9), (0.1, 0.9), (1,), (1,))(args)
    return [replace(scenario, watch_every_ms=100) for scenario in made]


def _windows(point: Point) -> pl.DataFrame:
    """Window and cap in the measured part, while a cap exists."""
    window, watch = point.scenario.window, point.tables.get("watch")
    if watch is None:
        return pl.DataFrame(schema=raw.WATCH_COLUMNS)
    inside = pl.col("t_us").is_between(window.start_us, window.end_us)
    return watch.filter(inside & pl.col("cap_segs").is_not_null()).sort("t_us")


def _window_rows(points: Sequence[Point]) -> Rows:
    kept = [point for point in points if not point.scenario.control.is_none]
    out = []
    for point, row in zip(kept, _rows(points), strict=True):
        seen = _windows(point)
        caps = seen["cap_segs"]
        change = caps.diff().abs().mean()
        out.append(
            row
            | {
                "label": f"gamma = {row['gamma']:g}",
                "cap_pkts": caps.mean(),
                "cap_change": None if change is None else change / caps.mean(),
                "lines": [
                    {
                        "name": name,
                        "t_s": [round(t / 1e6, 2) for t in seen["t_us"].to_list()],
                        "value": [round(v, 1) for v in seen[column].to_list()],
                    }
                    for name, column in (("window", "cwnd_segs"), ("its cap", "cap_segs"))
                ],
            }
        )
    return out


def _judge_windows(rows: Sequence[dict]) -> list[Claim]:
    least, most = values(rows, "gamma")
    calm, hasty = (mean(rows, "cap_change", gamma=g) for g in (least, most))
    share = ensemble(
        ensemble(row["lines"][0]["value"]).mean / row["cap_pkts"]
        for row in rows
        if row["gamma"] == least and row["cap_pkts"]
    ).mean
    windows = [
        ensemble(ensemble(r["lines"][0]["value"]).mean for r in rows if r["gamma"] == gamma).mean
        for gamma in (least, most)
    ]
    return [
        less(f"the mean window at gamma = {most:g}, in packets,", windows[1], f"at {least:g}",
             windows[0], 1),
        Claim(f"at gamma = {least:g} the window is {share:.2f} of the cap on the mean, at least 0.8"
              " wanted",
              share >= 0.8),
        below(f"the cap's change between two samples at gamma = {least:g}, over its mean,",
              calm, f"half of the change at {most:g}", hasty / 2, 3),
    ]  # fmt: skip


WINDOWS = Experiment(
    name="BG-F4",
    help="the window and its cap over time, for a small and a large gamma",
    controls=("none", "paper_bg"),
    scenarios=_window_scenarios,
    rows=_window_rows,
    columns=(
        Column("cap_pkts", "cap, pkts", lambda v: as_number(v, 1)),
        Column("cap_change", "its change in 0.1 s", as_percent),
        Column("U", "U"),
    ),
    by=("gamma",),
    seeds=3,
    paper=Paper(
        source="[BG §4.1.1, figure 4]",
        expected="With gamma of 0.1 the cap is steady and the window follows it. With 0.9 the cap"
        " jumps with every result, and the window tends to be smaller.",
        choices=CHOICES + " Window and cap are sampled every 100 ms. 'The window follows' means at"
        " least 0.8 of the cap.",
        reason="Valid results show the capacity, not the available bandwidth: 51 of 50 Mbit/s on"
        " average, and nine in ten are above 47.9. A stream of five packets takes about a"
        " millisecond, and meets one packet of the web or none (IM-F8 shows it with smaller"
        " packets). So the cap is the whole link, 126 packets, and the rule for the round trip"
        " limits the window to 0.31 of it. Gamma has nothing to smooth: from sample to sample the"
        " cap changes by 0.5 % with the small gamma, and by 3.7 % with the large one.",
        judge=_judge_windows,
        draw=lambda rows, theme: plots.over_time(rows, "lines", "packets", theme, title="label"),
    ),
)

GAMMA = Experiment(
    name="BG-F5",
    help="utilisation against gamma, the weight of a new result",
    controls=("none", "paper_bg"),
    scenarios=_sweep("gamma", GAMMAS, (0.1, 0.9), (1,), (1,)),
    rows=_rows,
    columns=COLUMNS,
    by=("gamma",),
    seeds=3,
    paper=Paper(
        source="[BG §4.1.1, figure 5]",
        expected="Utilisation of the available bandwidth falls as gamma grows; the thesis chooses"
        " 1/8.",
        choices=CHOICES,
        reason="Nearly all results show the capacity (BG-F4), so the cap is the whole link for"
        " each gamma. The rule for the round trip limits the window, and gamma has no part in it."
        " Gamma matters only if results scatter to both sides of the available bandwidth A. The"
        " thesis's results do: a low one cuts the window at once, and a high one gives back one"
        " packet per round trip [BG §4.1.1]. The control itself shows this with results of which"
        " half are below A and half above, each by half of A. Then its mean window falls from 0.99"
        " of A RTTmin with gamma 0.05 to 0.56 with 0.9. With equal results it is 1.00"
        " (core/tests/test_paper.c). Some changes did not make results scatter to both sides here"
        " (two seeds each): cross traffic of small packets, jitter of 1 ms, round trips of 100 and"
        " 200 ms, and delta = 4.",
        judge=_judge_gamma,
        draw=lambda rows, theme: plots.lines(
            rows, "gamma", "U", "gamma", "U: share of the available bandwidth", theme
        ),
    ),
)

DELTA = Experiment(
    name="BG-F6",
    help="utilisation and queue against delta, the ratio of round trips that is congestion",
    controls=("none", "paper_bg"),
    scenarios=_sweep("delta", DELTAS, (1.05, 2.0), (1, 2, 5, 10), (1,)),
    rows=_rows,
    columns=COLUMNS,
    by=("flows", "delta"),
    seeds=3,
    paper=Paper(
        source="[BG §4.1.2, figure 6]",
        expected="Utilisation and queue grow with delta, for 1 to 10 flows; the thesis chooses"
        " 1.2.",
        choices=CHOICES,
        judge=_judge_delta,
        draw=lambda rows, theme: plots.lines(
            rows,
            "delta",
            "U",
            "delta",
            "U: share of the available",
            theme,
            by="flows",
            below=[("queue_pkts_mean", "queue, packets")],
        ),
    ),
)
