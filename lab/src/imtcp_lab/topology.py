"""The dumbbell: two senders, one bottleneck, receivers at several distances.

::

    bg 10.1.0.2 ─┐
                 rt ══ bottleneck ══ rx 10.9.0.2 background, .3 UDP, .11… foreground
    fg 10.2.0.2 ─┘

Packets cross only four namespaces and three veth pairs, because each hop costs processor time in
virtual time.

* **Bottleneck**: ``tbf`` on ``rt``'s device towards the receivers, with a ``pfifo`` or another
  discipline inside.  Its bucket holds one full frame plus the bytes that accrue in
  :data:`~imtcp_lab.network.TIMER_SLACK_S`: with exactly one frame, each late timer would lose
  capacity.  A larger bucket (``bucket_bytes``) lets bursts pass above the capacity. A wire never
  does so, and such bursts spoil every measurement of dispersion.  Rates count whole Ethernet frames
  (1514 bytes for a full packet).

* **Delays**: ``netem`` on ``rx``'s way back, chosen by the receiver's address, never on the
  bottleneck's queue.  A round trip is the sum of both ways, so this place is as good as another,
  and it holds only half as many packets: the ACKs.

* **ACKs** on their way back may be thinned, jittered or bunched (:class:`WayBack`).  For traffic in
  the reverse direction (``reverse.py``) the way back becomes a link of its own: its shaper is on
  ``rx``'s device, and the delays follow on ``rt``'s devices towards the senders.

* **Bunches**: ``netem`` slots hold packets that have crossed the bottleneck. They are on the
  ``ifb`` through which ``rx`` receives.

* **Changes** of rate and round trip during a run: ``tc`` commands beside the traffic
  (``changes.py``).

* **Random loss**: ``netem`` takes the place of the ``pfifo`` and its limit.  With another
  discipline, ``netem`` stands around it, and the discipline keeps its own limit.

* **One host** (``one_host``): ``bg`` and ``fg`` are further names of ``rt``, and its own interface
  is the bottleneck.  The senders' addresses are on its loopback.  With ``one_host_before`` both
  names are one host before ``rt``.

* **Segmentation**: the senders have TSO off and GSO on. So the stack builds large segments and the
  device splits them, as a network card does: the bottleneck sees packets of the MTU.  GRO is off,
  and delayed ACKs are the ordinary ones.

* **Strict priority** (the ideal background, the reference model of [LP §III]): ``prio`` inside the
  shaper, with the background's packets in the lower band and a full queue for each band.  As in the
  model, ``fq`` serves the background's flows in turn.  The foreground keeps its ``pfifo``, so its
  run can be compared with the run without a background.
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

#: TCP payload of a full frame, with timestamps.
PAYLOAD_BYTES = 1448

BACKGROUND_SENDER = "10.1.0.2"
FOREGROUND_SENDER = "10.2.0.2"
BACKGROUND_RECEIVER = "10.9.0.2"
UDP_RECEIVER = "10.9.0.3"
BOTTLENECK_DEVICE = "rt-rx"
#: Handles as the queue samples name them (major << 16 | minor).
SHAPER_HANDLE = 0x1_0000
HIGH_BAND_HANDLE = 0x11_0000


def bdp_pkts(capacity_bps: float, rtt_s: float) -> float:
    """Bandwidth-delay product in full frames."""
    return capacity_bps * rtt_s / (8 * FRAME_BYTES)


@dataclass(frozen=True)
class Dumbbell:
    """One bottleneck and the paths across it."""

    #: Link rate in bit/s of whole frames.
    capacity_bps: float = 50e6
    #: Base RTT of the background.
    background_rtt_ms: float = 30.0
    #: Base RTTs of the foreground's classes of clients, evenly spaced from 20 to 200 ms.
    foreground_rtts_ms: tuple[float, ...] = (20.0, 65.0, 110.0, 155.0, 200.0)
    #: Link rates of the foreground's servers, one address each; (): one server without a limit.
    server_links_bps: tuple[float, ...] = ()
    #: Packets that the queue holds.
    buffer_pkts: int = 1000
    #: The bottleneck serves the foreground strictly before the background.
    priority: bool = False
    #: The background's host paces its packets with fq, at the rate that the kernel sets per flow.
    paced: bool = False
    #: Share of the packets that the bottleneck loses at random, in per cent.
    loss_pct: float = 0.0
    #: Mean length of a burst of losses; 0: losses are independent.
    loss_burst_pkts: float = 0.0
    #: The queue inside the shaper, one of :data:`~imtcp_lab.queues.QUEUES`.
    queue: str = DROPTAIL
    #: Size of the shaper's bucket: bursts up to it pass at once.  0: one frame, as on a wire.
    bucket_bytes: int = 0
    way_back: WayBack = STEADY
    #: Receivers acknowledge every segment at once, as in the papers' simulators.
    prompt_acks: bool = False
    #: Senders hand their devices one segment at a time, as in the papers' simulators.
    single_segments: bool = False
    #: The TCP of all hosts.
    hosts: Hosts = LINUX
    #: Delay of one in a hundred of the background's packets, so that others overtake it; 0: none.
    reordered_ms: float = 0.0
    #: Packets that crossed the bottleneck wait up to this time and arrive together, as on a shared
    #: medium.
    bunched_ms: float = 0.0
    #: MTU of the senders' devices; a tunnel's is smaller.
    mtu_bytes: int = 1500
    #: Changes of the path during the run, in order of time.
    changes: tuple[Change, ...] = ()
    #: Both senders are one host, and its own interface is the bottleneck.
    one_host: bool = False
    #: Both senders are one host, and the bottleneck is behind it: a modem, a provider's shaper.
    one_host_before: bool = False
    #: For kernels without netem and prio: a delay line in user space, behind the bottleneck.  All
    #: paths then have the background's round trip.
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
        """The mean capacity between two times after ``$T0``."""
        return changes.mean_capacity_bps(self.capacity_bps, self.changes, start_s, end_s)

    @property
    def burst_bytes(self) -> int:
        """The size of the shaper's bucket."""
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
        """A POSIX sh script that builds the dumbbell and defines ``ns NAME COMMAND…``."""
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
        # Hosts must ask for marks; no host does by default.
        if self.queue in WITH_MARKS:
            parts.append(_ask_for_marks("bg", "fg", "rx"))
        if self.queue == LP_ECN:
            # Only the background asks for marks: the foreground must notice nothing [LP §IV-A].
            parts.append(_ask_for_marks("bg"))
        return "\n".join((*filter(None, parts), ""))

    def changing(self) -> str:
        """POSIX sh that makes the changes; it needs ``$T0``."""
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
        """The queue below `parent`, with its random loss. `fair`: flows take turns if it is a
        DropTail."""
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
        # A Gilbert-Elliott model: its bad state loses every packet. The bad state lasts one burst
        # on average, and the share of packets in it is the wanted loss.
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
        # netem puts packets without delay at the head of its queue. If the queue is empty, they
        # stay in order.
        late = f"netem delay {self.reordered_ms * 1000:.0f}us reorder 99% limit 100000"
        return batch("bg", [f"qdisc add dev bg0 root {late}"])

    def _thinning(self) -> str:
        link = self.way_back.filter(self.capacity_bps)
        if link is None:
            return ""
        return batch("rt", [f"qdisc add dev {dev} root {link}" for dev in ("rt-bg", "rt-fg")])

    def _delay_line(self) -> str:
        one_way_us = self.background_rtt_ms * 1000 / 2
        # Wait until the delay line has opened both devices; before, it would lose packets.
        return (
            f"ns dl imtcp-delayline --delay-us {one_way_us:.0f} dl-rt dl-rx & DELAY_LINE=$!\n"
            "trap 'kill $DELAY_LINE' EXIT\n"
            "sleep 0.2"
        )

    @property
    def _rtts_ms(self) -> dict[str, float]:
        """Base RTT of each receiver."""
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

#: The links between hosts and router that may have a queue on the way back.
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

#: The route to the background's receiver has the background's address as its source.
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
