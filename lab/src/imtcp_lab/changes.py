"""Changes of a path's capacity and round trip during a run.

Each change is a ``tc`` command at a time known before the run. So a seed gives every control the
same path.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

#: During an outage the link carries one frame a second: tc accepts no rate of 0.
OUT_BPS = 12_112.0


@dataclass(frozen=True)
class Change:
    """The path from a time on; None: no change of that value."""

    #: Seconds after ``$T0``.
    at_s: float
    capacity_bps: float
    #: Base RTT of the background.
    rtt_ms: float | None = None

    def __post_init__(self) -> None:
        if self.at_s < 0 or self.capacity_bps <= 0:
            raise ValueError("a change has a time and a capacity")


def mean_capacity_bps(
    first_bps: float, changes: Sequence[Change], start_s: float, end_s: float
) -> float:
    """The mean capacity between two times after ``$T0`` of a path that begins with `first_bps`."""
    if not changes:
        return first_bps
    edges = [(0.0, first_bps), *((c.at_s, c.capacity_bps) for c in changes)]
    bits = 0.0
    for (from_s, bps), (until_s, _) in zip(edges, [*edges[1:], (end_s, 0.0)], strict=True):
        bits += bps * max(0.0, min(until_s, end_s) - max(from_s, start_s))
    return bits / (end_s - start_s)


def script(changes: Iterable[Change], commands: Sequence[Sequence[tuple[str, str]]]) -> str:
    """Shell that runs in the background and makes the changes; `commands` has, for each,
    (namespace, line for tc)."""
    steps = []
    for change, lines in zip(changes, commands, strict=True):
        tc = "; ".join(f"tc -n {namespace} {line}" for namespace, line in lines)
        steps.append(f"imtcp-load sleep-until $((T0 + {change.at_s * 1e6:.0f})); {tc}")
    body = "\n".join(steps)
    return f'(\n{body}\n) & STOP="$STOP $!"\n' if steps else ""
