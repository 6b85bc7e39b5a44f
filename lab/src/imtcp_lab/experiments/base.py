"""The declaration of an experiment.  ``run.py`` runs all experiments in the same way."""

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
    """Adds ``--measure-s``, the length of the measurement."""
    parser.add_argument(
        "--measure-s", type=positive, default=default_s, help=f"judged seconds ({default_s:g})"
    )


def no_arguments(parser: argparse.ArgumentParser) -> None:
    """For an experiment without options of its own."""


def no_figures(rows: Rows, points: Sequence[Point]) -> dict[str, bytes]:
    """For an experiment without pictures."""
    return {}


@dataclass(frozen=True)
class Experiment:
    """One question, with its sweep and the columns of its answer."""

    #: Name on the command line, and of the directory below ``out/``.
    name: str
    #: One line of help.
    help: str
    #: Default controls.
    controls: tuple[str, ...]
    #: The points for the parsed arguments; ``args.chosen`` has the controls.
    scenarios: Callable[[argparse.Namespace], list[Scenario]]
    #: Makes one row per point.
    rows: Callable[[Sequence[Point]], Rows]
    columns: tuple[Column, ...]
    by: tuple[str, ...] = ("variant", "control")
    add_arguments: Callable[[argparse.ArgumentParser], None] = no_arguments
    #: Makes pictures: file name → PNG.
    figures: Callable[[Rows, Sequence[Point]], dict[str, bytes]] = no_figures
    #: Makes a text that replaces the table of all columns.
    text: Callable[[Rows], str] | None = None
    #: Rows mean something even if points are missing.
    partial: bool = False
    #: Rows need *none* as their reference, so it is always run.
    needs_none: bool = True
    seeds: int = field(default=5)
    #: The table or figure that the experiment reproduces; None: an experiment of our own.
    paper: Paper | None = None


def flow_bytes(point: Point) -> list[float]:
    """Payload that arrived in the window, per background connection."""
    return list(background_bytes(point.tables.get("tcp"), point.scenario.window).values())


def background_bps(point: Point) -> float:
    """Goodput of the background in whole frames."""
    return goodput_bps(sum(flow_bytes(point)), point.scenario.window)


def identity(point: Point) -> dict[str, Any]:
    """The fields with which every row begins."""
    scenario = point.scenario
    return {
        "variant": scenario.variant,
        "control": scenario.control.name,
        "seed": scenario.seed,
    }
