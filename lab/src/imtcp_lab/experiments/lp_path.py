"""The path of [LP fig. 9]: one link of 1.5 or 10 Mbit/s.

The link has a delay of 20 ms and each access link 2 ms, so a round trip takes 48 ms.  The queue
holds 2.5 bandwidth-delay products.
"""

from __future__ import annotations

import dataclasses

from imtcp_lab.controls import Control
from imtcp_lab.queues import LP_ECN, WayBack
from imtcp_lab.topology import Dumbbell, bdp_pkts

RTT_MS = 48.0
QUEUE_BDPS = 2.5


def path(capacity_bps: float) -> Dumbbell:
    """The path at this capacity; foreground and background have the same round trip."""
    return Dumbbell(
        capacity_bps=capacity_bps,
        background_rtt_ms=RTT_MS,
        foreground_rtts_ms=(RTT_MS,),
        buffer_pkts=round(QUEUE_BDPS * bdp_pkts(capacity_bps, RTT_MS / 1e3)),
    )


def two_way(capacity_bps: float) -> Dumbbell:
    """The path with an equal link back: traffic in the reverse direction delays and drops ACKs."""
    there = path(capacity_bps)
    return dataclasses.replace(there, way_back=WayBack(link_pkts=there.buffer_pkts))


def asked_by(control: Control, dumbbell: Dumbbell) -> Dumbbell:
    """The path with the queue that the control needs: one that marks for TCP-LP/ECN [LP §IV-A]."""
    if control.run_mode != "lpecn":
        return dumbbell
    return dataclasses.replace(dumbbell, queue=LP_ECN)
