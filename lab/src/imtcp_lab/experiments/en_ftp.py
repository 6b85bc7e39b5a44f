"""EN-T3, EN-T13, EN-T20: a file by FTP with congestion control, without it, and with advice."""

from __future__ import annotations

import argparse
import itertools
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import polars as pl

from imtcp_lab import plots
from imtcp_lab.controls import NONE
from imtcp_lab.day import LEVEL_STEP_MBPS
from imtcp_lab.experiments.base import Experiment, Rows
from imtcp_lab.experiments.en_ftp_claims import (
    ADVICE,
    CC,
    HISTORIES,
    LEAST_USED_PCT,
    NOCC,
    TIMES_OF_DAY,
    TOLERANCE,
    judge_history,
    judge_load,
    judge_others,
    tenths,
)
from imtcp_lab.experiments.paper import Paper, pick
from imtcp_lab.ftp import FILE_BYTES, FRESH_S, TIMES_FASTER, FtpScenario
from imtcp_lab.ftp_path import LINK_BPS, TIMES_SLOWER, FtpPath
from imtcp_lab.results import Point
from imtcp_lab.scenario import Scenario
from imtcp_lab.stats import ensemble
from imtcp_lab.tables import Column, as_number, as_percent
from imtcp_lab.traffic import Times

#: Length of the run in which the other flows are alone, in the laboratory's seconds.
ALONE_S = 20.0

CHOICES = (
    "The trace is made (`day.py`): the thesis's is not public. In the more congested networks it"
    f" has {LEVEL_STEP_MBPS:g} and {2 * LEVEL_STEP_MBPS:g} Mbit/s less at all times, by which the"
    " thresholds are lower; how the thesis converted its own, to at most 40 and 25 Mbit/s, it does"
    f" not say. Time runs {TIMES_FASTER} times faster (trace, file, history, the service's horizon"
    f" and freshness) and rates are {TIMES_SLOWER} times lower (link, trace, file, buffers); rates"
    " and minutes are shown as the thesis's network would have them. Congestion control (CC) is"
    " Reno, as in the thesis's Linux 2.4, and NOCC is imtcp_nocc; its delays are taken as round"
    " trips, as in its equation. The thesis does not say ε: 2 % of the bandwidth, which asks about"
    " as often as its table 4. It asks again after τ alone; ours also when off ends, for off holds"
    f" only while the newest record is less than {FRESH_S // 60} minutes old, and one comes every"
    f" five. The link's queue is not told either: {FtpPath().buffer_pkts} packets, two round trips"
    f" of the server's. A number of the thesis's is met within {as_percent(TOLERANCE)}, which is"
    " ours. A Friday after 28 past days; each seed is another trace."
)


def _asked(
    args: argparse.Namespace,
    levels: Iterable[int],
    methods: Iterable[str],
    *,
    histories: Sequence[str] = ("all",),
    flows: Iterable[int] = (0,),
) -> list[Scenario]:
    times = pick(args, TIMES_OF_DAY, ((14, 25),))
    chosen = {control.name: control for control in args.chosen}
    out = []
    for used, (hour, minute), others, method in itertools.product(levels, times, flows, methods):
        control = chosen.get("reno" if method == CC else "imtcp_nocc")
        if control is None:
            continue
        rate_bps = (100 - used) / 100 * LINK_BPS if method == CC else LINK_BPS
        for history in histories if method == ADVICE else ("",):
            name = "-".join(filter(None, (method, history if len(histories) > 1 else "")))
            out += [
                FtpScenario(
                    FtpPath(), None, None, control,
                    Times(warmup_s=0, measure_s=FILE_BYTES * 8 / rate_bps, drain_s=0),
                    seed=seed,
                    variant=f"{used}pct-{others}flows-{hour:02}{minute:02}-{name}",
                    least_used_pct=used, hour=hour, minute=minute, history=history, flows=others,
                )
                for seed in args.seed_numbers
            ]  # fmt: skip
    return out


def _by_load(args: argparse.Namespace) -> list[Scenario]:
    return _asked(args, pick(args, LEAST_USED_PCT, (45,)), (CC, NOCC, ADVICE))


def _with_others(args: argparse.Namespace) -> list[Scenario]:
    flows = pick(args, (1, 2), (1,))
    beside = _asked(args, (45,), (CC, NOCC, ADVICE), flows=flows)
    alone = [
        FtpScenario(
            FtpPath(), None, None, NONE, Times(warmup_s=0, measure_s=ALONE_S, drain_s=0),
            seed=seed, variant=f"alone-{others}flows", flows=others,
        )
        for others in flows
        for seed in args.seed_numbers
    ]  # fmt: skip
    return beside + alone


def _by_history(args: argparse.Namespace) -> list[Scenario]:
    return _asked(args, pick(args, LEAST_USED_PCT, (75,)), (ADVICE,), histories=HISTORIES)


