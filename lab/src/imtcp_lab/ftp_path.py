"""The path from an FTP server to its client, with other traffic beside it [EN §5.2.2].

::

    srv 10.1.0.2 ── wan ──┐
                          rt ══ link ══ rx 10.9.0.2 client, .3 receiver of other traffic
    oth 10.2.0.2 ─────────┘

Losses happen in ``wan``, behind the server only, as in the thesis's 6-host configuration.  Delays
are on the receivers' way back.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from imtcp_lab.network import (
    batch,
    delays_by_source,
    frame_burst_bytes,
    host,
    host_settings,
    ip,
    prelude,
    shaper,
)
from imtcp_lab.queues import DROPTAIL, discipline
from imtcp_lab.topology import bdp_pkts

#: Rates are lower than the thesis's by this factor.
TIMES_SLOWER = 5
#: [EN §5.2.2]: 100 Mbit/s Ethernet; [EN tables 2, 11 and 12]: delays and buffers.
LINK_BPS = 100e6 / TIMES_SLOWER
FTP_RTT_MS, OTHER_RTT_MS = 50.0, 10.0
FTP_BUFFER_BYTES, OTHER_BUFFER_BYTES = (1 << 20) // TIMES_SLOWER, (128 << 10) // TIMES_SLOWER

SERVER, CLIENT, OTHER_RECEIVER = "10.1.0.2", "10.9.0.2", "10.9.0.3"
#: The device that loses packets, and its other netem options: room for more than a full window.
LOSSY_DEVICE, NETEM = "wan-rt", "limit 1000"


@dataclass(frozen=True)
class FtpPath:
    """The link and the paths to it."""

    capacity_bps: float = LINK_BPS
    #: The socket buffers of the thesis; otherwise those of all other experiments.
    small_buffers: bool = True
    #: Ours: two of the server's round trips, so that a full window of the server fits.
    buffer_pkts: int = round(2 * bdp_pkts(LINK_BPS, FTP_RTT_MS / 1e3))

    def script(self) -> str:
        """A POSIX sh script that builds the path and defines ``ns NAME COMMAND…``."""
        hosts = ("srv", "oth", "rx")
        queue = discipline(DROPTAIL, self.buffer_pkts, self.capacity_bps)
        link = [
            shaper("rt-rx", self.capacity_bps, frame_burst_bytes(self.capacity_bps)),
            f"qdisc add dev rt-rx parent 1:1 handle 10: {queue}",
        ]
        return "\n".join(
            (
                prelude((*hosts, "wan", "rt")),
                _links(),
                host_settings(hosts),
                self._buffers(),
                batch("rt", link),
                batch("wan", [f"qdisc add dev {LOSSY_DEVICE} root netem {NETEM}"]),
                delays_by_source("rx", "rx0", {CLIENT: FTP_RTT_MS, OTHER_RECEIVER: OTHER_RTT_MS}),
                "",
            )
        )

    def _buffers(self) -> str:
        if not self.small_buffers:
            return ""
        return "\n".join(
            (
                _buffers("rx", "tcp_rmem", FTP_BUFFER_BYTES),
                _buffers("oth", "tcp_wmem", OTHER_BUFFER_BYTES),
            )
        )


def _buffers(namespace: str, which: str, buffer_bytes: int) -> str:
    """Sets TCP's buffer for programs that ask for a size: the kernel doubles it, and half of a
    receive buffer is its window."""
    size = 2 * buffer_bytes
    return f"ns {namespace} sh -c 'echo \"4096 {size} {size}\" >/proc/sys/net/ipv4/{which}'"


def _links() -> str:
    pairs = (("srv", "srv0", "wan", "wan-srv"), ("wan", LOSSY_DEVICE, "rt", "rt-wan"),
             ("oth", "oth0", "rt", "rt-oth"), ("rx", "rx0", "rt", "rt-rx"))  # fmt: skip
    lines = [
        f"ip link add {device} netns {namespace} type veth peer name {peer} netns {there}"
        for namespace, device, there, peer in pairs
    ]
    lines += [
        host("srv", "srv0", [SERVER]),
        host("oth", "oth0", ["10.2.0.2"]),
        host("rx", "rx0", [CLIENT, OTHER_RECEIVER]),
        _router(
            "wan",
            {"wan-srv": "10.1.0.1", LOSSY_DEVICE: "10.3.0.2"},
            "route add default via 10.3.0.1",
        ),
        _router(
            "rt",
            {"rt-wan": "10.3.0.1", "rt-oth": "10.2.0.1", "rt-rx": "10.9.0.1"},
            "route add 10.1.0.0/24 via 10.3.0.2",
        ),
    ]
    lines += [
        f"ns {namespace} ethtool -K {device} tso off gso on gro off >/dev/null"
        for namespace, device in (("srv", "srv0"), ("oth", "oth0"), ("rx", "rx0"))
    ]
    return "\n".join(lines)


def _router(namespace: str, addresses: Mapping[str, str], route: str) -> str:
    """A router's address on each device, and its route to the hosts behind another router."""
    lines = [f"addr add {address}/24 dev {device}" for device, address in addresses.items()]
    lines += [f"link set {device} up" for device in addresses]
    forward = f"ns {namespace} sh -c 'echo 1 >/proc/sys/net/ipv4/ip_forward'"
    return f"{ip(namespace, [*lines, route])}\n{forward}"
