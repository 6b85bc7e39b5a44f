"""The declaration of an experiment. All run in the same way (``run.py``)."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from imtcp_lab.engine.joboptions import positive
from imtcp_lab.experiments.paper import Paper
from imtcp_lab.metrics import background_bytes, goodput_bps
from imtcp_lab.results import Point
from imtcp_lab.scenario import Scenario
from imtcp_lab.tables import Column

Rows = list[dict[str, Any]]


def judged_seconds(parser: argparse.ArgumentParser, default_s: float) -> None:
    """Adds ``--measure-s``."""
    parser.add_argument(
        "--measure-s", type=positive, default=default_s, help=f"judged seconds ({default_s:g})"
    )


def no_arguments(parser: argparse.ArgumentParser) -> None:
    """An experiment without options of its own."""


def no_figures(rows: Rows, points: Sequence[Point]) -> dict[str, bytes]:
    """An experiment without pictures."""
    return {}


@dataclass(frozen=True)
class Experiment:
    """One question with its sweep and the columns of its answer."""

    #: Name on the command line and of the directory below ``out/``.
    name: str
    #: One line.
    help: str
    #: Controls it is usually asked about.
    controls: tuple[str, ...]
    #: The points, for the parsed arguments (controls as ``args.chosen``).
    scenarios: Callable[[argparse.Namespace], list[Scenario]]
    #: One row per point.
    rows: Callable[[Sequence[Point]], Rows]
    columns: tuple[Column, ...]
    by: tuple[str, ...] = ("variant", "control")
    add_arguments: Callable[[argparse.ArgumentParser], None] = no_arguments
    #: File name → PNG.
    figures: Callable[[Rows, Sequence[Point]], dict[str, bytes]] = no_figures
    #: A text that is printed in place of the table of all columns.
    text: Callable[[Rows], str] | None = None
    #: With points missing the others still say something.
    partial: bool = False
    #: *none* is added where rows are held against it.
    needs_none: bool = True
    seeds: int = field(default=5)
    #: The table or figure that it reproduces; None: one of our own.
    paper: Paper | None = None


def flow_bytes(point: Point) -> list[float]:
    """Payload of each background connection that arrived in the window."""
    return list(background_bytes(point.tables.get("tcp"), point.scenario.window).values())


def background_bps(point: Point) -> float:
    """Goodput of the background in whole frames."""
    return goodput_bps(sum(flow_bytes(point)), point.scenario.window)


def identity(point: Point) -> dict[str, Any]:
    """What every row begins with."""
    scenario = point.scenario
    return {
        "variant": scenario.variant,
        "control": scenario.control.name,
        "seed": scenario.seed,
    }
