"""The server's way to its client, with losses of its own, and the others' [EN §5.2.2].

::

    srv 10.1.0.2 ── wan ──┐
                          rt ══ link ══ rx 10.9.0.2 client, .3 receiver of other traffic
    oth 10.2.0.2 ─────────┘

The losses are in ``wan``, behind the server alone, as in the thesis's 6-host configuration; delays
on the receivers' way back.
"""

from __future__ import annotations

from dataclasses import dataclass

from imtcp_lab.network import (
    batch,
    delays_by_source,
    frame_burst_bytes,
    host_settings,
    prelude,
    shaper,
)
from imtcp_lab.queues import DROPTAIL, discipline
from imtcp_lab.topology import bdp_pkts

#: Rates are so much lower than the thesis's.
TIMES_SLOWER = 5
#: [EN §5.2.2]: 100 Mbit/s Ethernet; [EN tables 2, 11 and 12]: delays and buffers.
LINK_BPS = 100e6 / TIMES_SLOWER
FTP_RTT_MS, OTHER_RTT_MS = 50.0, 10.0
FTP_BUFFER_BYTES, OTHER_BUFFER_BYTES = (1 << 20) // TIMES_SLOWER, (128 << 10) // TIMES_SLOWER

SERVER, CLIENT, OTHER_RECEIVER = "10.1.0.2", "10.9.0.2", "10.9.0.3"
#: Where losses are made, and what else that netem has: room for more than a whole window.
LOSSY_DEVICE, NETEM = "wan-rt", "limit 1000"


@dataclass(frozen=True)
class FtpPath:
    """The link and the ways to it."""

    capacity_bps: float = LINK_BPS
    #: The thesis's socket buffers; else as large as everywhere here.
    small_buffers: bool = True
    #: Ours: two round trips of the server's, where a window of all its buffer does not overflow it.
    buffer_pkts: int = round(2 * bdp_pkts(LINK_BPS, FTP_RTT_MS / 1e3))

    def script(self) -> str:
        """POSIX sh that builds it; defines ``ns NAME COMMAND…``."""
        hosts = ("srv", "oth", "rx")
        queue = discipline(DROPTAIL, self.buffer_pkts, self.capacity_bps)
        link = [
            shaper("rt-rx", self.capacity_bps, frame_burst_bytes(self.capacity_bps)),
            f"qdisc add dev rt-rx parent 1:1 handle 10: {queue}",
        ]
        return "\n".join(
            (
                prelude((*hosts, "wan", "rt")),
                _LINKS,
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
    """Those of programs that ask for so much: the kernel doubles it, and half of a receiver's is
    its window."""
    size = 2 * buffer_bytes
    return f"ns {namespace} sh -c 'echo \"4096 {size} {size}\" >/proc/sys/net/ipv4/{which}'"


_LINKS = """\
ip -batch - <<'EOF'
link add srv0 netns srv type veth peer name wan-srv netns wan
link add wan-rt netns wan type veth peer name rt-wan netns rt
link add oth0 netns oth type veth peer name rt-oth netns rt
link add rx0 netns rx type veth peer name rt-rx netns rt
EOF
ip -n srv -batch - <<'EOF'
link set lo up
addr add 10.1.0.2/24 dev srv0
link set srv0 up
route add default via 10.1.0.1
EOF
ip -n wan -batch - <<'EOF'
addr add 10.1.0.1/24 dev wan-srv
addr add 10.3.0.2/24 dev wan-rt
link set wan-srv up
link set wan-rt up
route add default via 10.3.0.1
EOF
ip -n oth -batch - <<'EOF'
link set lo up
addr add 10.2.0.2/24 dev oth0
link set oth0 up
route add default via 10.2.0.1
EOF
ip -n rt -batch - <<'EOF'
addr add 10.3.0.1/24 dev rt-wan
addr add 10.2.0.1/24 dev rt-oth
addr add 10.9.0.1/24 dev rt-rx
link set rt-wan up
link set rt-oth up
link set rt-rx up
route add 10.1.0.0/24 via 10.3.0.2
EOF
ip -n rx -batch - <<'EOF'
link set lo up
addr add 10.9.0.2/24 dev rx0
addr add 10.9.0.3/24 dev rx0
link set rx0 up
route add default via 10.9.0.1
EOF
ns srv ethtool -K srv0 tso off gso on gro off >/dev/null
ns oth ethtool -K oth0 tso off gso on gro off >/dev/null
ns rx ethtool -K rx0 tso off gso on gro off >/dev/null
for n in wan rt; do ns $n sh -c 'echo 1 >/proc/sys/net/ipv4/ip_forward'; done"""
