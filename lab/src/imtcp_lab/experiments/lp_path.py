"""The path of [LP fig. 9]: one link of 1.5 or 10 Mbit/s.

Its delay is 20 ms and that of an access link 2 ms, so a round trip takes 48 ms; the
queue holds 2.5 bandwidth-delay products.
"""

from __future__ import annotations

from imtcp_lab.topology import Dumbbell, bdp_pkts

RTT_MS = 48.0
QUEUE_BDPS = 2.5


def path(capacity_bps: float) -> Dumbbell:
    """Of this capacity; the foreground is as far away as the background."""
    return Dumbbell(
        capacity_bps=capacity_bps,
        background_rtt_ms=RTT_MS,
        foreground_rtts_ms=(RTT_MS,),
        buffer_pkts=round(QUEUE_BDPS * bdp_pkts(capacity_bps, RTT_MS / 1e3)),
    )