def _rows(points: Sequence[Point]) -> Rows:
    return [_row(point) for point in points]


def _row(point: Point) -> dict[str, Any]:
    scenario = point.scenario
    assert isinstance(scenario, FtpScenario)
    method = ADVICE if scenario.history else {"reno": CC, "none": "alone"}.get(
        scenario.control.name, NOCC
    )  # fmt: skip
    row: dict[str, Any] = {
        "variant": scenario.variant,
        "control": scenario.control.name,
        "seed": scenario.seed,
        "method": method,
        "history": scenario.history,
        "used_pct": scenario.least_used_pct,
        "hour": scenario.hour + scenario.minute / 60,
        "flows": scenario.flows,
    }
    if scenario.control.is_none:
        seconds = scenario.times.measure_s
    else:
        sent, seconds = point.tables["ftp"].row(0)
        row["ftp_mbps"] = told_mbps(sent, seconds)
        row["minutes"] = seconds * TIMES_FASTER / 60
    others = point.tables.get("bulk")
    if others is not None:
        inside = others.filter((others["t_us"] > 0) & (others["t_us"] <= seconds * 1e6))
        each = inside.group_by("flow").agg(pl.col("bytes").sum())
        rates = sorted(told_mbps(part, seconds) for part in each["bytes"])
        row["others_mbps"] = sum(rates)
        row["other_least_mbps"] = rates[0] if rates else 0.0
    if method == ADVICE:
        answers = point.tables["advice"]
        off = answers["off"].to_list()
        row["answers"] = len(off)
        row["switches"] = sum(a != b for a, b in itertools.pairwise(off))
        # The last answer's time is longer than the rest of the transfer, so count answers, not
        # time.
        row["off_share"] = ensemble(off).mean
    return row


def told_mbps(sent_bytes: float, seconds: float) -> float:
    """A rate in the thesis's network."""
    return sent_bytes * 8 / seconds / 1e6 * TIMES_SLOWER


def _by_level(rows: Sequence[dict], line: str) -> list[dict]:
    """Rows for a panel per load, with a line per value of a column."""
    return [r | {"line": r[line], "panel": f"at least {r['used_pct']} % used"} for r in rows]


def _draw_ftp(rows: Sequence[dict], theme: Any) -> bytes:  # noqa: ANN401
    return plots.lines(
        _by_level(rows, "method"), "hour", "ftp_mbps", "time of day, h", "FTP, Mbit/s", theme,
        by="line", panels="panel",
    )  # fmt: skip


def _draw_histories(rows: Sequence[dict], theme: Any) -> bytes:  # noqa: ANN401
    return plots.lines(
        _by_level(rows, "history"), "hour", "ftp_mbps", "time of day, h", "FTP, Mbit/s", theme,
        by="line", panels="panel", below=[("answers", "answers asked for")],
    )  # fmt: skip


def _draw_others(rows: Sequence[dict], theme: Any) -> bytes:  # noqa: ANN401
    named = [
        # A run without FTP has no time of day.
        r
        | {"line": r["method"], "panel": f"{r['flows']} beside it"}
        | ({"hour": None} if r["method"] == "alone" else {})
        for r in rows
    ]
    return plots.lines(
        named, "hour", "others_mbps", "time of day, h", "other flows, Mbit/s", theme, by="line",
        panels="panel",
    )  # fmt: skip


_FTP = Column("ftp_mbps", "FTP, Mbit/s", as_number)
_ANSWERS = Column("answers", "answers asked for", tenths)
_OFF = Column("off_share", "of them off", as_percent)

BY_LOAD = Experiment(
    name="EN-T3",
    help="a file by FTP with congestion control, without, and as advice says, at three loads",
    controls=("reno", "imtcp_nocc"),
    scenarios=_by_load,
    rows=_rows,
    columns=(_FTP, Column("minutes", "minutes", as_number), _ANSWERS, _OFF),
    by=("used_pct", "hour", "method"),
    needs_none=False,
    seeds=3,
    paper=Paper(
        source="[EN §5.5.1, tables 3 to 10]",
        expected="Advice gains 29, 47 and 159 % over congestion control (CC) on average where at"
        " least 45, 60 and 75 % are used, and lies between it and none (NOCC). At 0:15 it is as"
        " congestion control with 45 and 60 %, and gains with 75; at 7:25 it is as none; at other"
        " times it says on and off. The service is asked more often where more is used: 18, 45 and"
        " 219 times in five transfers.",
        choices=CHOICES,
        reason="Two causes, of which neither explains it alone. Without congestion control ours"
        " has 88, 83 and 74 Mbit/s on average, as link and losses let it, the thesis's hosts 70,"
        " 70 and 68; with it 44, 29 and 15, where the thesis has 46, 32 and 15. And our trace is"
        " above the threshold at other moments. Interpolated between the two rates, the thesis's"
        " shares of time off would gain 52, 77 and 187 % with our rates, our shares 42, 94 and 265"
        " % with its rates. The mean of the made days is 0.8 Mbit/s below the threshold at 0:15,"
        " 0.4 at 3:25 and never more than 1.0, and a day differs from it by 1.0. Seed 1, which"
        " alone was run, is 0.2 above at 0:15, and with 45 and 60 % the first answer, off, holds"
        " for ten minutes; it is above for the whole transfer at 3:25, and below at 14:25 for 10"
        " minutes, where the thesis's is for 27. At 21:10 it falls below after 30 minutes: ours,"
        " off until then, has ended after 25 to 30, the thesis's takes 31 even without congestion"
        " control. All loads have the same trace but for 15 Mbit/s, so it is so at all of them."
        " Answers are fewer also because transfers are shorter with advice, in all 172 and 249"
        " minutes with 60 and 75 %, the thesis's 258 and 327; with 60 % that is all, one in 6"
        " minutes in both. With 75 % ours is one in 3.2 and the thesis's one in 1.5: why is not"
        " found.",
        judge=judge_load,
        draw=_draw_ftp,
    ),
)

