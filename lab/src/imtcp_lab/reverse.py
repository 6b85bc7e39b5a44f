"""Traffic in the reverse direction: other flows' ACKs wait behind its data.

This needs a queue on the way back (:attr:`~imtcp_lab.queues.WayBack.link_pkts`); otherwise nothing
waits there.
"""

from __future__ import annotations

from dataclasses import dataclass

from imtcp_lab.queues import FRAME_BYTES
from imtcp_lab.topology import FOREGROUND_SENDER, Dumbbell
from imtcp_lab.traffic import Foreground, Times, greedy_receiver, shift_us

BULK_BACK_PORT = 5003
UDP_BACK_PORT = 6001


@dataclass(frozen=True)
class BulkBack:
    """Greedy TCP flows from the first client to the foreground's sender."""

    flows: int = 10
    congestion_control: str = "reno"
    #: Delay between the starts of two flows.
    stagger_s: float = 0.1
    leaves = ("back",)

    def prepare(self, path: Dumbbell) -> str:
        """The receiver."""
        return greedy_receiver("fg", f"{FOREGROUND_SENDER}:{BULK_BACK_PORT}", "back.csv")

    def start(self, path: Dumbbell, times: Times, seed: int) -> str:
        """The senders; the seed shifts their start as it does for other flows."""
        return (
            f"ns rx imtcp-load bulk-client --from {path.client_addresses[0]}"
            f" --to {FOREGROUND_SENDER}:{BULK_BACK_PORT} --cc {self.congestion_control}"
            f" --flows {self.flows} --stagger {self.stagger_s:g}"
            f" --at-us $((T0 + {shift_us(seed)}))"
            f' --duration {times.total_s:g} & STOP="$STOP $!"\n'
        )


@dataclass(frozen=True)
class UdpBack:
    """Unresponsive traffic with a constant mean rate and exponential gaps."""

    rate_bps: float
    #: Frame sizes, each drawn with the same probability; repeat one to give it more weight.
    frames: tuple[int, ...] = (FRAME_BYTES,)
    #: Nobody reads what arrived.
    leaves = ()

    def prepare(self, path: Dumbbell) -> str:
        """A sink, so that no ICMP errors come back."""
        return (
            f"ns fg imtcp-load udp-sink --listen {FOREGROUND_SENDER}:{UDP_BACK_PORT}"
            ' & STOP="$STOP $!"\n'
        )

    def start(self, path: Dumbbell, times: Times, seed: int) -> str:
        """The sender."""
        frames = ",".join(map(str, self.frames))
        return (
            f"ns rx imtcp-load udp --to {FOREGROUND_SENDER}:{UDP_BACK_PORT}"
            f" --schedule {self.rate_bps:.0f} --poisson --frames {frames} --seed {seed}"
            f' --at-us $T0 --duration {times.total_s:g} & WAIT="$WAIT $!"\n'
        )


@dataclass(frozen=True)
class Together:
    """A foreground of several parts."""

    parts: tuple[Foreground, ...]

    @property
    def leaves(self) -> tuple[str, ...]:
        """The tables of all parts."""
        return tuple(name for part in self.parts for name in part.leaves)

    def prepare(self, path: Dumbbell) -> str:
        """The preparations of all parts."""
        return "".join(part.prepare(path) for part in self.parts)

    def start(self, path: Dumbbell, times: Times, seed: int) -> str:
        """Starts all parts."""
        return "".join(part.start(path, times, seed) for part in self.parts)
