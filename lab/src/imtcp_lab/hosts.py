"""The TCP of the end hosts apart from congestion control: Linux's, or that of simulators in 2003.

The papers' controls ran in simulators of 2003, whose TCP differs from Linux's.  Loss recovery,
timers and the first window belong to the kernel, but nearly all have a setting per host, per route
or per connection.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from imtcp_lab.network import default_route

#: Defaults of today's Linux.
LEAST_RTO_MS = 200
FIRST_RTO_MS = 1000
INITIAL_WINDOW_SEGS = 10
#: TCP and IPv4 headers without options.
HEADERS_BYTES = 40


@dataclass(frozen=True)
class Hosts:
    """The TCP of senders and receivers; the defaults are Linux's."""

    #: Selective acknowledgements (RFC 2018).
    sack: bool = True
    #: RACK and tail loss probes (RFC 8985), and F-RTO (RFC 5682); without them three duplicate ACKs
    #: signal a loss.
    by_time: bool = True
    #: Segments of the first flight; two in RFC 2581.
    initial_window_segs: int = INITIAL_WINDOW_SEGS
    #: Minimum retransmission timeout; one second in RFC 2988.
    least_rto_ms: int = LEAST_RTO_MS
    #: Timeout before the first RTT sample; three seconds in RFC 2988.
    first_rto_ms: int = FIRST_RTO_MS
    #: Size of a packet with TCP and IP headers; 0: the MTU of the link.
    packet_bytes: int = 0
    #: Timestamps (RFC 7323).
    timestamps: bool = True

    def __post_init__(self) -> None:
        if min(self.initial_window_segs, self.least_rto_ms, self.first_rto_ms) < 1:
            raise ValueError("a first window and timeouts are at least 1")
        if self.packet_bytes and not 128 <= self.packet_bytes <= 1500:
            raise ValueError("a packet has 128 to 1500 bytes")

    def script(self, namespaces: Sequence[str]) -> str:
        """Shell that sets on each host what differs from Linux's defaults."""
        return "\n".join(filter(None, (self._sysctls(namespaces), *map(self._route, namespaces))))

    def first_rto(self) -> str:
        """Shell that sets the first timeout of all connections in the guest."""
        if self.first_rto_ms == FIRST_RTO_MS:
            return ""
        return f"imtcp-load first-rto --ms {self.first_rto_ms}"

    def _sysctls(self, namespaces: Sequence[str]) -> str:
        settings = []
        if not self.sack:
            settings.append("echo 0 >tcp_sack")
        if not self.by_time:
            # Bit 0 of tcp_recovery is RACK; tcp_early_retrans is the tail loss probe.
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


#: Linux's defaults.
LINUX = Hosts()
#: RFC 2581 and RFC 2988, which the papers' simulators follow, with packets of the simulators' size.
OF_2003 = Hosts(
    sack=False,
    by_time=False,
    initial_window_segs=2,
    least_rto_ms=1000,
    first_rto_ms=3000,
    packet_bytes=1000,
)
