"""The processor time of a control: instructions per byte, relative to Reno.

One flow runs on an idle path in the virtual-time guest.  One nanosecond is one instruction there,
and idle time is exact, so the result is the same on every machine.

The guest is sender, router and receiver at once.  ``ratio`` counts all three.  ``extra`` is the
sender's alone, in instructions per segment above Reno: the others do the same for every control.

The way in which a control sends costs more than its own code.  A control that paces or keeps the
queue short needs more timers and smaller buffers in every layer.  So the kernel's statistics of BPF
programs count the control's own programs separately:

* ``own``: their instructions per segment;
* ``own_ratio``: the cost of Reno's segment plus ``own``, over Reno's;
* ``per_ack`` and ``per_send``: instructions per call.

These columns are empty for the kernel's own controls, which are not BPF.  All columns compare work,
not seconds: real processors execute different instructions at different speeds.

The table also has the laboratory's own cost on this machine, with one guest per processor: seconds
per virtual second, seconds per packet across the bottleneck, and a guest's memory.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence

import polars as pl

from imtcp_lab.experiments.base import Experiment, Rows, flow_bytes, identity, judged_seconds
from imtcp_lab.job import LabError
from imtcp_lab.metrics import Window, carried_bps
from imtcp_lab.results import Point
from imtcp_lab.scenario import Scenario
from imtcp_lab.sweep import SETUP_S
from imtcp_lab.tables import Column, as_number
from imtcp_lab.topology import FRAME_BYTES, PAYLOAD_BYTES, Dumbbell
from imtcp_lab.traffic import Bulk, Times, shift_s

#: The reference of all other controls.
YARDSTICK = "reno"


def _arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--capacity-mbps", type=float, default=50, help="(50)")
    judged_seconds(parser, 10)


def _scenarios(args: argparse.Namespace) -> list[Scenario]:
    # In this buffer Reno neither loses packets nor idles; loss recovery would count as cost.
    path = Dumbbell(capacity_bps=args.capacity_mbps * 1e6, buffer_pkts=2000)
    if not any(control.name == YARDSTICK for control in args.chosen):
        raise ValueError(f"{YARDSTICK} is what the others are compared with: add it")
    return [
        Scenario(
            path,
            None,
            Bulk(start_s=shift_s(seed)),
            control,
            Times(warmup_s=4, measure_s=args.measure_s, drain_s=0.5),
            seed=seed,
            # Sampling costs time, too, although the same for all: keep it small.
            queue_every_ms=500,
            flows_every_ms=500,
            watch_every_ms=0,
            count_idle=True,
        )
        for seed in args.seed_numbers
        for control in args.chosen
    ]


def busy_ns_per_byte(point: Point) -> float:
    """Instructions per payload byte in the window."""
    uptime = point.tables.get("uptime")
    if uptime is None or len(uptime) != 2:
        raise LabError(f"{point.scenario.key} has no idle times")
    passed_s = uptime["uptime_s"][1] - uptime["uptime_s"][0]
    busy_s = passed_s - (uptime["idle_s"][1] - uptime["idle_s"][0])
    payload = sum(flow_bytes(point))
    return busy_s * 1e9 / payload


def own_cost(point: Point) -> dict[str, float | None]:
    """Instructions of the control's own programs; empty if none ran."""
    programs = point.tables.get("programs")
    if programs is None or programs.is_empty():
        return {}
    ran = (
        programs.sort("t_us")
        .group_by("id", "name")
        .agg(
            # Listed only after the window: it had not run before.
            pl.when(pl.len() > 1).then(pl.col(c).last() - pl.col(c).first()).otherwise(
                pl.col(c).last()
            )
            for c in ("runs", "run_ns")
        )
    )  # fmt: skip

    def ns_per(names: str, calls: str) -> float | None:
        of = ran.filter(pl.col("name").str.contains(f"_({names})$"))
        runs = of.filter(pl.col("name").str.ends_with(calls))["runs"].sum()
        return of["run_ns"].sum() / runs if runs else None

    seconds = (programs["t_us"].max() - programs["t_us"].min()) / 1e6
    segments = sum(flow_bytes(point)) / PAYLOAD_BYTES
    own_s = ran["run_ns"].sum() / 1e9 * point.scenario.window.seconds / seconds
    return {
        "own_per_segment": own_s * 1e9 / segments,
        "per_ack": ns_per("pkts_acked|cong_avoid", "_pkts_acked"),
        "per_send": ns_per("min_tso_segs", "_min_tso_segs"),
    }


def laboratory_cost(point: Point) -> dict[str, float | None]:
    """The guest's use of this machine; points of earlier versions lack it."""
    cost = point.meta["environment"].get("cost")
    if not cost:
        return {}
    scenario = point.scenario
    everything = Window(0, round(scenario.times.total_s * 1e6))
    bits = carried_bps(point.tables["queue"], everything) * everything.seconds
    return {
        "wall_per_virtual_s": cost["wall_s"] / (scenario.times.total_s + SETUP_S),
        "wall_us_per_packet": cost["wall_s"] * 1e6 / (bits / 8 / FRAME_BYTES),
        "memory_mb": cost["memory_mb"],
    }


def _rows(points: Sequence[Point]) -> Rows:
    reno = {
        p.scenario.seed: busy_ns_per_byte(p) for p in points if p.scenario.control.name == YARDSTICK
    }
    out = []
    for point in points:
        cost = busy_ns_per_byte(point)
        base = reno[point.scenario.seed]
        own = own_cost(point)
        if own:
            own["own_ratio"] = 1 + own["own_per_segment"] / (base * PAYLOAD_BYTES)
        out.append(
            identity(point)
            | {
                "instructions_per_byte": cost,
                "ratio": cost / base,
                "extra_per_segment": (cost - base) * PAYLOAD_BYTES,
            }
            | own
            | laboratory_cost(point)
        )
    return out


EXPERIMENT = Experiment(
    name="cpu",
    help="instructions per byte against the kernel's Reno",
    controls=(
        "reno", "cubic", "bbr", "imtcp", "imtcp_bg", "imtcp_fs", "imtcp_lp", "imtcp_lpecn",
        "imtcp_nice", "imtcp_ledbat", "imtcp_ledbatpp", "imtcp_nocc",
    ),
    scenarios=_scenarios,
    rows=_rows,
    columns=(
        Column("instructions_per_byte", "instructions/byte", lambda v: as_number(v, 2)),
        Column("ratio", "ratio to reno", lambda v: as_number(v, 3)),
        Column("extra_per_segment", "extra/segment", lambda v: as_number(v, 0)),
        Column("own_per_segment", "own/segment", lambda v: as_number(v, 0)),
        Column("own_ratio", "own ratio", lambda v: as_number(v, 3)),
        Column("per_ack", "per ACK", lambda v: as_number(v, 0)),
        Column("per_send", "per send", lambda v: as_number(v, 0)),
        Column("wall_per_virtual_s", "lab: s per virtual s"),
        Column("wall_us_per_packet", "µs per packet", lambda v: as_number(v, 0)),
        Column("memory_mb", "MB", lambda v: as_number(v, 0)),
    ),
    by=("control",),
    add_arguments=_arguments,
    needs_none=False,
    seeds=3,
)  # fmt: skip
