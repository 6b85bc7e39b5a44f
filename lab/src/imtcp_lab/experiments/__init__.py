"""The experiments, one declarative module each."""

from __future__ import annotations

from imtcp_lab.experiments import alone, cpu, greedy, tracking, web
from imtcp_lab.experiments.base import Experiment

EXPERIMENTS: tuple[Experiment, ...] = (
    tracking.EXPERIMENT,
    web.EXPERIMENT,
    alone.EXPERIMENT,
    greedy.EXPERIMENT,
    cpu.EXPERIMENT,
)
