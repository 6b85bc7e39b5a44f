"""Queues inside the bottleneck's shaper, and what happens to ACKs on their way back."""

from __future__ import annotations

import math
from dataclasses import dataclass

#: Bytes of a full frame on the bottleneck: IPv4 MTU 1500 and Ethernet 14.
FRAME_BYTES = 1514
#: Bytes of an ACK without data: Ethernet 14, IPv4 20, TCP 20, timestamps 12.
ACK_FRAME_BYTES = 66

DROPTAIL = "droptail"
FQ_CODEL = "fq_codel"
CAKE = "cake"
RED_ECN = "red-ecn"
#: Above a threshold it marks packets that support marks. It drops only when it is full [LP §IV-A].
LP_ECN = "lp-ecn"
#: CoDel: one queue that marks packets that support marks and drops the others.
CODEL_ECN = "codel-ecn"
#: PIE drops at random, more as packets wait longer; cable modems have it [RFC 8034].
PIE = "pie"
#: A host's own interface: it serves packets by their priority on the host.
PFIFO_FAST = "pfifo_fast"
FQ = "fq"
#: Disciplines by name.  The fair ones keep their own defaults, as in ordinary use.
QUEUES = (DROPTAIL, FQ_CODEL, CAKE, RED_ECN, LP_ECN, CODEL_ECN, PIE, PFIFO_FAST, FQ)
#: With these queues all hosts ask for marks, which is not the default.
WITH_MARKS = (RED_ECN, CODEL_ECN)
#: RFC 8034 §4.1: target latency and update interval of DOCSIS-PIE.
PIE_TARGET_MS, PIE_UPDATE_MS = 10, 16
#: It marks above this share of the queue: TCP-LP's delta [LP §III-D].
LP_ECN_SHARE = 0.15


def discipline(queue: str, limit_pkts: int, capacity_bps: float) -> str:
    """A queue as text for ``tc qdisc add``."""
    if queue == FQ_CODEL:
        return f"fq_codel limit {limit_pkts}"
    if queue == CAKE:
        # The shaper around it sets the rate.
        return "cake unlimited"
    if queue == RED_ECN:
        return _red_ecn(limit_pkts, capacity_bps)
    if queue == LP_ECN:
        return _lp_ecn(limit_pkts, capacity_bps)
    if queue == CODEL_ECN:
        return f"codel limit {limit_pkts} ecn"
    if queue == PIE:
        return f"pie limit {limit_pkts} target {PIE_TARGET_MS}ms tupdate {PIE_UPDATE_MS}ms"
    if queue in (PFIFO_FAST, FQ):
        return queue
    return f"pfifo limit {limit_pkts}"


def _red_ecn(limit_pkts: int, capacity_bps: float) -> str:
    """RED with the proportions of tc-red(8): max is limit/4, min is max/3."""
    limit_bytes = max(limit_pkts, 12) * FRAME_BYTES
    most = limit_bytes // 4
    least = most // 3
    burst = max(1, (2 * least + most) // (3 * FRAME_BYTES)) + 1
    return (
        f"red limit {limit_bytes} min {least} max {most} avpkt {FRAME_BYTES} burst {burst}"
        f" probability 0.02 bandwidth {capacity_bps:.0f}bit ecn"
    )


def _lp_ecn(limit_pkts: int, capacity_bps: float) -> str:
    """RED with both thresholds at one place; there it does not drop packets without support for
    marks.

    tc derives the weight W of a packet in the average from the burst: the first of 1/2, 1/4, … with

        (1 - (1 - W)^burst) / W >= burst + 1 - threshold

    The burst here gives W = 1/8, TCP-LP's own weight for delays [LP eq. 1].
    """
    threshold = LP_ECN_SHARE * limit_pkts * FRAME_BYTES
    burst = _first_burst_of_an_eighth(threshold / FRAME_BYTES)
    return (
        f"red limit {limit_pkts * FRAME_BYTES} min {threshold:.0f} max {threshold:.0f}"
        f" avpkt {FRAME_BYTES} burst {burst} probability 1 bandwidth {capacity_bps:.0f}bit"
        " ecn nodrop"
    )


def _first_burst_of_an_eighth(threshold_pkts: float) -> int:
    def reaches(weight: float, burst: int) -> bool:
        return (1 - (1 - weight) ** burst) / weight >= burst + 1 - threshold_pkts

    burst = math.ceil(threshold_pkts)
    while reaches(1 / 4, burst):
        burst += 1
    return burst


@dataclass(frozen=True)
class WayBack:
    """Effects on ACKs on their way back, besides the delay."""

    #: Packets in the DropTail queue of the link back, before the delay; 0: the link is never full.
    link_pkts: int = 0
    #: Capacity of the link back, as a share of the bottleneck's.
    link_share: float = 1.0
    #: The link back has half the capacity that delayed ACKs need, and a filter drops surplus ACKs.
    thinned: bool = False
    #: Each delay varies by up to this much; packets stay in order.
    jitter_ms: float = 0.0
    #: Packets wait up to this time and leave together, as on a shared medium.
    aggregated_ms: float = 0.0

    def __post_init__(self) -> None:
        if min(self.jitter_ms, self.aggregated_ms) < 0:
            raise ValueError("times cannot be negative")
        if self.link_pkts < 0 or (self.link_pkts and self.thinned):
            raise ValueError("there is one link back: with a queue, or one that filters ACKs")
        if self.link_share <= 0 or (self.link_share != 1 and not self.link_pkts):
            raise ValueError("a link back has a queue and a share of the capacity")

    def netem(self, delay_ms: float) -> str:
        """netem's options for the way back."""
        text = f"netem delay {delay_ms * 1000:.0f}us"
        if self.jitter_ms:
            # With a rate, netem keeps packets in order.
            text += f" {min(self.jitter_ms, delay_ms) * 1000:.0f}us rate 10gbit"
        text += " limit 100000"
        if self.aggregated_ms:
            text += f" slot {self.aggregated_ms:g}ms"
        return text

    def filter(self, capacity_bps: float) -> str | None:
        """The discipline of a link back that is too slow for an ACK per two packets."""
        if not self.thinned:
            return None
        every_second_bps = capacity_bps * ACK_FRAME_BYTES / (2 * FRAME_BYTES)
        return f"cake bandwidth {every_second_bps / 2:.0f}bit ack-filter"


#: A delay and nothing else.
STEADY = WayBack()
