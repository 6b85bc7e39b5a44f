"""``lab veth``: speed without a bottleneck, relative to the kernel's Reno in the same round.

Only a veth pair joins two namespaces of the running kernel: no delay, no rate, no queue except the
hosts'.  In each round every control sends in turn, with one flow of iperf3, so that other load on
the machine affects all of them.  The table has the ratio to Reno in the same round.  Processor time
counts the whole machine, so it is right only on an idle one.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from imtcp_lab import results
from imtcp_lab.controls import Control, named
from imtcp_lab.job import Job, LabError, Runner
from imtcp_lab.netns import NetnsRunner
from imtcp_lab.options import add_options
from imtcp_lab.tables import Column, as_number, summary_records, text_table

#: The reference of all other controls.
YARDSTICK = "reno"
DEFAULT_CONTROLS = (YARDSTICK, "cubic", "bbr", "imtcp", "imtcp_bg", "imtcp_fs")
#: Fields of ``/proc/stat``'s first line that count idle time: idle, iowait.
IDLE_FIELDS = (3, 4)

PATH = """\
set -e
imtcp up >&2
for n in a b; do ip netns add $n; ip -n $n link set lo up; done
ip -n a link add va type veth peer name vb netns b
ip -n a addr add 10.0.0.1/24 dev va
ip -n b addr add 10.0.0.2/24 dev vb
ip -n a link set va up
ip -n b link set vb up
nsenter --net=/run/netns/b iperf3 -s >/dev/null &
until ip netns exec b ss -ltn | grep -q :5201; do sleep 0.05; done
"""
TRANSFER = """\
head -n 1 /proc/stat >"$OUT/{name}.before"
nsenter --net=/run/netns/a iperf3 -c 10.0.0.2 -C {cc} -t {seconds} -J >"$OUT/{name}.json"
head -n 1 /proc/stat >"$OUT/{name}.after"
"""

COLUMNS = (
    Column("gbps", "Gbit/s", lambda v: as_number(v, 1)),
    Column("ratio", f"of {YARDSTICK}"),
    Column("cpu_ratio", f"processor time a byte, of {YARDSTICK}"),
    Column("retransmitted", "retransmitted", lambda v: as_number(v, 0)),
)


def register(subparsers: argparse._SubParsersAction) -> None:
    """Adds ``lab veth``."""
    parser = subparsers.add_parser(
        "veth",
        help="as fast as this machine goes, between two namespaces, against Reno",
        description="Sends as fast as it goes between two namespaces of the running kernel, with"
        " each control in turn, and tells the ratio to Reno of the same round. Needs root, and"
        " for processor time a machine that does nothing else.",
        epilog="example: lab veth --rounds 10 --controls reno,imtcp_bg",
    )
    add = parser.add_argument
    add("--rounds", type=int, default=5, help="each sends with every control (5)")
    add("--seconds", type=int, default=3, help="of each transfer, whole ones (3)")
    add(
        "--controls",
        default=",".join(DEFAULT_CONTROLS),
        metavar="A,B,…",
        help="with reno (%(default)s)",
    )
    add_options(parser, "--json")
    add("--out", type=Path, help="also write the rows to this file")
    parser.set_defaults(handler=main)


def job(controls: Sequence[Control], seconds: int) -> Job:
    """One round."""
    return Job(
        PATH
        + "".join(
            TRANSFER.format(name=c.name, cc=c.congestion_control, seconds=seconds) for c in controls
        ),
        limit_virtual_s=60 + len(controls) * (seconds + 10),
    )


def busy_ticks(before: bytes, after: bytes) -> int:
    """Time for which the processors were busy between two first lines of ``/proc/stat``."""
    counts = [
        [int(field) for field in line.split()[1:9]] for line in (before, after)
    ]  # guest time is in user time already
    passed = [b - a for a, b in zip(*counts, strict=True)]
    return sum(passed) - sum(passed[i] for i in IDLE_FIELDS)


def rows(
    files: Mapping[str, bytes], controls: Sequence[Control], number: int
) -> list[dict[str, Any]]:
    """A row per control of one round's files."""
    found = {}
    for control in controls:
        told = json.loads(files[f"{control.name}.json"])
        if "error" in told:
            raise LabError(f"{control.name} did not send: {told['error']}; has this kernel got it?")
        received = told["end"]["sum_received"]
        ticks = busy_ticks(files[f"{control.name}.before"], files[f"{control.name}.after"])
        found[control.name] = {
            "control": control.name,
            "round": number,
            "gbps": received["bits_per_second"] / 1e9,
            "ticks_per_byte": ticks / received["bytes"],
            "retransmitted": told["end"]["sum_sent"]["retransmits"],
        }
    yardstick = found[YARDSTICK]
    return [
        row
        | {
            "ratio": row["gbps"] / yardstick["gbps"],
            "cpu_ratio": row["ticks_per_byte"] / yardstick["ticks_per_byte"],
        }
        for row in found.values()
    ]


def measure(
    controls: Sequence[Control], rounds: int, seconds: int, runner: Runner
) -> list[dict[str, Any]]:
    """Runs all rounds, one after another."""
    out: list[dict[str, Any]] = []
    for number in range(1, rounds + 1):
        print(f"round {number} of {rounds}", file=sys.stderr)
        out += rows(runner.run(job(controls, seconds)).check().files, controls, number)
    return out


def main(args: argparse.Namespace) -> int:
    """Measures and prints."""
    try:
        controls = named(args.controls)
    except ValueError as error:
        print(f"lab veth: {error}", file=sys.stderr)
        return 2
    wrong = [c.name for c in controls if c.is_none or c.priority or c.params or c.must_be_allowed]
    if wrong or YARDSTICK not in [c.name for c in controls] or args.rounds < 1 or args.seconds < 1:
        print(
            f"lab veth: --controls are with {YARDSTICK}, and plain ones"
            f"{': not ' + ', '.join(wrong) if wrong else ''}; --rounds and --seconds are positive",
            file=sys.stderr,
        )
        return 2
    measured = measure(controls, args.rounds, args.seconds, NetnsRunner())
    record = results.record(measured, summary_records(measured, ("control",), COLUMNS))
    if args.out:
        results.write_json(args.out, record)
    if args.json:
        print(json.dumps(record, indent=2))
    else:
        print(text_table(measured, ("control",), COLUMNS, samples="rounds"))
    return 0
