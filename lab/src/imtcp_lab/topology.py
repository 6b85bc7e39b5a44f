"""The dumbbell: two senders, one bottleneck, receivers at several distances.

::

    bg 10.1.0.2 ─┐
                 rt ══ bottleneck ══ rx 10.9.0.2 background, .3 UDP, .11… foreground
    fg 10.2.0.2 ─┘

Four namespaces and three veth pairs, because virtual time costs one to two
seconds of processor per ten thousand packet hops.

* **Bottleneck**: ``tbf`` on ``rt``'s device towards the receivers, with a bucket of one full frame,
* and of the bytes that accrue in :data:`~imtcp_lab.network.TIMER_SLACK_S`. Inside is a ``pfifo`` of
* the stated number of packets, or another discipline.  A larger bucket lets bursts pass
  above the capacity. No wire does that, and it deceives every measurement of dispersion;
  ``bucket_bytes`` is for experiments about that. An exact single frame would lose the time by which
  the timer is late.  Rates count whole Ethernet frames (1514 bytes for a full packet).
* **Delays**: ``netem`` on ``rx``'s way back, chosen by the receiver's address,
  never on the bottleneck's queue.  A round trip sees the sum either way, and
  acknowledgements are half as many packets to hold.
* **ACKs** on their way back may be thinned, jittered or bunched (:class:`WayBack`).  For
  traffic against the stream (``reverse.py``) the way back is a link of its own.  Its shaper is on
  ``rx``'s device.  The delays are behind it, on ``rt``'s devices towards the senders.
* **Bunches**: packets that have crossed wait in netem's slots, on the ``ifb`` by which ``rx``
  receives.
* **Changes** of rate and round trip while the path is used: tc, beside the traffic
  (``changes.py``).
* **Loss** that is none of congestion: ``netem`` in the place of the ``pfifo``, with its limit;
  around another discipline, which then keeps its own.
* **One host** (``one_host``): ``bg`` and ``fg`` are names of ``rt``, whose own interface is the
  bottleneck.  Their addresses are on its loopback.
* **Segmentation**: TSO off at the senders with GSO on, so the stack builds
  large segments and the device splits them, as behind a network card: the
  bottleneck sees packets of the MTU.  GRO off, ordinary delayed ACKs.
* **Strict priority** (the ideal background, the reference model of [LP §III]): ``prio`` inside the
* shaper. Packets of the background's sender are in the lower band, and each band has the full
* queue.
  Flows of the lower band are served in turn (``fq``), as the model has it; the foreground keeps the
  ``pfifo`` that it has without a background, with which it is compared.
"""

from __future__ import annotations

from dataclasses import dataclass

from imtcp_lab import changes
from imtcp_lab.changes import Change
from imtcp_lab.hosts import LINUX, Hosts
from imtcp_lab.network import (
    batch,
    changed_delay,
    changed_shaper,
    default_route,
    delays_by_source,
    frame_burst_bytes,
    host_settings,
    ip,
    known_to_each_other,
    links_by_source,
    prelude,
    shaper,
)
from imtcp_lab.queues import (
    DROPTAIL,
    FRAME_BYTES,
    LP_ECN,
    QUEUES,
    STEADY,
    WITH_MARKS,
    WayBack,
    discipline,
)

#: TCP payload of such a frame, with timestamps.
PAYLOAD_BYTES = 1448

BACKGROUND_SENDER = "10.1.0.2"
FOREGROUND_SENDER = "10.2.0.2"
BACKGROUND_RECEIVER = "10.9.0.2"
UDP_RECEIVER = "10.9.0.3"
BOTTLENECK_DEVICE = "rt-rx"
#: Handles as the samples name them (major << 16 | minor).
SHAPER_HANDLE = 0x1_0000
HIGH_BAND_HANDLE = 0x11_0000


def bdp_pkts(capacity_bps: float, rtt_s: float) -> float:
    """Bandwidth-delay product in full frames."""
    return capacity_bps * rtt_s / (8 * FRAME_BYTES)


