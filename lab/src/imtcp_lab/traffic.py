"""Traffic across the bottleneck, as shell lines that start it.

``prepare`` runs before the clock starts: servers, files.  ``start`` starts processes that begin at
``$T0`` by themselves.  Traffic that ends by itself adds its process to ``$WAIT``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from imtcp_lab.controls import Control
from imtcp_lab.network import default_route
from imtcp_lab.topology import (
    BACKGROUND_RECEIVER,
    FRAME_BYTES,
    PAYLOAD_BYTES,
    UDP_RECEIVER,
    Dumbbell,
)

WEB_PORT = 8080
BULK_PORT = 5001
RIVAL_PORT = 5002
UDP_PORT = 6000
RSYNC_PORT = 873


@dataclass(frozen=True)
class Times:
    """The phases of a run, in seconds after ``$T0``."""

    #: Not measured: slow start and the first arrivals.
    warmup_s: float = 4.0
    #: The measurement.
    measure_s: float = 15.0
    #: Time for objects that arrived during the measurement to end.
    drain_s: float = 3.0

    @property
    def active_s(self) -> float:
        """The time during which new objects arrive."""
        return self.warmup_s + self.measure_s

    @property
    def total_s(self) -> float:
        """The whole run."""
        return self.active_s + self.drain_s


def shift_us(seed: int) -> int:
    """Shift of the flows' start by a seed: up to 30 ms, a round trip."""
    return seed * 7919 % 30_000


def shift_s(seed: int) -> float:
    """The same in seconds."""
    return shift_us(seed) / 1e6


class Foreground(Protocol):
    """Traffic that must not suffer."""

    @property
    def leaves(self) -> tuple[str, ...]:
        """Tables that a run must leave to be valid."""
        ...

    def prepare(self, path: Dumbbell) -> str: ...

    def start(self, path: Dumbbell, times: Times, seed: int) -> str: ...


class Background(Protocol):
    """Traffic that should yield."""

    def prepare(self, path: Dumbbell, control: Control) -> str: ...

    def start(self, path: Dumbbell, control: Control, times: Times) -> str: ...


@dataclass(frozen=True)
class Web:
    """Web-like objects, a connection each, with sizes from a bounded Pareto distribution.

    Either objects arrive at Poisson times and wait for nothing, or readers ask for a page, think,
    and ask for the next.
    """

    #: Mean load as a share of the capacity, in whole frames; unused with readers.
    load: float = 0.4
    #: Readers per server, in place of a load.
    readers: int = 0
    #: Mean time for which a reader thinks.
    think_s: float = 1.0
    mean_bytes: int = 60_000
    max_bytes: int = 2_000_000
    shape: float = 1.2
    #: Objects of a page: a client asks for them one after another, 1 ms apart on average. The
    #: arrivals are pages.
    page_objects: int = 1
    #: Congestion control of the servers.
    congestion_control: str = "cubic"
    #: Initial window of the servers, in segments; None: Linux's default, ten.
    initial_window_segs: int | None = None
    leaves = ("web",)

    def prepare(self, path: Dumbbell) -> str:
        """Starts the servers: one program for all."""
        return self.server("fg", "0.0.0.0")

    def server(self, namespace: str, address: str) -> str:
        """Starts the server of a host."""
        window = ""
        if self.initial_window_segs is not None:
            window = default_route(namespace, f"initcwnd {self.initial_window_segs}") + "\n"
        return (
            f"{window}ns {namespace} imtcp-load web-server --listen {address}:{WEB_PORT}"
            f' --cc {self.congestion_control} & STOP="$STOP $!"\n'
        )

    def start(self, path: Dumbbell, times: Times, seed: int) -> str:
        """Starts the clients; they end with the last object, or when the drain is over."""
        payload_bps = self.load * path.capacity_bps * PAYLOAD_BYTES / FRAME_BYTES
        clients = path.client_addresses
        return self.client("rx", path.server_addresses, clients, payload_bps, times, seed)

    def client(
        self,
        namespace: str,
        servers: Sequence[str],
        addresses: Sequence[str],
        payload_bps: float,
        times: Times,
        seed: int,
        out: str = "web.csv",
    ) -> str:
        """Starts the clients of some servers, all in one program."""
        asked = f"--load {payload_bps:.0f}"
        if self.readers:
            asked = f"--sessions {self.readers} --think {self.think_s:g}"
        return (
            f"ns {namespace} imtcp-load web-client"
            f" --to {','.join(f'{server}:{WEB_PORT}' for server in servers)}"
            f" --from {','.join(addresses)} {asked}"
            f" --mean-size {self.mean_bytes} --max-size {self.max_bytes} --shape {self.shape}"
            f" --page-objects {self.page_objects}"
            f" --seed {seed} --at-us $T0 --duration {times.active_s:g}"
            f' --drain {times.drain_s:g} --out "$OUT/{out}" & WAIT="$WAIT $!"\n'
        )


