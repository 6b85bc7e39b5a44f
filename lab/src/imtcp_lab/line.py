"""Four routers in line [LP figs 16, 19]: three bottlenecks in a row.

::

    s0          s1          s2
    │           │           │
    n0 ══════ n1 ══════ n2 ══════ n3
                │           │           │
                r1          r2          r3

Each link has a sender at its left end and a receiver at its right end.  Traffic goes from any
sender to any receiver further right.  As in the dumbbell, delays are on the receivers' way back.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from imtcp_lab import scenario
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
from imtcp_lab.scenario import Scenario
from imtcp_lab.topology import FRAME_BYTES, PAYLOAD_BYTES
from imtcp_lab.traffic import BULK_PORT, Web, greedy_receiver, shift_us

LINKS = 3
#: (router of the sender, router of the receiver)
Span = tuple[int, int]


def sender(router: int) -> str:
    """The address of the sender at a router."""
    return f"10.1.{router}.2"


def bulk_receiver(router: int) -> str:
    """The address of the bulk receiver at a router."""
    return f"10.9.{router}.2"


def client(router: int) -> str:
    """The address of the web clients at a router."""
    return f"10.9.{router}.11"


@dataclass(frozen=True)
class Line:
    """The line: all links have one capacity and one delay."""

    capacity_bps: float = 1.5e6
    #: Round trip over one link, and over the access links of both ends together.
    link_rtt_ms: float = 40.0
    access_rtt_ms: float = 8.0
    buffer_pkts: int = 15
    #: The spans of greedy flows, and those of the web.
    bulk: tuple[Span, ...] = ()
    web: tuple[Span, ...] = ()

    def __post_init__(self) -> None:
        for left, right in (*self.bulk, *self.web):
            if not 0 <= left < right <= LINKS:
                raise ValueError(f"nothing goes from router {left} to router {right}")

    def rtt_ms(self, span: Span) -> float:
        """Base RTT over a span."""
        return self.access_rtt_ms + (span[1] - span[0]) * self.link_rtt_ms

    def script(self) -> str:
        """A POSIX sh script that builds the line and defines ``ns NAME COMMAND…``."""
        routers = [f"n{k}" for k in range(LINKS + 1)]
        hosts = [f"s{k}" for k in range(LINKS)] + [f"r{k + 1}" for k in range(LINKS)]
        parts = [prelude((*routers, *hosts))]
        parts += [_host(f"s{k}", k, sender(k), []) for k in range(LINKS)]
        parts += [_host(f"r{k}", k, bulk_receiver(k), [client(k)]) for k in range(1, LINKS + 1)]
        parts += [_link(k) for k in range(LINKS)]
        parts += [_routes(k) for k in range(LINKS + 1)]
        parts.append(host_settings(hosts))
        parts += [self._bottleneck(k) for k in range(LINKS)]
        parts += [self._delays(k) for k in range(1, LINKS + 1)]
        return "\n".join((*filter(None, parts), ""))

    def _bottleneck(self, router: int) -> str:
        device = f"n{router}-right"
        queue = discipline(DROPTAIL, self.buffer_pkts, self.capacity_bps)
        return batch(
            f"n{router}",
            [
                shaper(device, self.capacity_bps, frame_burst_bytes(self.capacity_bps)),
                f"qdisc add dev {device} parent 1:1 handle 10: {queue}",
            ],
        )

    def _delays(self, router: int) -> str:
        rtts_ms = {client(s[1]): self.rtt_ms(s) for s in self.web if s[1] == router}
        rtts_ms |= {bulk_receiver(s[1]): self.rtt_ms(s) for s in self.bulk if s[1] == router}
        return delays_by_source(f"r{router}", "eth0", rtts_ms)


def _host(name: str, router: int, address: str, more: Sequence[str]) -> str:
    """Adds a host with its default route at a router."""
    there, gateway = f"n{router}-{name}", address.rsplit(".", 1)[0] + ".1"
    return "\n".join(
        (
            f"ip link add eth0 netns {name} type veth peer name {there} netns n{router}",
            host(name, "eth0", (address, *more)),
            ip(f"n{router}", [f"addr add {gateway}/24 dev {there}", f"link set {there} up"]),
            f"ns {name} ethtool -K eth0 tso off gso on gro off >/dev/null",
        )
    )


def _link(left: int) -> str:
    """Adds the link from a router to the next."""
    right = left + 1
    devices = ((left, f"n{left}-right", 1), (right, f"n{right}-left", 2))
    lines = [
        f"ip link add n{left}-right netns n{left} type veth peer name n{right}-left netns n{right}"
    ]
    lines += [
        ip(f"n{k}", [f"addr add 10.5.{left}.{end}/24 dev {device}", f"link set {device} up"])
        for k, device, end in devices
    ]
    return "\n".join(lines)


def _routes(router: int) -> str:
    """Adds routes to the hosts of the other routers."""
    lines = []
    for other in range(LINKS + 1):
        if other == router:
            continue
        via = f"10.5.{router - 1}.1" if other < router else f"10.5.{router}.2"
        lines += [f"route add 10.{net}.{other}.0/24 via {via}" for net in (1, 9)]
    forward = f"ns n{router} sh -c 'echo 1 >/proc/sys/net/ipv4/ip_forward'"
    return f"{ip(f'n{router}', lines)}\n{forward}"


@dataclass(frozen=True)
class LineScenario(Scenario):
    """A scenario with a result file for each span.

    The files are ``web0.csv`` … and ``bulk0.csv`` …, in the order of the line's spans.
    """

    @property
    def leaves(self) -> tuple[str, ...]:
        """The objects and the bulk transfer's bytes of each span."""
        assert isinstance(self.path, Line)
        spans = {"web": self.path.web, "bulk": () if self.control.is_none else self.path.bulk}
        return tuple(f"{name}{place}" for name, them in spans.items() for place in range(len(them)))

    def script(self) -> str:
        """A POSIX sh script for the whole measurement."""
        line, web = self.path, self.foreground
        assert isinstance(line, Line)
        assert isinstance(web, Web)
        bulk = () if self.control.is_none else line.bulk
        parts = [line.script(), scenario.PROCESSES]
        parts.append(scenario.ALLOW_ALL_CONTROLS)
        parts += [web.server(f"s{span[0]}", sender(span[0])) for span in line.web]
        parts += [_bulk_server(index, span) for index, span in enumerate(bulk)]
        parts.append(scenario.CLOCK)
        parts += [self._web_client(index, span) for index, span in enumerate(line.web)]
        parts += [self._bulk_client(index, span) for index, span in enumerate(bulk)]
        if bulk and self.control.needs_imtcp:
            parts.append(scenario.look_at_connections(self.times))
        parts.append(scenario.end(self.times))
        return "\n".join(parts)

    def _web_client(self, index: int, span: Span) -> str:
        web, line, times = self.foreground, self.path, self.times
        load_bps = web.load * line.capacity_bps * PAYLOAD_BYTES / FRAME_BYTES
        return web.client(
            f"r{span[1]}", [sender(span[0])], [client(span[1])], load_bps, times,
            # Each span has its own arrivals.
            seed=self.seed * LINKS + index, out=f"web{index}.csv",
        )  # fmt: skip

    def _bulk_client(self, index: int, span: Span) -> str:
        start_us = shift_us(self.seed * LINKS + index)
        return (
            f"ns s{span[0]} imtcp-load bulk-client --to {bulk_receiver(span[1])}:{BULK_PORT}"
            f" --cc {self.control.congestion_control} --flows 1 --at-us $((T0 + {start_us}))"
            f' --duration {self.times.total_s:g} & STOP="$STOP $!"\n'
        )


def _bulk_server(index: int, span: Span) -> str:
    listen = f"{bulk_receiver(span[1])}:{BULK_PORT}"
    return greedy_receiver(f"r{span[1]}", listen, f"bulk{index}.csv")