@dataclass(frozen=True)
class Dumbbell:
    """One bottleneck with the paths across it."""

    #: Link rate in bit/s of whole frames.
    capacity_bps: float = 50e6
    #: Round trip of the background's path without queues.
    background_rtt_ms: float = 30.0
    #: Round trips of the foreground's classes of clients: 20 to 200 ms, evenly.
    foreground_rtts_ms: tuple[float, ...] = (20.0, 65.0, 110.0, 155.0, 200.0)
    #: Links of the foreground's servers, one address each; (): one server, and no limit.
    server_links_bps: tuple[float, ...] = ()
    #: DropTail buffer.
    buffer_pkts: int = 1000
    #: Serve the foreground strictly before the background.
    priority: bool = False
    #: The background's host paces its packets by fq, at the rate that its kernel has for each flow.
    paced: bool = False
    #: Share of the packets that the bottleneck loses at random, per cent.
    loss_pct: float = 0.0
    #: Losses come in bursts of so many packets on average; 0: each by itself.
    loss_burst_pkts: float = 0.0
    #: The queue inside the shaper, one of :data:`~imtcp_lab.queues.QUEUES`.
    queue: str = DROPTAIL
    #: The shaper's bucket: bursts up to it pass at once.  0: one frame, as on a wire.
    bucket_bytes: int = 0
    way_back: WayBack = STEADY
    #: Receivers acknowledge every segment at once, as those of the papers' simulators.
    prompt_acks: bool = False
    #: Senders hand their devices one segment at a time, as those of the papers' simulators.
    single_segments: bool = False
    #: The TCP of all hosts.
    hosts: Hosts = LINUX
    #: One in a hundred of the background's packets leaves so late that others overtake it; 0: none.
    reordered_ms: float = 0.0
    #: Packets that have crossed wait up to this, and arrive together, as on a shared medium.
    bunched_ms: float = 0.0
    #: The senders' devices take packets of so many bytes, as a tunnel's.
    mtu_bytes: int = 1500
    #: Changes while the path is used, in the order of time.
    changes: tuple[Change, ...] = ()
    #: Both senders are one host, and its own interface is the bottleneck.
    one_host: bool = False
    #: Both senders are one host, and the bottleneck is behind it: a modem, a provider's shaper.
    one_host_before: bool = False
    #: For kernels without netem and prio: a user-space delay line behind the
    #: bottleneck.  All paths then have the background's round trip.
    delay_line: bool = False

    def __post_init__(self) -> None:
        if self.capacity_bps <= 0 or self.buffer_pkts < 1:
            raise ValueError("a bottleneck needs a capacity and a buffer")
        if min(self.background_rtt_ms, *self.foreground_rtts_ms, self.reordered_ms) < 0:
            raise ValueError("times cannot be negative")
        if len(self.foreground_rtts_ms) > 12:
            raise ValueError("prio has 16 bands: at most 12 classes of clients")
        if len(self.server_links_bps) > 200 or min(self.server_links_bps, default=1) <= 0:
            raise ValueError("at most 200 servers have a link of their own, each with a rate")
        if not 0 <= self.loss_pct < 100:
            raise ValueError("loss is a share of the packets: 0 to 100 per cent")
        if self.queue not in QUEUES:
            raise ValueError(f"unknown queue {self.queue} (known: {', '.join(QUEUES)})")
        if self.bucket_bytes < 0:
            raise ValueError("a bucket holds bytes")
        if self.delay_line and self.priority:
            raise ValueError("strict priority needs a kernel with prio")
        if self.paced and self.reordered_ms:
            raise ValueError("a host paces its packets or reorders them: it has one discipline")
        if self.loss_burst_pkts and not (self.loss_pct and self.loss_burst_pkts > 1):
            raise ValueError(
                "a burst of losses has more than one packet, and a share of them is lost"
            )
        needs_netem = self.loss_pct or self.reordered_ms or self.bunched_ms
        has_links = self.server_links_bps or self.single_segments or self.mtu_bytes != 1500
        together = self.one_host or self.one_host_before
        if together and (has_links or self.paced or self.delay_line or needs_netem):
            raise ValueError("one host has no links of its senders")
        if self.changes and self.priority:
            raise ValueError("nothing says yet how strict priority changes its rate")
        if self.delay_line and (needs_netem or self.way_back != STEADY):
            raise ValueError("loss, reordering and what befalls ACKs need a kernel with netem")

    @property
    def bdp_pkts(self) -> float:
        """Bandwidth-delay product of the background's path in full frames."""
        return bdp_pkts(self.capacity_bps, self.background_rtt_ms / 1e3)

    def mean_capacity_bps(self, start_s: float, end_s: float) -> float:
        """Between two times after ``$T0``."""
        return changes.mean_capacity_bps(self.capacity_bps, self.changes, start_s, end_s)

    @property
    def burst_bytes(self) -> int:
        """The shaper's bucket."""
        return self.bucket_bytes or frame_burst_bytes(self.capacity_bps)

    @property
    def client_addresses(self) -> tuple[str, ...]:
        """The foreground's receivers, one address per round trip."""
        return tuple(f"10.9.0.{11 + i}" for i in range(len(self.foreground_rtts_ms)))

    @property
    def server_addresses(self) -> tuple[str, ...]:
        """The foreground's senders of objects."""
        if not self.server_links_bps:
            return (FOREGROUND_SENDER,)
        return tuple(f"10.2.0.{11 + i}" for i in range(len(self.server_links_bps)))

    @property
    def _namespaces(self) -> tuple[str, ...]:
        if self.one_host:
            return ("rt", "rx")
        return ("bg", "rt", "rx") if self.one_host_before else ("bg", "fg", "rt", "rx", "dl")

    def script(self) -> str:
        """POSIX sh that builds it; defines ``ns NAME COMMAND…``."""
        delays = self._delay_line() if self.delay_line else self._delays()
        parts = [
            prelude(self._namespaces),
            self._links(),
            host_settings(("bg", "fg", "rx")),
            default_route("rx", "quickack 1") if self.prompt_acks else "",
            self.hosts.script(("bg", "fg", "rx")),
            self.hosts.first_rto(),
            *(known_to_each_other(ends) for ends in _HOSTS_AND_ROUTER if self.way_back.link_pkts),
            self._bottleneck(),
            delays,
            self._bunching(),
            self._tunnel(),
            _SINGLE_SEGMENTS if self.single_segments else "",
            self._servers(),
            self._reordering(),
            batch("bg", ["qdisc add dev bg0 root fq"]) if self.paced else "",
            self._thinning(),
        ]
        # Else nobody asks for the marks.
        if self.queue in WITH_MARKS:
            parts.append(_ask_for_marks("bg", "fg", "rx"))
        if self.queue == LP_ECN:
            # The background alone: the foreground is what should not notice [LP §IV-A].
            parts.append(_ask_for_marks("bg"))
        return "\n".join((*filter(None, parts), ""))

    def changing(self) -> str:
        """POSIX sh that makes the changes, once ``$T0`` is known."""
        return changes.script(self.changes, [self._commands_of(c) for c in self.changes])

    def _commands_of(self, change: Change) -> list[tuple[str, str]]:
        bucket_bytes = max(frame_burst_bytes(change.capacity_bps), self.bucket_bytes)
        rate = (BOTTLENECK_DEVICE, change.capacity_bps, bucket_bytes, self.buffer_pkts)
        commands = [("rt", changed_shaper(*rate))]
        if change.rtt_ms is not None:
            delay = ("rx0", self._rtts_ms, BACKGROUND_RECEIVER, change.rtt_ms, self.way_back)
            commands.append(("rx", changed_delay(*delay)))
        return commands

    def _links(self) -> str:
        links = _ONE_HOST if self.one_host else _LINKS
        if self.one_host_before:
            links = _ONE_HOST_BEFORE
        clients = "\n".join(
            f"addr add {address}/24 dev rx0" for address in (UDP_RECEIVER, *self.client_addresses)
        )
        receivers = _RECEIVERS_DELAY_LINE if self.delay_line else _RECEIVERS
        links = links.replace("@RX@", _RX)
        return links.replace("@CLIENTS@", clients).replace("@RECEIVERS@", receivers)

    def _bottleneck(self) -> str:
        lines = [
            shaper(BOTTLENECK_DEVICE, self.capacity_bps, self.burst_bytes),
        ]
        if self.priority:
            lines += [
                f"qdisc add dev {BOTTLENECK_DEVICE} parent 1:1 handle 10:"
                f" prio bands 2 priomap{' 0' * 16}",
                *self._queue("10:1", "11"),
                *self._queue("10:2", "12", fair=True),
                f"filter add dev {BOTTLENECK_DEVICE} parent 10: protocol ip prio 1"
                f" u32 match ip src {BACKGROUND_SENDER}/32 flowid 10:2",
            ]
        else:
            lines += self._queue("1:1", "10")
        return batch("rt", lines)

    def _queue(self, parent: str, handle: str, *, fair: bool = False) -> list[str]:
        """The buffer below `parent`, with its loss; `fair`: flows take turns in a DropTail."""
        add = f"qdisc add dev {BOTTLENECK_DEVICE} parent"
        inside = discipline(self.queue, self.buffer_pkts, self.capacity_bps)
        if fair and self.queue == DROPTAIL:
            inside = f"fq limit {self.buffer_pkts} flow_limit {self.buffer_pkts} nopacing"
        if not self.loss_pct:
            return [f"{add} {parent} handle {handle}: {inside}"]
        loss = f"netem loss {self._loss()} limit"
        if self.queue == DROPTAIL:
            return [f"{add} {parent} handle {handle}: {loss} {self.buffer_pkts}"]
        return [
            f"{add} {parent} handle {handle}: {loss} 100000",
            f"{add} {handle}:1 handle {handle}0: {inside}",
        ]

    def _loss(self) -> str:
        if not self.loss_burst_pkts:
            return f"{self.loss_pct:g}%"
        # Two states, of which one loses all: left after a burst's mean length, entered so often
        # that the share of packets in it is that which is lost.
        leave = 1 / self.loss_burst_pkts
        enter = leave * self.loss_pct / (100 - self.loss_pct)
        return f"gemodel {enter * 100:.6g}% {leave * 100:.6g}%"

    def _bunching(self) -> str:
        if not self.bunched_ms:
            return ""
        slots = f"netem slot {self.bunched_ms:g}ms limit 100000"
        redirect = "matchall action mirred egress redirect dev ifb0"
        return "\n".join(
            (
                ip("rx", ["link add ifb0 type ifb", "link set ifb0 up"]),
                batch(
                    "rx",
                    [
                        f"qdisc add dev ifb0 root {slots}",
                        "qdisc add dev rx0 ingress",
                        f"filter add dev rx0 parent ffff: protocol all prio 1 {redirect}",
                    ],
                ),
            )
        )

    def _tunnel(self) -> str:
        if self.mtu_bytes == 1500:
            return ""
        return "\n".join(
            ip(namespace, [f"link set {device} mtu {self.mtu_bytes}"])
            for namespace, device in (("bg", "bg0"), ("fg", "fg0"))
        )

    def _servers(self) -> str:
        links = dict(zip(self.server_addresses, self.server_links_bps, strict=False))
        added = [f"addr add {address}/24 dev fg0" for address in links]
        return "\n".join((ip("fg", added), links_by_source("fg", "fg0", links))) if links else ""

    def _reordering(self) -> str:
        if not self.reordered_ms:
            return ""
        # netem puts what does not wait before what does: in front of an empty queue that is order.
        late = f"netem delay {self.reordered_ms * 1000:.0f}us reorder 99% limit 100000"
        return batch("bg", [f"qdisc add dev bg0 root {late}"])

    def _thinning(self) -> str:
        link = self.way_back.filter(self.capacity_bps)
        if link is None:
            return ""
        return batch("rt", [f"qdisc add dev {dev} root {link}" for dev in ("rt-bg", "rt-fg")])

    def _delay_line(self) -> str:
        one_way_us = self.background_rtt_ms * 1000 / 2
        # It must be between the two before the first packet is lost to nobody.
        return (
            f"ns dl imtcp-delayline --delay-us {one_way_us:.0f} dl-rt dl-rx & DELAY_LINE=$!\n"
            "trap 'kill $DELAY_LINE' EXIT\n"
            "sleep 0.2"
        )

    @property
    def _rtts_ms(self) -> dict[str, float]:
        """Of each receiver."""
        clients = dict(zip(self.client_addresses, self.foreground_rtts_ms, strict=True))
        return clients | {BACKGROUND_RECEIVER: self.background_rtt_ms}

    def _delays(self) -> str:
        clients = self._rtts_ms
        if not self.way_back.link_pkts:
            return delays_by_source("rx", "rx0", clients, self.way_back)
        background = {BACKGROUND_RECEIVER: clients.pop(BACKGROUND_RECEIVER)}
        link_bps = self.capacity_bps * self.way_back.link_share
        link = [
            shaper("rx0", link_bps, frame_burst_bytes(link_bps)),
            "qdisc add dev rx0 parent 1:1 handle 10: "
            + discipline(DROPTAIL, self.way_back.link_pkts, link_bps),
        ]
        return "\n".join(
            (
                batch("rx", link),
                delays_by_source("rt", "rt-bg", background, self.way_back),
                delays_by_source("rt", "rt-fg", clients, self.way_back),
            )
        )