@dataclass(frozen=True)
class Udp:
    """Unresponsive cross traffic with a rate schedule (see ``imtcp-load udp``)."""

    schedule: str
    #: Frame sizes, each drawn with the same probability; repeat one to give it more weight.
    frames: tuple[int, ...] = (FRAME_BYTES,)
    #: Resolution of the delays that the receiver records.
    wake_us: int = 5000
    #: Interval over which the receiver counts packets.
    interval_us: int = 100_000
    leaves = ("udp",)

    def prepare(self, path: Dumbbell) -> str:
        """A sink, so that no ICMP errors come back."""
        # 100 ms is the default of the program.
        counted = "" if self.interval_us == 100_000 else f" --interval {self.interval_us}us"
        return (
            f"{program('rx')} imtcp-load udp-sink --listen {UDP_RECEIVER}:{UDP_PORT}"
            f' --wake {self.wake_us}us{counted} --out "$OUT/udp.csv" & STOP="$STOP $!"\n'
        )

    def start(self, path: Dumbbell, times: Times, seed: int) -> str:
        """Starts the sender."""
        frames = ",".join(map(str, self.frames))
        return (
            f"ns fg imtcp-load udp --to {UDP_RECEIVER}:{UDP_PORT}"
            f" --schedule {self.schedule} --frames {frames} --seed {seed}"
            f' --at-us $T0 --duration {times.total_s:g} & WAIT="$WAIT $!"\n'
        )


#: A G.711 call: 160 bytes of sound every 20 ms, with headers of RTP, UDP, IPv4 and Ethernet.
VOICE_FRAME_BYTES = 160 + 12 + 8 + 20 + 14
VOICE_INTERVAL_S = 0.020


def voice(calls: int) -> Udp:
    """Several calls, with their packets evenly spaced."""
    rate_bps = calls * VOICE_FRAME_BYTES * 8 / VOICE_INTERVAL_S
    return Udp(f"0:{rate_bps:.0f}", frames=(VOICE_FRAME_BYTES,), wake_us=200)


#: Ours: one direction of a video call in high definition.
CALL_BPS, CALL_FRAME_BYTES = 2.5e6, 1200


def call() -> Udp:
    """A video call; the receiver records each packet."""
    interval_us = int(CALL_FRAME_BYTES * 8 / CALL_BPS * 1e6)
    schedule = f"0:{CALL_BPS:.0f}"
    return Udp(schedule, (CALL_FRAME_BYTES,), wake_us=200, interval_us=interval_us)


def program(namespace: str) -> str:
    """Prefix for a program that needs a signal to end: behind `ns`, $! would be the shell's id."""
    return f"nsenter --net=/var/run/netns/{namespace}"


def greedy_receiver(namespace: str, listen: str, out: str) -> str:
    """Starts a receiver of greedy flows that counts bytes."""
    return (
        f"{program(namespace)} imtcp-load bulk-server --listen {listen}"
        f' --out "$OUT/{out}" & STOP="$STOP $!"\n'
    )


def _rivals_receiver(path: Dumbbell) -> str:
    """Starts the receiver of rivals, at the round trip of the first client."""
    return greedy_receiver("rx", f"{path.client_addresses[0]}:{RIVAL_PORT}", "rival.csv")


@dataclass(frozen=True)
class Rival:
    """Greedy foreground flows with an ordinary congestion control."""

    congestion_control: str = "cubic"
    flows: int = 1
    #: Seconds after ``$T0`` at which the flows stop; None: at the end of the run.
    end_s: float | None = None
    leaves = ("rival",)

    def prepare(self, path: Dumbbell) -> str:
        """Starts the receiver."""
        return _rivals_receiver(path)

    def start(self, path: Dumbbell, times: Times, seed: int) -> str:
        """Starts the flows; the seed shifts them by up to a round trip."""
        seconds = times.total_s if self.end_s is None else self.end_s
        return (
            f"ns fg imtcp-load bulk-client --to {path.client_addresses[0]}:{RIVAL_PORT}"
            f" --cc {self.congestion_control} --flows {self.flows}"
            f" --at-us $((T0 + {shift_us(seed)}))"
            f' --duration {seconds:g} & STOP="$STOP $!"\n'
        )


@dataclass(frozen=True)
class Steady:
    """Foreground flows of a constant rate that join one after another."""

    flows: int
    #: Payload rate of each flow.
    flow_bps: float
    #: Delay between the starts of two flows.
    stagger_s: float
    leaves = ("rival",)

    def prepare(self, path: Dumbbell) -> str:
        """Starts the receiver."""
        return _rivals_receiver(path)

    def start(self, path: Dumbbell, times: Times, seed: int) -> str:
        """Starts the flows. Their control is Reno; it does not matter while nothing is lost."""
        return (
            f"ns fg imtcp-load bulk-client --to {path.client_addresses[0]}:{RIVAL_PORT} --cc reno"
            f" --flows {self.flows} --stagger {self.stagger_s:g} --max-rate {self.flow_bps:.0f}"
            f' --at-us $T0 --duration {times.total_s:g} & STOP="$STOP $!"\n'
        )


