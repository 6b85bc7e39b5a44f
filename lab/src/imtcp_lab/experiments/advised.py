"""Advice that chooses among CUBIC, `imtcp_fs` and `imtcp_bg`. The thesis had no such choice.

Other traffic loads the line by the day's trace.  The service's records come from the transfer
itself: `imtcp-agent` runs beside the FTP server and reports imtcp's measurements.  Advice chooses
`imtcp_fs` on a free path, `imtcp_bg` on a congested one, and CUBIC if nothing is known.

A path counts as congested in the lower half of the day's range.  The thesis's threshold is too near
to its trace: the error of a measurement would decide.
"""

from __future__ import annotations

import argparse
import itertools
from collections.abc import Sequence

from imtcp_lab.day import SHAPE
from imtcp_lab.experiments.base import Experiment, Rows, identity
from imtcp_lab.experiments.en_ftp import told_mbps
from imtcp_lab.experiments.en_ftp_claims import ADVICE
from imtcp_lab.ftp import TIMES_FASTER, FtpScenario
from imtcp_lab.ftp_path import TIMES_SLOWER, FtpPath
from imtcp_lab.metrics import mean_delay_s
from imtcp_lab.results import Point
from imtcp_lab.scenario import Scenario
from imtcp_lab.stats import ensemble
from imtcp_lab.tables import Column, as_number, as_percent
from imtcp_lab.topology import FRAME_BYTES, PAYLOAD_BYTES
from imtcp_lab.traffic import Times

#: The path is congested, free, congested.
TIMES_OF_DAY = ((0, 15), (7, 25), (14, 25))
#: 13 minutes of the thesis's time.
TRANSFER_S = 40.0
CONGESTED_BELOW_MBPS = (min(mbps for _, mbps in SHAPE) + max(mbps for _, mbps in SHAPE)) / 2


def times_of_day(text: str) -> tuple[tuple[int, int], ...]:
    """Reads hours and minutes from ``HH:MM,…``."""
    out = []
    for part in text.split(","):
        hour, colon, minute = part.partition(":")
        if not (colon and hour.isdecimal() and minute.isdecimal()):
            raise argparse.ArgumentTypeError(f"a time of day is HH:MM: {part}")
        if int(hour) > 23 or int(minute) > 59:
            raise argparse.ArgumentTypeError(f"no time of day: {part}")
        out.append((int(hour), int(minute)))
    return tuple(out)


def _arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--times", type=times_of_day, default=TIMES_OF_DAY, metavar="HH:MM,…",
        help="when transfers begin (0:15,7:25,14:25)",
    )  # fmt: skip


def _scenarios(args: argparse.Namespace) -> list[Scenario]:
    out = []
    for (hour, minute), control in itertools.product(args.times, args.chosen):
        # Advice needs imtcp's programs, and they come with the control that it may choose.
        methods = (control.name, ADVICE) if control.name == "imtcp_fs" else (control.name,)
        out += [
            FtpScenario(
                FtpPath(small_buffers=False), None, None, control,
                Times(warmup_s=0, measure_s=TRANSFER_S, drain_s=0),
                seed=seed, variant=f"{hour:02}{minute:02}-{method}", hour=hour, minute=minute,
                history="all" if method == ADVICE else "", threshold_mbps=CONGESTED_BELOW_MBPS,
                busy=True,
            )
            for method in methods
            for seed in args.seed_numbers
        ]  # fmt: skip
    return out


def _rows(points: Sequence[Point]) -> Rows:
    rows = [_row(point) for point in points]
    alone_ms = {
        (row["hour"], row["seed"]): row["delay_ms"] for row in rows if row["method"] == "none"
    }
    for row in rows:
        row["others_delay_ms"] = row.pop("delay_ms") - alone_ms[row["hour"], row["seed"]]
    return rows


def _row(point: Point) -> dict:
    scenario = point.scenario
    assert isinstance(scenario, FtpScenario)
    row = identity(point) | {
        "method": ADVICE if scenario.history else scenario.control.name,
        "hour": scenario.hour + scenario.minute / 60,
        "available_mbps": available_bps(scenario) * TIMES_SLOWER / 1e6,
        "delay_ms": mean_delay_s(point.tables["udp"], scenario.window) * 1e3,
    }
    if not scenario.control.is_none:
        sent, seconds = point.tables["ftp"].row(0)
        row["ftp_mbps"] = told_mbps(sent, seconds)
        row["use"] = row["ftp_mbps"] / row["available_mbps"]
    if scenario.history:
        row["off_share"] = ensemble(point.tables["advice"]["off"]).mean
    return row


def available_bps(scenario: FtpScenario) -> float:
    """The mean bandwidth that other traffic leaves, as TCP payload."""
    end_s = scenario.times.measure_s * TIMES_FASTER
    steps = [((at - scenario.at).total_seconds(), bps) for at, bps in scenario.today()]
    ends = [at_s for at_s, _ in steps[1:]] + [end_s]
    left = sum(
        bps * (min(until, end_s) - at_s)
        for (at_s, bps), until in zip(steps, ends, strict=True)
        if at_s < end_s
    )
    return left / end_s * PAYLOAD_BYTES / FRAME_BYTES


EXPERIMENT = Experiment(
    name="advice",
    help="a file by FTP on a loaded line, with advice that chooses among CUBIC and imtcp's modes",
    controls=("none", "cubic", "imtcp_bg", "imtcp_fs"),
    scenarios=_scenarios,
    rows=_rows,
    columns=(
        Column("ftp_mbps", "FTP, Mbit/s", as_number),
        Column("use", "of what is left"),
        Column("others_delay_ms", "others wait longer, ms", as_number),
        Column("off_share", "advice: free", as_percent),
    ),
    by=("hour", "method"),
    add_arguments=_arguments,
    seeds=3,
)
