"""Named paths like those that people use. Each entry states its parts and the source of its
numbers.

The bottleneck is the link in the direction of the data; the way back carries the ACKs. Where a
source gives a range, one value stands here. "Ours" marks a value that no source gives. A seed
decides what happens by chance: the rates of a radio, the packets that are lost.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from imtcp_lab.changes import OUT_BPS, Change
from imtcp_lab.queues import CAKE, CODEL_ECN, FQ, FQ_CODEL, PFIFO_FAST, PIE, RED_ECN, WayBack
from imtcp_lab.topology import Dumbbell, bdp_pkts

#: Radio paths change their rate up to this time. A longer run keeps the last rate.
LONGEST_S = 120.0

#: Wi-Fi: ath9k, a Linux driver, long limited an aggregate to 4 ms of air time.
AGGREGATE_MS = 4.0
#: Ours: about four fifths, as TCP goodput, of 802.11n's rates with one antenna (13 to 65 Mbit/s).
WIFI_BPS = (10.4e6, 20.8e6, 41.6e6, 52e6)
#: Ours: every 0.2 s the rate moves with this probability, as if somebody walked about.
WIFI_CHANGE_S, WIFI_MOVES = 0.2, 0.5

#: LTE, ours: the rate of a cell walks between neighbouring values, and the queue holds one second.
#: For comparison, Mahimahi's traces (Netravali et al., ATC 2015) vary tenfold within seconds.
LTE_BPS = (2e6, 4e6, 8e6, 16e6, 32e6)
LTE_CHANGE_S, LTE_MOVES = 0.1, 0.2

#: Cable, ours: about the delay of a request and grant in DOCSIS 3.1. RFC 8034 describes its PIE.
GRANT_MS = 4.0

#: Starlink: a terminal changes its satellite every 15 s (Huston, NANOG 92, 2024). Ours: the length
#: of the outage, the rates and the round trips.
STARLINK_SLOT_S = 15.0
STARLINK_OUT_S = 0.1
STARLINK_BPS = (10e6, 30e6)
STARLINK_RTT_MS = (35.0, 60.0)


@dataclass(frozen=True)
class Everyday:
    """One kind of path that people use."""

    about: str
    #: Makes the path for a seed.
    path: Callable[[int], Dumbbell]
    #: Longer where a flow needs longer to start.
    warmup_s: float = 5.0


def _walk(seed: int, rates_bps: Sequence[float], every_s: float, moves: float) -> list[Change]:
    """A random walk over the rates, from the middle one on. Each step moves to a neighbour with
    probability `moves`."""
    draw, at = random.Random(seed), len(rates_bps) // 2
    out = []
    for i in range(1, round(LONGEST_S / every_s)):
        if draw.random() < moves:
            at = min(max(at + draw.choice((-1, 1)), 0), len(rates_bps) - 1)
            if out[-1:] == [] or out[-1].capacity_bps != rates_bps[at]:
                out.append(Change(i * every_s, rates_bps[at]))
    return out


def _wifi(seed: int) -> Dumbbell:
    middle_bps = WIFI_BPS[len(WIFI_BPS) // 2]
    return Dumbbell(
        capacity_bps=middle_bps,
        background_rtt_ms=20,
        queue=FQ_CODEL,
        bunched_ms=AGGREGATE_MS,
        way_back=WayBack(aggregated_ms=AGGREGATE_MS),
        changes=tuple(_walk(seed, WIFI_BPS, WIFI_CHANGE_S, WIFI_MOVES)),
    )


def _lte(seed: int) -> Dumbbell:
    middle_bps = LTE_BPS[len(LTE_BPS) // 2]
    return Dumbbell(
        capacity_bps=middle_bps,
        background_rtt_ms=50,
        buffer_pkts=round(bdp_pkts(middle_bps, 1.0)),
        way_back=WayBack(jitter_ms=4.0),
        changes=tuple(_walk(seed, LTE_BPS, LTE_CHANGE_S, LTE_MOVES)),
    )


def _starlink(seed: int) -> Dumbbell:
    draw = random.Random(seed)
    out, at_s = [], draw.uniform(3.0, STARLINK_SLOT_S)
    while at_s < LONGEST_S:
        rate_bps, rtt_ms = draw.uniform(*STARLINK_BPS), draw.uniform(*STARLINK_RTT_MS)
        out += [
            Change(at_s, OUT_BPS),
            Change(at_s + STARLINK_OUT_S, round(rate_bps), round(rtt_ms, 1)),
        ]
        at_s += STARLINK_SLOT_S
    return Dumbbell(
        capacity_bps=20e6,
        background_rtt_ms=45,
        buffer_pkts=round(bdp_pkts(20e6, 0.1)),
        loss_pct=0.1,
        loss_burst_pkts=8,
        changes=tuple(out),
    )


def _steady(capacity_mbps: float, rtt_ms: float, bdps: float = 1.0, **more: object) -> Callable:
    """A path that is the same for every seed."""
    capacity_bps = capacity_mbps * 1e6
    buffer_pkts = max(2, round(bdps * bdp_pkts(capacity_bps, rtt_ms / 1e3)))
    made = {
        "capacity_bps": capacity_bps,
        "background_rtt_ms": rtt_ms,
        "buffer_pkts": buffer_pkts,
        **more,
    }
    return lambda seed: Dumbbell(**made)


#: All paths by name.
EVERYDAY: dict[str, Everyday] = {
    "wifi": Everyday("Wi-Fi up: rates that change, aggregates both ways, fq_codel", _wifi),
    "lte": Everyday("LTE: the rate walks, a second of queue, jitter", _lte),
    "docsis": Everyday(
        "cable up: grants, PIE", _steady(20, 25, queue=PIE, bunched_ms=GRANT_MS, buffer_pkts=1000)
    ),
    "docsis-down": Everyday(
        "cable down: ACKs in grants and suppressed",
        _steady(50, 25, 2, way_back=WayBack(aggregated_ms=GRANT_MS, thinned=True)),
    ),
    "dsl-cake": Everyday("DSL with CAKE in the router", _steady(10, 30, queue=CAKE)),
    "fq_codel": Everyday(
        "a router with fq_codel", _steady(20, 20, queue=FQ_CODEL, buffer_pkts=1000)
    ),
    "own-link": Everyday(
        "a host's own interface, pfifo_fast",
        _steady(50, 30, buffer_pkts=1000, one_host=True, queue=PFIFO_FAST),
    ),
    "own-link-fq": Everyday(
        "a host's own interface, fq",
        _steady(50, 30, buffer_pkts=1000, one_host=True, queue=FQ),
    ),
    "own-server": Everyday(
        "a server and its backup, behind a shaper",
        _steady(50, 30, buffer_pkts=1000, one_host_before=True),
    ),
    "starlink": Everyday("another satellite each 15 s, bursts of loss", _starlink),
    "geo": Everyday(
        "a geostationary satellite", _steady(20, 600, foreground_rtts_ms=(600.0,)), warmup_s=20
    ),
    "policer": Everyday(
        "no queue, a bucket of 128 kB", _steady(20, 30, bucket_bytes=128_000, buffer_pkts=2)
    ),
    "bucket-16K": Everyday(
        "a shaper that passes 16 kB at once", _steady(20, 20, 4, bucket_bytes=16 << 10)
    ),
    "bucket-1M": Everyday(
        "a shaper that passes 1 MB at once", _steady(20, 20, 4, bucket_bytes=1 << 20)
    ),
    "short": Everyday("a buffer of a tenth of the BDP", _steady(50, 40, 0.1)),
    "lossy-0.1": Everyday("0.1 % lost at random", _steady(20, 20, 4, loss_pct=0.1)),
    "lossy-1": Everyday("1 % lost at random", _steady(20, 20, 4, loss_pct=1.0)),
    "lossy-bursts": Everyday(
        "1 % lost in bursts of eight", _steady(20, 20, 4, loss_pct=1.0, loss_burst_pkts=8)
    ),
    "thin": Everyday(
        "ACKs that a filter thins", _steady(20, 20, 4, way_back=WayBack(thinned=True))
    ),
    "asymmetric": Everyday(
        "a way back of a twentieth",
        _steady(50, 30, 2, way_back=WayBack(link_pkts=100, link_share=0.05)),
    ),
    "red-ecn": Everyday("RED that marks", _steady(20, 20, 4, queue=RED_ECN)),
    "codel-ecn": Everyday("CoDel that marks", _steady(20, 20, queue=CODEL_ECN, buffer_pkts=1000)),
    "cloud": Everyday(
        "5 ms, bursts of 512 kB",
        _steady(100, 5, 4, bucket_bytes=512 << 10, foreground_rtts_ms=(5.0, 20.0)),
    ),
    "lan": Everyday("0.2 ms", _steady(100, 0.2, buffer_pkts=100, foreground_rtts_ms=(0.2,))),
    "wan-100": Everyday("100 ms", _steady(20, 100), warmup_s=15),
    "wan-300": Everyday("300 ms", _steady(20, 300), warmup_s=15),
    "wireguard": Everyday(
        "a tunnel: smaller packets, some overtaken",
        _steady(50, 30, mtu_bytes=1420, reordered_ms=0.5),
    ),
}


def named(text: str) -> list[str]:
    """The path names in a comma-separated text; raises ValueError for an unknown one."""
    names = text.split(",")
    unknown = [name for name in names if name not in EVERYDAY]
    if unknown:
        known = ", ".join(EVERYDAY)
        raise ValueError(f"unknown path {', '.join(unknown)} (known: {known})")
    return names