def _receive_bulk(control: Control) -> str:
    """Starts the background's receiver, which counts bytes per flow."""
    run = ""
    if control.receives:
        run = f"imtcp run --mode {control.run_mode} --direction both -- "
    return (
        f"ns rx {run}imtcp-load bulk-server --listen {BACKGROUND_RECEIVER}:{BULK_PORT}"
        f' --out "$OUT/bulk.csv" & STOP="$STOP $!"\n'
    )


def _send_bulk(
    control: Control, options: str, start_s: float, seconds: float, params: tuple[str, ...] = ()
) -> str:
    """Starts one sender of greedy flows.

    A socket option sets the control, or ``imtcp run`` does if there are parameters.
    """
    prefix, chosen = "ns bg ", f" --cc {control.congestion_control}"
    if control.by_run or (
        (control.params or params) and control.run_mode is not None and not control.receives
    ):
        prefix = program_prefix(control, params)
        chosen = ""
    return (
        f"{prefix}imtcp-load bulk-client --to {BACKGROUND_RECEIVER}:{BULK_PORT}{chosen} {options}"
        f" --at-us $((T0 + {start_s * 1e6:.0f}))"
        f' --duration {seconds:g} & STOP="$STOP $!"\n'
    )


@dataclass(frozen=True)
class Bulk:
    """Greedy background flows from one program."""

    flows: int = 1
    #: Delay between the starts of two flows.
    stagger_s: float = 0.0
    #: Start in seconds after ``$T0``.
    start_s: float = 0.0
    #: Parameters of the mode, as for ``imtcp run --param``.
    params: tuple[str, ...] = ()

    def prepare(self, path: Dumbbell, control: Control) -> str:
        """Starts the receiver."""
        return _receive_bulk(control)

    def start(self, path: Dumbbell, control: Control, times: Times) -> str:
        """Starts the flows."""
        options = f"--flows {self.flows} --stagger {self.stagger_s:g}"
        if control.share is not None:
            payload_bps = control.share * path.capacity_bps * PAYLOAD_BYTES / FRAME_BYTES
            options += f" --max-rate {payload_bps / self.flows:.0f}"
        return _send_bulk(control, options, self.start_s, times.total_s - self.start_s, self.params)


@dataclass(frozen=True)
class Joining:
    """Greedy background flows that come and go."""

    #: (start, end) of each flow, in seconds after ``$T0``.
    spans_s: tuple[tuple[float, float], ...]

    def prepare(self, path: Dumbbell, control: Control) -> str:
        """Starts the receiver."""
        return _receive_bulk(control)

    def start(self, path: Dumbbell, control: Control, times: Times) -> str:
        """Starts one sender per flow."""
        return "".join(
            _send_bulk(control, "--flows 1", start_s, end_s - start_s)
            for start_s, end_s in self.spans_s
        )


def program_prefix(control: Control, params: tuple[str, ...] = ()) -> str:
    """Prefix that gives a control to a program that cannot choose one."""
    if control.run_mode is None:
        return "ns bg "
    chosen = "".join(f" --param {param}" for param in (*control.params, *params))
    return f"ns bg imtcp run --mode {control.run_mode}{chosen} -- "


def select_control(control: Control) -> str:
    """Makes the control the default of the background's sender."""
    if control.run_mode is not None:
        return ""
    return (
        f"ns bg sh -c 'echo {control.congestion_control}"
        f" >/proc/sys/net/ipv4/tcp_congestion_control'\n"
    )


@dataclass(frozen=True)
class Rsync:
    """``rsync -a`` of a generated file tree to an rsync daemon; both are the real programs."""

    #: Size of the tree: more than the run can carry, so that rsync runs to the end.
    tree_bytes: int = 130_000_000

    def prepare(self, path: Dumbbell, control: Control) -> str:
        """Makes the tree and starts the daemon."""
        return f"""\
imtcp-load tree --out tree --bytes {self.tree_bytes} --seed 1
mkdir -p inbox
cat >rsyncd.conf <<EOF
use chroot = no
uid = root
gid = root
log file = $PWD/rsyncd.log
[inbox]
path = $PWD/inbox
read only = no
EOF
ns rx rsync --daemon --no-detach --config="$PWD/rsyncd.conf" \
--address {BACKGROUND_RECEIVER} --port {RSYNC_PORT} & STOP="$STOP $!"
"""

    def start(self, path: Dumbbell, control: Control, times: Times) -> str:
        """Starts the upload; if it ends before the run does, the point is not valid."""
        return (
            f"{select_control(control)}"
            f"( imtcp-load sleep-until $T0\n"
            f"  code=0; {program_prefix(control)}rsync -a tree/"
            f" rsync://{BACKGROUND_RECEIVER}:{RSYNC_PORT}/inbox/ || code=$?\n"
            f'  echo "$code" >"$OUT/background-ended" ) & UPLOAD=$!\n'
        )
