"""Makes rows from saved points: each point is compared with *none* of its variant and seed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from imtcp_lab.job import LabError
from imtcp_lab.metrics import point_metrics
from imtcp_lab.results import Point
from imtcp_lab.traffic import Web


def alone_of(points: Sequence[Point]) -> dict[tuple[str, int], Point]:
    """The runs without a background, by variant and seed."""
    return {(p.scenario.variant, p.scenario.seed): p for p in points if p.scenario.control.is_none}


def rows(points: Sequence[Point]) -> list[dict[str, Any]]:
    """One row per point, with all metrics."""
    alone = alone_of(points)
    out = []
    for point in points:
        scenario = point.scenario
        reference = alone.get((scenario.variant, scenario.seed))
        if reference is None:
            raise LabError(f"{scenario.key} has no run without background to compare with")
        metrics = point_metrics(
            point.tables,
            reference.tables,
            capacity_bps=scenario.path.capacity_bps,
            window=scenario.window,
            same_starts=not (isinstance(scenario.foreground, Web) and scenario.foreground.readers),
        )
        identity = {
            "variant": scenario.variant,
            "control": scenario.control.name,
            "seed": scenario.seed,
        }
        out.append(identity | metrics)
    return out