WITH_OTHERS = replace(
    BY_LOAD,
    name="EN-T13",
    help="what one and two other flows lose beside a file by FTP",
    scenarios=_with_others,
    columns=(_FTP, Column("others_mbps", "other flows, Mbit/s", as_number), _ANSWERS, _OFF),
    by=("flows", "hour", "method"),
    paper=Paper(
        source="[EN §5.5.2, tables 13 to 18]",
        expected="One flow loses 37.5 % beside FTP with congestion control (CC), 57.7 % as advice"
        " says, 75.3 % without (NOCC), and FTP with congestion control has 39.7 Mbit/s beside it;"
        " with two flows it is alike: 36.1, 54.6 and 75.0 %, 38.9 Mbit/s, and they share evenly.",
        choices=CHOICES + " The other flows are Reno's, not delayed by the losses' router. What two"
        " of them have alone the thesis does not tell: their losses are of the 83.4 Mbit/s of one.",
        reason="FTP with congestion control yields here and hardly does there: it has 28 Mbit/s"
        " beside one flow and 10 beside two (44 alone, EN-T3), the thesis's 39.7 and 38.9 (46"
        " alone). So the others lose less, and without congestion control too: FTP has 64 and 56,"
        " there 69.7 and 69.3. One flow alone has 95.5 Mbit/s of our link, the thesis's 83.4. How"
        " much waits in the queue was not kept. If FTP is slower by a longer round trip alone, as"
        " 1/RTT [EN §5.3], 30 ms wait beside one flow, which then has 68 kB under way; beside two"
        " it would be more than the queue can hold, 100 ms, so that FTP loses packets there"
        " besides, and they have at most 118 kB each. Their buffer is the thesis's 128 kB scaled,"
        " 26 kB: with that 8 and 22 ms would wait, and FTP have 38 and 30 Mbit/s. Untested is a"
        " guess: that the kernel lets them exceed it, for tcp_wmem, 52 kB here, is looked at only"
        " before a new buffer is made, and a buffer with segmentation offload holds up to 64 kB.",
        judge=judge_others,
        draw=_draw_others,
    ),
)

HISTORY_SETS = replace(
    BY_LOAD,
    name="EN-T20",
    help="advice from the whole history, the week before, the same weekdays",
    controls=("imtcp_nocc",),
    scenarios=_by_history,
    columns=(_FTP, _ANSWERS, Column("switches", "on to off or back", tenths), _OFF),
    by=("used_pct", "hour", "history"),
    paper=Paper(
        source="[EN §5.5.3, tables 20 to 27]",
        expected="Throughputs are alike with all three history sets: all days, the same weekdays,"
        " the week before. With all days the service is asked most often, and more of its answers"
        " are redundant than with the week before. Changes of state are most with all days where"
        " at least 45 % are used, as many with each set at 60 %, and at 75 % too, but for 14:25,"
        " where all days have one less.",
        choices=CHOICES,
        reason="The made days differ by chance alone, no weekday from another and no month from"
        " the next, where the thesis's were a real router's: each set's deviation of the slope is"
        " an estimate of the same one. Computed from the traces with [EN §3.3.1], τ alone would"
        " ask 15, 14 and 15 times (all days, same weekdays, week before) in the five transfers"
        " with 45 %, 25, 29 and 26 with 60 %, 80, 88 and 80 with 75 %, and 82, 83 and 90 with 75 %"
        " and the trace of seed 2: which is most is chance. With 45 % it is mostly not even τ that"
        " decides. Of 52 answers, computed so with our limit, off's end is what 31 are followed"
        " by, all at 7:25 and 21:10; ours asks 18 times with each set. With 60 % it is 18 of 84,"
        " with 75 % 8 of 248.",
        judge=judge_history,
        draw=_draw_histories,
    ),
)
