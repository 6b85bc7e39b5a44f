"""The effect of Linux's own TCP on the papers' controls, one setting at a time.

The papers' controls ran in simulators with another TCP:

* receivers acknowledge each packet, and packets of 1000 bytes leave one by one;
* there is no SACK and no RACK;
* timeouts last seconds, and the initial window is two.

The experiment sets each of these alone, and then all together.  It also turns timestamps off,
because a real path may lack them.

The path has 20 Mbit/s, 20 ms and one BDP of buffer, so that packets are lost.  The web load is 40 %
from Reno servers.
"""

from __future__ import annotations

import argparse
from dataclasses import replace

from imtcp_lab import measured
from imtcp_lab.experiments.base import Experiment, judged_seconds
from imtcp_lab.hosts import LINUX, OF_2003, Hosts
from imtcp_lab.scenario import Scenario
from imtcp_lab.tables import Column, as_number, as_percent
from imtcp_lab.topology import Dumbbell, bdp_pkts
from imtcp_lab.traffic import Bulk, Times, Web

CAPACITY_BPS = 20e6
RTT_MS = 20.0
_LINUX = Dumbbell(
    capacity_bps=CAPACITY_BPS,
    background_rtt_ms=RTT_MS,
    buffer_pkts=round(bdp_pkts(CAPACITY_BPS, RTT_MS / 1e3)),
)


def _with(hosts: Hosts) -> Dumbbell:
    return replace(_LINUX, hosts=hosts)


#: The paths by name, which says the difference from Linux's defaults.
PATHS: dict[str, Dumbbell] = {
    "linux": _LINUX,
    "prompt-acks": replace(_LINUX, prompt_acks=True),
    "single-segments": replace(_LINUX, single_segments=True),
    "no-sack": _with(replace(LINUX, sack=False)),
    "no-rack": _with(replace(LINUX, by_time=False)),
    "window-2": _with(replace(LINUX, initial_window_segs=OF_2003.initial_window_segs)),
    "timeouts-1s-3s": _with(
        replace(LINUX, least_rto_ms=OF_2003.least_rto_ms, first_rto_ms=OF_2003.first_rto_ms)
    ),
    "packets-1000": _with(replace(LINUX, packet_bytes=OF_2003.packet_bytes)),
    "no-timestamps": _with(replace(LINUX, timestamps=False)),
    "all-of-2003": replace(_with(OF_2003), prompt_acks=True, single_segments=True),
}


def _scenarios(args: argparse.Namespace) -> list[Scenario]:
    return [
        Scenario(
            path,
            Web(load=0.4, congestion_control="reno"),
            Bulk(),
            control,
            Times(warmup_s=5, measure_s=args.measure_s, drain_s=3),
            seed=seed,
            variant=name,
        )
        for name, path in PATHS.items()
        for seed in args.seed_numbers
        for control in args.chosen
    ]


EXPERIMENT = Experiment(
    name="host-tcp",
    help="what Linux's own TCP changes in the papers' controls, one setting at a time",
    controls=("none", "reno", "paper", "paper_bg", "paper_lp", "paper_nice"),
    scenarios=_scenarios,
    rows=measured.rows,
    columns=(
        Column("U", "U"),
        Column("I_mean", "I mean", as_percent),
        Column("queue_pkts_mean", "queue, pkts", lambda v: as_number(v, 1)),
        Column("drops_pkts", "drops, pkts", lambda v: as_number(v, 0)),
    ),
    add_arguments=lambda parser: judged_seconds(parser, 20),
)
