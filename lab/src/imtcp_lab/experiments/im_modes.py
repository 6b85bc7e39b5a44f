"""IM-F15, F16: full speed on a long fat path, and on a path with random loss."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from imtcp_lab import plots, series
from imtcp_lab.experiments.base import Experiment, Rows, background_bps, identity
from imtcp_lab.experiments.paper import LESS, Claim, Paper, less, mean, pick, values
from imtcp_lab.metrics import drops_pkts
from imtcp_lab.results import Point
from imtcp_lab.scenario import Scenario
from imtcp_lab.tables import Column, as_mbps, as_number
from imtcp_lab.topology import Dumbbell
from imtcp_lab.traffic import Bulk, Times, shift_s

LOSSES_PCT = (0.1, 0.5, 1, 2, 5)
QUICK_LOSSES_PCT = (0.1, 2)
#: Ours: this counts as much loss.
MANY_PCT = 1
WIRELESS = Dumbbell(
    capacity_bps=2e6, background_rtt_ms=100, buffer_pkts=50, prompt_acks=True, single_segments=True
)
#: The quick form has fewer packets, because these cost the guest's time.
FAST_BPS, QUICK_FAST_BPS = 500e6, 100e6
#: At the first rate: a tenth of a bandwidth-delay product, and half of one.
FAST_BUFFERS_PKTS = (200, 1000)
BIN_MS = 500
FULL_SPEED = ("imtcp_fs", "paper_fs")
BOTH = " Full speed appears twice: as it ships (imtcp_fs), and as the paper prints it (paper_fs)."


def _wireless(args: argparse.Namespace) -> list[Scenario]:
    return [
        Scenario(
            Dumbbell(**{**vars(WIRELESS), "loss_pct": loss_pct}),
            None,
            Bulk(start_s=shift_s(seed)),
            control,
            pick(args, Times(10, 100, 0.5), Times(5, 8, 0.5)),
            seed=seed,
            variant=f"{loss_pct:g}pct",
        )
        for loss_pct in pick(args, LOSSES_PCT, QUICK_LOSSES_PCT)
        for seed in args.seed_numbers
        for control in args.chosen
    ]


def _fast(args: argparse.Namespace) -> list[Scenario]:
    capacity_bps = pick(args, FAST_BPS, QUICK_FAST_BPS)
    return [
        Scenario(
            Dumbbell(
                capacity_bps=capacity_bps,
                background_rtt_ms=50,
                buffer_pkts=buffer_pkts,
                prompt_acks=True,
                single_segments=True,
            ),
            None,
            Bulk(start_s=shift_s(seed)),
            control,
            Times(warmup_s=1, measure_s=pick(args, 20, 4), drain_s=0.2),
            seed=seed,
            variant=f"{buffer_pkts}pkts",
        )
        for buffer_pkts in (round(b * capacity_bps / FAST_BPS) for b in FAST_BUFFERS_PKTS)
        for seed in args.seed_numbers
        for control in args.chosen
    ]


def _rows(points: Sequence[Point]) -> Rows:
    out = []
    for point in points:
        window, path = point.scenario.window, point.scenario.path
        times, rates = series.throughput(point.tables.get("tcp"), BIN_MS, window.end_us)
        out.append(
            identity(point)
            | {
                "loss_pct": path.loss_pct,
                "buffer_pkts": path.buffer_pkts,
                "panel": f"{point.scenario.control.label}, {path.buffer_pkts} packets",
                "goodput_bps": background_bps(point),
                "goodput_mbps": background_bps(point) / 1e6,
                "drops_pkts": drops_pkts(point.tables["queue"], window),
                "lines": [{"t_s": times, "value": [round(r / 1e6, 2) for r in rates]}],
            }
        )
    return out


COLUMNS = (
    Column("goodput_bps", "goodput, Mbit/s", as_mbps),
    Column("drops_pkts", "lost, pkts", lambda v: as_number(v, 0)),
)


def _judge_wireless(rows: Sequence[dict]) -> list[Claim]:
    def rate(control: str, loss_pct: float) -> float:
        return mean(rows, "goodput_mbps", control=control, loss_pct=loss_pct)

    many = [loss_pct for loss_pct in values(rows, "loss_pct") if loss_pct >= MANY_PCT]
    return [
        less(f"at {loss:g} % of loss {other} has", rate(other, loss), f"{mode}'s, in Mbit/s",
             rate(mode, loss))
        for loss in many
        for mode in FULL_SPEED
        for other in ("reno", "westwood")
    ]  # fmt: skip


def _judge_fast(rows: Sequence[dict]) -> list[Claim]:
    def of(key: str, control: str, buffer_pkts: int) -> float:
        return mean(rows, key, control=control, buffer_pkts=buffer_pkts)

    out = []
    for buffer in values(rows, "buffer_pkts"):
        lost = of("drops_pkts", "highspeed", buffer)
        for mode in FULL_SPEED:
            rate = of("goodput_mbps", mode, buffer)
            out += [
                less(f"with {buffer} packets of buffer {other} has",
                     of("goodput_mbps", other, buffer), f"{mode}'s, in Mbit/s", rate, 0)
                for other in ("reno", "highspeed")
            ]  # fmt: skip
            mine = of("drops_pkts", mode, buffer)
            out.append(
                Claim(
                    f"with {buffer} packets of buffer {mode} loses {mine:.0f} packets (wanted:"
                    f" less by a twentieth than highspeed's {lost:.0f}, where that loses any)",
                    lost > 0 and mine <= LESS * lost,
                )
            )
    return out


WIRELESS_LOSS = Experiment(
    name="IM-F16",
    help="full speed, Westwood and Reno on a lossy link of 2 Mbit/s",
    controls=("reno", "westwood", "paper_fs", "imtcp_fs"),
    scenarios=_wireless,
    rows=_rows,
    columns=COLUMNS,
    by=("loss_pct", "control"),
    needs_none=False,
    paper=Paper(
        source="[IM §5.2, figure 16]",
        expected="With many losses, full speed with h = 100 has more throughput than Westwood and"
        " Reno.",
        choices="The paper gives neither round trip nor buffer: 100 ms and 50 packets here. Losses"
        " are independent, in the direction of the data. Westwood is Linux's Westwood+. 'Many'"
        " means 1 % and more." + BOTH,
        judge=_judge_wireless,
        draw=lambda rows, theme: plots.lines(
            rows, "loss_pct", "goodput_mbps", "loss, %", "goodput, Mbit/s", theme, log_x=True
        ),
        reason="As printed every claim holds: full speed has the whole link up to 2 % of loss, and"
        " 0.96 of it at 5 %. It also loses more: 487 packets at 0.1 %, where the others lose 21."
        " After a loss imtcp_fs gives up only the queue, like Westwood+. So it is level with"
        " Westwood+ at 1 and 2 %, and has half as much again at 5 %.",
    ),
)

LONG_FAT = Experiment(
    name="IM-F15",
    help="full speed, HighSpeed TCP and Reno at 500 Mbit/s",
    controls=("reno", "highspeed", "paper_fs", "imtcp_fs"),
    scenarios=_fast,
    rows=_rows,
    columns=COLUMNS,
    by=("buffer_pkts", "control"),
    needs_none=False,
    seeds=3,
    paper=Paper(
        source="[IM §5.2, figure 15]",
        expected="Full speed has the highest throughput: Reno needs long for a large window, and"
        " HighSpeed TCP loses packets often.",
        choices="The paper gives neither round trip nor buffer: 50 ms here, with 200 and 1000"
        " packets (a tenth and half of a bandwidth-delay product). The measurement takes 20 s"
        " after the first second. With 200 packets HighSpeed TCP still grows at its end, so the"
        " losses that come after it has filled the path do not show. The picture shows throughput,"
        " not the window. The quick form has a fifth of the rate and of the buffers." + BOTH,
        judge=_judge_fast,
        draw=lambda rows, theme: plots.over_time(rows, "lines", "Mbit/s", theme, title="panel"),
        reason="With the larger buffer slow start reaches the path's capacity. So Reno, HighSpeed"
        " TCP and full speed have the whole link from the first second on, and 20 s show no"
        " difference. With the smaller buffer full speed as printed has more than both. It loses"
        " 118 packets there. HighSpeed TCP loses 52 and still grows at the end of the 20 s.",
    ),
)
