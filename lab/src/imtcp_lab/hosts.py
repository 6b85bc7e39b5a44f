"""The TCP of the end hosts, beside congestion control: Linux's, or what simulators had in 2003.

The papers' controls ran in simulators of 2003, whose TCP is not Linux's.  The kernel keeps loss
recovery, timers and the first window to itself, but nearly all of them can be set for a host, a
route or a connection.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from imtcp_lab.network import default_route

#: Linux's own, of today.
LEAST_RTO_MS = 200
FIRST_RTO_MS = 1000
INITIAL_WINDOW_SEGS = 10
#: TCP header without options, and IPv4's.
HEADERS_BYTES = 40


@dataclass(frozen=True)
class Hosts:
    """The TCP of senders and receivers; the defaults are Linux's."""

    #: Selective acknowledgements (RFC 2018).
    sack: bool = True
    #: RACK and tail loss probes (RFC 8985), and F-RTO (RFC 5682); without them three duplicate
    #: ACKs tell of a loss.
    by_time: bool = True
    #: Segments of the first flight; RFC 2581 has two.
    initial_window_segs: int = INITIAL_WINDOW_SEGS
    #: Least retransmission timeout; RFC 2988 has a second.
    least_rto_ms: int = LEAST_RTO_MS
    #: Timeout before the first round trip is known; RFC 2988 has three seconds.
    first_rto_ms: int = FIRST_RTO_MS
    #: Bytes of a packet, with the headers of TCP and IP; 0: what the link carries.
    packet_bytes: int = 0
    #: Timestamps (RFC 7323).
    timestamps: bool = True

    def __post_init__(self) -> None:
        if min(self.initial_window_segs, self.least_rto_ms, self.first_rto_ms) < 1:
            raise ValueError("a first window and timeouts are at least 1")
        if self.packet_bytes and not 128 <= self.packet_bytes <= 1500:
            raise ValueError("a packet has 128 to 1500 bytes")

    def script(self, namespaces: Sequence[str]) -> str:
        """Shell that sets what differs from Linux's, on each host."""
        return "\n".join(filter(None, (self._sysctls(namespaces), *map(self._route, namespaces))))

    def first_rto(self) -> str:
        """Shell that sets the first timeout of the guest's connections, on all hosts at once."""
        if self.first_rto_ms == FIRST_RTO_MS:
            return ""
        return f"imtcp-load first-rto --ms {self.first_rto_ms}"

    def _sysctls(self, namespaces: Sequence[str]) -> str:
        settings = []
        if not self.sack:
            settings.append("echo 0 >tcp_sack")
        if not self.by_time:
            # Bit 0 of tcp_recovery is RACK; tcp_early_retrans is the probe.
            settings += [
                f"echo 0 >{name}" for name in ("tcp_recovery", "tcp_early_retrans", "tcp_frto")
            ]
        if not self.timestamps:
            settings.append("echo 0 >tcp_timestamps")
        if not settings:
            return ""
        inside = "; ".join(("cd /proc/sys/net/ipv4", *settings))
        return "\n".join(f"ns {n} sh -c '{inside}'" for n in namespaces)

    def _route(self, namespace: str) -> str:
        options = []
        if self.initial_window_segs != INITIAL_WINDOW_SEGS:
            options.append(f"initcwnd {self.initial_window_segs}")
        if self.least_rto_ms != LEAST_RTO_MS:
            options.append(f"rto_min {self.least_rto_ms}ms")
        if self.packet_bytes:
            options.append(f"advmss {self.packet_bytes - HEADERS_BYTES}")
        return default_route(namespace, " ".join(options)) if options else ""


#: As Linux is.
LINUX = Hosts()
#: As RFC 2581 and RFC 2988 have it, which the papers' simulators follow, with their packets.
OF_2003 = Hosts(
    sack=False,
    by_time=False,
    initial_window_segs=2,
    least_rto_ms=1000,
    first_rto_ms=3000,
    packet_bytes=1000,
)
