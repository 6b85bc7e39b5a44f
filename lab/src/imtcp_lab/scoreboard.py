"""Tables of the scoreboard: its rows, the peers that beat ours, and the distance to the ideal."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from imtcp_lab import figures, report, results
from imtcp_lab.controls import CONTROLS
from imtcp_lab.figures import DARK, LIGHT
from imtcp_lab.queues import RED_ECN
from imtcp_lab.stats import ensemble
from imtcp_lab.tables import aligned, as_number, as_percent, groups

Rows = Sequence[Mapping[str, Any]]
Dimensions = Mapping[str, Sequence[Any]]

#: Our control, and the ideal that no endpoint can reach.
OURS, IDEAL = "imtcp_bg", "priority"
#: The cell from which each dimension varies.
BASE = "base"
#: Explanations of the dimensions.
DIMENSIONS_TOLD = {
    "buffer_bdp": "room in front of the bottleneck, in bandwidth-delay products",
    "rtt_ms": "round trip without queues, ms",
    "foreground": "whose path it is: web pages, one greedy transfer, ten calls of voice",
    "queue": "what queues at the bottleneck; bucket-16K: a token bucket that passes 16 KB at once",
    "flows": "flows of the background",
    "thinned": "a return link with half of what delayed ACKs need",
    "jitter": "ACKs come up to 2 ms earlier or later",
    "bursts": "ACKs come in bunches, 4 ms apart",
    "loss_pct": "packets lost at random, %",
}
#: TCP-LP by delay and by marks: two names of one algorithm where no queue marks.
TWO_NAMES = ("imtcp_lp", "imtcp_lpecn")


@dataclass(frozen=True)
class Standing:
    """A control in a cell: means over the seeds."""

    harm: float
    use: float

    @property
    def shown(self) -> str:
        """Use and harm."""
        return f"{as_number(self.use)} · {as_percent(self.harm)}"

    def beats(self, other: Standing) -> bool:
        """Better on both axes."""
        return self.use > other.use and self.harm < other.harm


@dataclass(frozen=True)
class Beaten:
    """A peer that is better than ours on both axes of a cell."""

    cell: str
    peer: str
    peers: Standing
    ours: Standing


def standings(rows: Rows) -> dict[tuple[str, str], Standing]:
    """Means by cell and control, of what was measured."""
    kept = [row for row in rows if row["I_mean"] is not None and row["U"] is not None]
    return {
        (cell, control): Standing(
            ensemble(row["I_mean"] for row in part).mean, ensemble(row["U"] for row in part).mean
        )
        for (cell, control), part in groups(kept, ("cell", "control")).items()
    }


def beaten(rows: Rows) -> list[Beaten]:
    """Peers that beat ours.  The ideal is no peer, and neither are variants of ours."""
    known = standings(rows)
    out = []
    for (cell, control), peers in known.items():
        ours = known.get((cell, OURS))
        peer = control != IDEAL and CONTROLS[control].congestion_control != OURS
        if ours is not None and peer and peers.beats(ours):
            out.append(Beaten(cell, control, peers, ours))
    return out


def to_ideal(rows: Rows) -> dict[str, tuple[float, float]]:
    """By cell: how much more ours leaves unused, and how much more it harms, than strict
    priority."""
    known = standings(rows)
    return {
        cell: (known[cell, IDEAL].use - ours.use, ours.harm - known[cell, IDEAL].harm)
        for (cell, control), ours in known.items()
        if control == OURS and (cell, IDEAL) in known
    }


def of_two_names(rows: Rows) -> float | None:
    """The greatest difference in U between the two names of TCP-LP, where no queue marks.

    It shows how much of a difference is chance.
    """
    known, (delay, marks) = standings(rows), TWO_NAMES
    marking = {row["cell"] for row in rows if (row["values"] or {}).get("queue") == RED_ECN}
    found = [
        abs(standing.use - known[cell, marks].use)
        for (cell, control), standing in known.items()
        if control == delay and (cell, marks) in known and cell not in marking
    ]
    return max(found, default=None)


def table(rows: Rows, dimension: str, values: Sequence[Any]) -> report.Table:
    """A line per control and a column per value, as use · harm.  All else is as in the base
    cell."""
    base = next((row["values"] for row in rows if row["cell"] == BASE), None) or {}
    of_value = {
        row["values"][dimension]: row["cell"]
        for row in rows
        if row["values"] and row["values"] == base | {dimension: row["values"][dimension]}
    }
    known = standings(rows)
    shown = [v for v in values if v in of_value]
    controls = list(dict.fromkeys(row["control"] for row in rows))
    return report.Table(
        [dimension, *(str(v) for v in shown)],
        [
            [c, *(known[of_value[v], c].shown if (of_value[v], c) in known else "-" for v in shown)]
            for c in controls
        ],
        frozenset({OURS}),
    )


def tables(rows: Rows, dimensions: Dimensions) -> list[report.Table]:
    """One table per dimension with more than one value."""
    made = [table(rows, name, values) for name, values in dimensions.items()]
    return [t for t in made if len(t.titles) > 2]


def medians(rows: Rows) -> list[dict[str, Any]]:
    """Each control at the median of its cells."""
    known = standings(rows)
    return [
        {
            "control": control,
            "I_mean": statistics.median(s.harm for (_, c), s in known.items() if c == control),
            "U": statistics.median(s.use for (_, c), s in known.items() if c == control),
        }
        for control in dict.fromkeys(control for _, control in known)
    ]


def middle(found: Rows) -> report.Table:
    """The medians as a table."""
    return report.Table(
        ["control", "U", "I", "is"],
        [
            [m["control"], as_number(m["U"]), as_percent(m["I_mean"]), CONTROLS[m["control"]].label]
            for m in found
        ],
        frozenset({OURS}),
    )


def told(rows: Rows) -> list[str]:
    """The findings, a sentence each; a line with leading spaces belongs to the one before."""
    cells = {cell for cell, control in standings(rows) if control == OURS}
    found = beaten(rows)
    out = []
    if cells:
        out.append(
            f"{len({b.cell for b in found})} of {len(cells)} cells have a peer that is better than"
            f" {OURS} on both axes"
        )
    out += [f"  {b.cell}: {b.peer} {b.peers.shown}, {OURS} {b.ours.shown}" for b in found]
    apart = of_two_names(rows)
    if apart is not None:
        seeds = len({row["seed"] for row in rows})
        out.append(
            f"TCP-LP under two names, by delay and by marks that do not come, is apart by up to"
            f" {as_number(apart)} of U ({'one seed' if seeds == 1 else f'{seeds} seeds'}):"
            " differences below that may be chance"
        )
    far = to_ideal(rows)
    if far:
        unused = statistics.median(use for use, _ in far.values())
        harm = statistics.median(harm for _, harm in far.values())
        out.append(
            f"to strict priority (median of {len(far)} cells): {as_number(unused)} of U,"
            f" {as_percent(harm)} of I"
        )
    return out


def text(rows: Rows, dimensions: Dimensions) -> str:
    """The scoreboard for a terminal."""
    parts = [aligned(t.titles, t.rows, 1) for t in tables(rows, dimensions)]
    found = middle(medians(rows))
    shown = aligned(found.titles[:3], [row[:3] for row in found.rows], 1)
    parts.append(f"the median of the cells\n{shown}")
    return "\n\n".join(["U · I", *parts, "\n".join(told(rows))])


def files(
    rows: Rows, environment: Mapping[str, Any], commits: Sequence[str], dimensions: Dimensions
) -> dict[str, bytes]:
    """``scoreboard.html`` with everything, and ``scoreboard.md`` with its picture."""
    if not rows:
        return {}
    medians_found = medians(rows)
    picture = report.Picture(
        "plane",
        "Each control at the median of its cells; up and left is better.",
        figures.plane(medians_found, LIGHT),
        figures.plane(medians_found, DARK),
    )
    values = {
        "tables": tables(rows, dimensions),
        "middle": middle(medians_found),
        "meanings": DIMENSIONS_TOLD,
        "picture": picture,
        "told": told(rows),
        "details": {
            "seeds": ", ".join(map(str, sorted({row["seed"] for row in rows}))),
            "cells": str(len({row["cell"] for row in rows})),
            "kernel": str(environment.get("kernel", "-")),
            "commit": results.told_of(commits),
            "again": f"lab scoreboard --seeds {len({row['seed'] for row in rows})}",
        },
    }
    return {
        "scoreboard.html": report.render_page("scoreboard.html.j2", **values).encode(),
        "scoreboard.md": report.render_page("scoreboard.md.j2", **values).encode(),
        "plane.png": picture.light_png,
    }
