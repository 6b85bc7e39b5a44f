"""The loss that limits TCP to a given throughput: P = (C·S / (RTT·T))² [EN §5.3].

T is the long-term throughput in bit/s, S the bytes per packet, and RTT is in seconds.  C is a
constant: 1.22 with bytes, or 9.76 with bits as in the paper's script.  The paper does not say which
bytes S counts: table 1 has 1200 bytes, appendix B.3 has 1076.  Here S is the payload, as T is.
"""

from __future__ import annotations

import math

#: [EN §5.4], as 9.76 bits.
C = 1.22
#: The S that gives the values of [EN table 1].
PAPER_PACKET_BYTES = 1200


def share(throughput_bps: float, rtt_s: float, packet_bytes: float, c: float = C) -> float:
    """The share of packets to lose, at most 1."""
    _positive(throughput_bps, rtt_s, packet_bytes, c)
    return min(1.0, (8 * c * packet_bytes / (rtt_s * throughput_bps)) ** 2)


def throughput_bps(loss: float, rtt_s: float, packet_bytes: float, c: float = C) -> float:
    """TCP's throughput with this share of loss."""
    _positive(loss, rtt_s, packet_bytes, c)
    return 8 * c * packet_bytes / (rtt_s * math.sqrt(loss))


def constant(throughput_bps: float, loss: float, rtt_s: float, packet_bytes: float) -> float:
    """C for a measured throughput."""
    _positive(throughput_bps, loss, rtt_s, packet_bytes)
    return throughput_bps * rtt_s * math.sqrt(loss) / (8 * packet_bytes)


def _positive(*values: float) -> None:
    if not all(math.isfinite(v) and v > 0 for v in values):
        raise ValueError("throughput, loss, round trip, packet size and C are positive")