def _ask_for_marks(*namespaces: str) -> str:
    return "\n".join(f"ns {n} sh -c 'echo 1 >/proc/sys/net/ipv4/tcp_ecn'" for n in namespaces)


_RECEIVERS = "link add rx0 netns rx type veth peer name rt-rx netns rt"
_RECEIVERS_DELAY_LINE = """\
link add dl-rt netns dl type veth peer name rt-rx netns rt
link add rx0 netns rx type veth peer name dl-rx netns dl
EOF
ip -n dl -batch - <<'EOF'
link set dl-rt up
link set dl-rx up"""

_SINGLE_SEGMENTS = """\
ip -n bg link set bg0 gso_max_segs 1
ip -n fg link set fg0 gso_max_segs 1"""

#: The links whose way back may have a queue.
_HOSTS_AND_ROUTER = (
    (("bg", "bg0", "10.1.0.2"), ("rt", "rt-bg", "10.1.0.1")),
    (("fg", "fg0", "10.2.0.2"), ("rt", "rt-fg", "10.2.0.1")),
)

_RX = """\
ip -n rx -batch - <<'EOF'
link set lo up
addr add 10.9.0.2/24 dev rx0
@CLIENTS@
link set rx0 up
route add default via 10.9.0.1
EOF"""

_LINKS = """\
ip -batch - <<'EOF'
link add bg0 netns bg type veth peer name rt-bg netns rt
link add fg0 netns fg type veth peer name rt-fg netns rt
@RECEIVERS@
EOF
ip -n bg -batch - <<'EOF'
link set lo up
addr add 10.1.0.2/24 dev bg0
link set bg0 up
route add default via 10.1.0.1
EOF
ip -n fg -batch - <<'EOF'
link set lo up
addr add 10.2.0.2/24 dev fg0
link set fg0 up
route add default via 10.2.0.1
EOF
ip -n rt -batch - <<'EOF'
addr add 10.1.0.1/24 dev rt-bg
addr add 10.2.0.1/24 dev rt-fg
addr add 10.9.0.1/24 dev rt-rx
link set rt-bg up
link set rt-fg up
link set rt-rx up
EOF
@RX@
ns bg ethtool -K bg0 tso off gso on gro off >/dev/null
ns fg ethtool -K fg0 tso off gso on gro off >/dev/null
ns rx ethtool -K rx0 tso off gso on gro off >/dev/null
ns rt sh -c 'echo 1 >/proc/sys/net/ipv4/ip_forward'
"""

