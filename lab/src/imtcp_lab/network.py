"""Shell that builds namespaces, shapers and delays for the topologies."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from imtcp_lab.queues import FRAME_BYTES, STEADY, WayBack

#: A shaper's timer may be this late without losing capacity.
TIMER_SLACK_S = 20e-6
#: Length of a network card's queue on Linux: TCP never fills the queue of its own host.
LINK_BUFFER_PKTS = 1000


def delays_by_source(
    namespace: str, device: str, rtts_ms: Mapping[str, float], way_back: WayBack = STEADY
) -> str:
    """Delays packets that leave a device, each by its source address."""
    bands = _bands(rtts_ms)
    if not bands:
        return ""
    # Packets that no filter matches (ARP, the UDP sink) take the last band, which has no delay.
    last = len(bands)
    lines = [
        f"qdisc add dev {device} root handle 1: prio bands {max(2, last + 1)}"
        f" priomap{f' {last}' * 16}"
    ]
    for address, band in bands.items():
        lines += [
            f"qdisc add {_delay(device, band, way_back.netem(rtts_ms[address]))}",
            f"filter add dev {device} parent 1: protocol ip prio 1"
            f" u32 match ip src {address}/32 flowid 1:{band:x}",
        ]
    return batch(namespace, lines)


def changed_delay(
    device: str,
    rtts_ms: Mapping[str, float],
    address: str,
    rtt_ms: float,
    way_back: WayBack = STEADY,
) -> str:
    """A line for tc that changes the delay of one address."""
    return f"qdisc change {_delay(device, _bands(rtts_ms)[address], way_back.netem(rtt_ms))}"


def _bands(rtts_ms: Mapping[str, float]) -> dict[str, int]:
    """A band for each address that has a delay."""
    waiting = sorted(address for address, ms in rtts_ms.items() if ms > 0)
    return {address: band for band, address in enumerate(waiting, start=1)}


def _delay(device: str, band: int, netem: str) -> str:
    return f"dev {device} parent 1:{band:x} handle {16 + band:x}: {netem}"


def links_by_source(namespace: str, device: str, rates_bps: Mapping[str, float]) -> str:
    """Sends packets that leave a device through the link of their source address, if it has one."""
    if not rates_bps:
        return ""
    lines = [f"qdisc add dev {device} root handle 1: htb"]
    for minor, (address, rate_bps) in enumerate(rates_bps.items(), start=1):
        burst_bytes = frame_burst_bytes(rate_bps)
        lines += [
            f"class add dev {device} parent 1: classid 1:{minor:x} htb rate {rate_bps:.0f}bit"
            f" burst {burst_bytes} cburst {burst_bytes} quantum {FRAME_BYTES}",
            f"qdisc add dev {device} parent 1:{minor:x} pfifo limit {LINK_BUFFER_PKTS}",
            f"filter add dev {device} parent 1: protocol ip prio 1"
            f" u32 match ip src {address}/32 flowid 1:{minor:x}",
        ]
    return batch(namespace, lines)


def batch(namespace: str, lines: list[str]) -> str:
    """Runs many tc lines in one process: each start costs milliseconds of the guest's time."""
    body = "\n".join(lines)
    return f"tc -n {namespace} -batch - <<'EOF'\n{body}\nEOF"


def ip(namespace: str, lines: Sequence[str]) -> str:
    """Runs many lines of ip in one process."""
    body = "\n".join(lines)
    return f"ip -n {namespace} -batch - <<'EOF'\n{body}\nEOF"


def host(namespace: str, device: str, addresses: Sequence[str]) -> str:
    """Gives a host its addresses, and the first address of the network as its default gateway."""
    gateway = addresses[0].rsplit(".", 1)[0] + ".1"
    return ip(
        namespace,
        [
            "link set lo up",
            *(f"addr add {address}/24 dev {device}" for address in addresses),
            f"link set {device} up",
            f"route add default via {gateway}",
        ],
    )


def default_route(namespace: str, options: str) -> str:
    """Changes a host's default route to have TCP options, as in ip-route(8)."""
    return f"ip -n {namespace} route change $(ip -n {namespace} route show default) {options}"


def known_to_each_other(ends: Sequence[tuple[str, str, str]]) -> str:
    """Makes permanent neighbour entries at both ends of a link, each (namespace, device, address).

    A full queue would otherwise lose ARP packets, and connections would find no route.
    """
    lines = []
    for (namespace, device, _), (other, its_device, address) in (ends, ends[::-1]):
        lines.append(
            f"ip -n {namespace} neigh replace {address} dev {device} nud permanent lladdr"
            f" $(ip -n {other} -o link show dev {its_device}"
            " | sed 's/.*ether \\([0-9a-f:]*\\).*/\\1/')"
        )
    return "\n".join(lines)


def prelude(namespaces: Sequence[str]) -> str:
    """Creates the namespaces, lists them in ``$HOSTS`` and defines ``ns``.

    `ip netns exec` mounts a new /sys, which would hide the cgroup and BPF file systems.
    """
    return f"""\
set -eu
HOSTS="{" ".join(namespaces)}"
ns() {{ _ns=$1; shift; nsenter --net=/var/run/netns/"$_ns" "$@"; }}
for n in $HOSTS; do ip netns add $n; done
"""


#: Leaves the kernel's TCP counters of each host: a line of names and a line of numbers per host.
COUNTERS = """\
for n in $HOSTS; do ns $n grep ^TcpExt: /proc/net/netstat; done >"$OUT/netstat"
"""


def host_settings(namespaces: Sequence[str]) -> str:
    """Enlarges TCP's buffers on each host, and turns off its memory of earlier connections.

    Windows must reach beyond a full buffer. A connection must not inherit the window of an earlier
    one, or objects would affect each other.
    """
    return f"""\
for n in {" ".join(namespaces)}; do
  ns $n sh -c 'cd /proc/sys/net/ipv4
    echo "4096 131072 16777216" >tcp_rmem
    echo "4096 65536 16777216" >tcp_wmem
    echo 1 >tcp_no_metrics_save'
done
"""


def shaper(device: str, capacity_bps: float, burst_bytes: int) -> str:
    """A shaper at a rate. Its own limit has no effect once it has a child."""
    return f"qdisc add {_tbf(device, capacity_bps, burst_bytes, 10_000_000)}"


def changed_shaper(device: str, capacity_bps: float, burst_bytes: int, inside: int) -> str:
    """Changes a shaper's rate. tbf passes its limit, `inside`, on to a fifo inside, in the fifo's
    unit."""
    return f"qdisc change {_tbf(device, capacity_bps, burst_bytes, inside)}"


def _tbf(device: str, capacity_bps: float, burst_bytes: int, limit: int) -> str:
    rate = f"rate {capacity_bps:.0f}bit burst {burst_bytes} limit {limit}"
    return f"dev {device} root handle 1: tbf {rate}"


def frame_burst_bytes(capacity_bps: float) -> int:
    """A bucket of one frame plus the bytes that accrue in :data:`TIMER_SLACK_S`."""
    return FRAME_BYTES + max(16, round(capacity_bps * TIMER_SLACK_S / 8))
