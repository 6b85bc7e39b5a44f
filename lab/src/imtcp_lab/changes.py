"""A path that changes while it is used: its rate, its round trip, what it loses.

The changes are commands of tc at times that are known before the run, so that a seed gives the same
path to every control.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

#: While a link is out it carries a frame a second: tc knows no rate of 0.
OUT_BPS = 12_112.0


@dataclass(frozen=True)
class Change:
    """From a time on; what is None stays as it was."""

    #: After ``$T0``.
    at_s: float
    capacity_bps: float
    #: The background's round trip without queues.
    rtt_ms: float | None = None

    def __post_init__(self) -> None:
        if self.at_s < 0 or self.capacity_bps <= 0:
            raise ValueError("a change has a time and a capacity")


def mean_capacity_bps(
    first_bps: float, changes: Sequence[Change], start_s: float, end_s: float
) -> float:
    """The mean of a path that begins with a capacity, between two times after ``$T0``."""
    if not changes:
        return first_bps
    edges = [(0.0, first_bps), *((c.at_s, c.capacity_bps) for c in changes)]
    bits = 0.0
    for (from_s, bps), (until_s, _) in zip(edges, [*edges[1:], (end_s, 0.0)], strict=True):
        bits += bps * max(0.0, min(until_s, end_s) - max(from_s, start_s))
    return bits / (end_s - start_s)


def script(changes: Iterable[Change], commands: Sequence[Sequence[tuple[str, str]]]) -> str:
    """Shell that makes them beside the traffic: for each, lines for tc by namespace."""
    steps = []
    for change, lines in zip(changes, commands, strict=True):
        tc = "; ".join(f"tc -n {namespace} {line}" for namespace, line in lines)
        steps.append(f"imtcp-load sleep-until $((T0 + {change.at_s * 1e6:.0f})); {tc}")
    body = "\n".join(steps)
    return f'(\n{body}\n) & STOP="$STOP $!"\n' if steps else ""