#: The background's receiver is reached from the background's address.
_ONE_HOST = """\
for n in bg fg; do touch /var/run/netns/$n; mount --bind /var/run/netns/rt /var/run/netns/$n; done
ip -batch - <<'EOF'
@RECEIVERS@
EOF
ip -n rt -batch - <<'EOF'
link set lo up
addr add 10.1.0.2/32 dev lo
addr add 10.2.0.2/32 dev lo
addr add 10.9.0.1/24 dev rt-rx
link set rt-rx up
route add 10.9.0.2/32 dev rt-rx src 10.1.0.2
EOF
@RX@
ns rt ethtool -K rt-rx tso off gso on gro off >/dev/null
ns rx ethtool -K rx0 tso off gso on gro off >/dev/null
"""

_ONE_HOST_BEFORE = """\
touch /var/run/netns/fg; mount --bind /var/run/netns/bg /var/run/netns/fg
ip -batch - <<'EOF'
link add bg0 netns bg type veth peer name rt-bg netns rt
@RECEIVERS@
EOF
ip -n bg -batch - <<'EOF'
link set lo up
addr add 10.1.0.2/24 dev bg0
addr add 10.2.0.2/32 dev lo
link set bg0 up
route add 10.9.0.2/32 via 10.1.0.1 src 10.1.0.2
route add default via 10.1.0.1 src 10.2.0.2
EOF
ip -n rt -batch - <<'EOF'
addr add 10.1.0.1/24 dev rt-bg
addr add 10.9.0.1/24 dev rt-rx
link set rt-bg up
link set rt-rx up
route add 10.2.0.2/32 via 10.1.0.2
EOF
@RX@
ns bg ethtool -K bg0 tso off gso on gro off >/dev/null
ns rx ethtool -K rx0 tso off gso on gro off >/dev/null
ns rt sh -c 'echo 1 >/proc/sys/net/ipv4/ip_forward'
"""
