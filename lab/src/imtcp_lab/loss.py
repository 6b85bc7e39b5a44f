"""Loss that limits TCP to a wanted throughput: P = (C·S / (RTT·T))² [EN §5.3].

T is the long-term throughput in bit/s, S the bytes per packet, RTT in seconds and C a constant:
1.22 with bytes, 9.76 with bits as in the paper's script.  The paper leaves open which bytes S
counts: its table 1 is the equation with 1200 bytes, its appendix B.3 has 1076.  Here it is the
payload, as T is."""

from __future__ import annotations

import math

#: [EN §5.4]: 9.76 bits.
C = 1.22
#: S with which the equation gives the values of [EN table 1].
PAPER_PACKET_BYTES = 1200


def share(throughput_bps: float, rtt_s: float, packet_bytes: float, c: float = C) -> float:
    """The share of packets to lose, 0 to 1: what exceeds 1 is 1."""
    _positive(throughput_bps, rtt_s, packet_bytes, c)
    return min(1.0, (8 * c * packet_bytes / (rtt_s * throughput_bps)) ** 2)


def throughput_bps(loss: float, rtt_s: float, packet_bytes: float, c: float = C) -> float:
    """TCP's throughput where this share is lost."""
    _positive(loss, rtt_s, packet_bytes, c)
    return 8 * c * packet_bytes / (rtt_s * math.sqrt(loss))


def constant(throughput_bps: float, loss: float, rtt_s: float, packet_bytes: float) -> float:
    """C of a measured throughput."""
    _positive(throughput_bps, loss, rtt_s, packet_bytes)
    return throughput_bps * rtt_s * math.sqrt(loss) / (8 * packet_bytes)


def _positive(*values: float) -> None:
    if not all(math.isfinite(v) and v > 0 for v in values):
        raise ValueError("throughput, loss, round trip, packet size and C are positive")
