"""``lab loss``: turns a trace of available bandwidth into a schedule of losses [EN §5.2, B.2,
B.3]."""

from __future__ import annotations

import argparse
import csv
import json
import math
import shlex
import sys
from collections.abc import Iterable, Sequence
from datetime import datetime
from pathlib import Path

from imtcp_lab import loss

#: netem stores a probability in 32 bits, and rounds less than half of this to no loss.
LEAST_SHARE = 2.0**-32

#: (time, available bandwidth in bit/s), in order of time.
Trace = Sequence[tuple[datetime, float]]
#: (seconds since the start, share of packets to lose).
Schedule = list[tuple[float, float]]

EXAMPLE = """\
The trace is CSV with the columns time (RFC 3339) and available_bps, as `imtcp-advice import` takes.

example: half an hour in 30 seconds, RTT 50 ms, of which the device makes all
  lab loss trace.csv --rtt-ms 50 --compress 60 --device eth0 --netem "delay 50ms" > losses.sh
"""


def register(subparsers: argparse._SubParsersAction) -> None:
    """Add ``lab loss``."""
    one = subparsers.add_parser(
        "loss",
        help="a trace of available bandwidth as a schedule of netem losses",
        epilog=EXAMPLE,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    one.add_argument("trace", type=Path, help="CSV file")
    one.add_argument("--rtt-ms", type=float, default=50, help="round trip (50)")
    one.add_argument("--packet-bytes", type=float, default=1448, help="payload (1448)")
    one.add_argument("--compress", type=float, default=1, help="times faster than the trace (1)")
    one.add_argument("--device", default="eth0", help="with netem as its root (eth0)")
    one.add_argument(
        "--netem",
        default="limit 1000",
        metavar="OPTIONS",
        help="its other options: a change forgets those that it does not name (limit 1000)",
    )
    one.add_argument("--json", action="store_true", help="rows in the place of the script")
    one.set_defaults(handler=_command)


def read(lines: Iterable[str]) -> Trace:
    """Reads a trace; ValueError names the faulty line."""
    reader = csv.DictReader(lines)
    absent = {"time", "available_bps"} - set(reader.fieldnames or ())
    if absent:
        raise ValueError(f"line 1: no column {', '.join(sorted(absent))}")
    out: list[tuple[datetime, float]] = []
    for row in reader:
        try:
            at, bps = datetime.fromisoformat(row["time"]), float(row["available_bps"])
        except (TypeError, ValueError) as error:
            raise ValueError(f"line {reader.line_num}: {error}") from error
        if at.tzinfo is None:
            raise ValueError(f"line {reader.line_num}: the time has no zone (RFC 3339)")
        if not (math.isfinite(bps) and bps >= 0):
            raise ValueError(f"line {reader.line_num}: available_bps is 0 or more")
        if out and at <= out[-1][0]:
            raise ValueError(f"line {reader.line_num}: not later than the line before")
        out.append((at, bps))
    if not out:
        raise ValueError("line 2: the trace is empty")
    return out


def schedule(trace: Trace, rtt_s: float, packet_bytes: float, compress: float = 1) -> Schedule:
    """The losses that limit TCP to the trace, `compress` times as fast. No bandwidth means loss of
    all packets."""
    if not (math.isfinite(compress) and compress > 0):
        raise ValueError("the time scale is positive")
    start = trace[0][0]
    return [
        (
            (at - start).total_seconds() / compress,
            max(LEAST_SHARE, loss.share(bps, rtt_s, packet_bytes)) if bps else 1.0,
        )
        for at, bps in trace
    ]


def script(rows: Schedule, device: str, netem: str) -> str:
    """POSIX sh that applies the schedule to the netem at the root of a device, with its other
    options."""
    out, before_s = [], 0.0
    other = shlex.join(shlex.split(netem))
    for at_s, lost in rows:
        if at_s > before_s:
            out.append(f"sleep {at_s - before_s:.3f}")
        lost_pct = f"{lost * 100:.8f}%"
        out.append(f"tc qdisc change dev {shlex.quote(device)} root netem {other} loss {lost_pct}")
        before_s = at_s
    return "\n".join(out) + "\n"


def _command(args: argparse.Namespace) -> int:
    try:
        with args.trace.open(encoding="utf-8", newline="") as lines:
            trace = read(lines)
        rows = schedule(trace, args.rtt_ms / 1e3, args.packet_bytes, args.compress)
        commands = script(rows, args.device, args.netem)
    except (OSError, ValueError) as error:
        print(f"lab loss: {args.trace}: {error}", file=sys.stderr)
        return 2
    if args.json:
        print(json.dumps([{"at_s": at_s, "loss": lost} for at_s, lost in rows], indent=2))
    else:
        print(commands, end="")
    return 0
