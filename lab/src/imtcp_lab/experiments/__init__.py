"""The experiments, one declarative module each."""

from __future__ import annotations

from imtcp_lab.experiments import (
    advised,
    alone,
    bg_joining,
    bg_load,
    bg_parameters,
    cpu,
    en_ftp,
    en_loss,
    everyday,
    greedy,
    host_tcp,
    im_counts,
    im_measure,
    im_modes,
    im_passive,
    im_share,
    im_timer,
    im_web,
    limit,
    lp_greedy,
    lp_line,
    lp_model,
    lp_square,
    lp_web,
    paths,
    scoreboard,
    tracking,
    web,
)
from imtcp_lab.experiments.base import Experiment

#: Ours.
OWN: tuple[Experiment, ...] = (
    tracking.EXPERIMENT,
    web.EXPERIMENT,
    limit.EXPERIMENT,
    alone.EXPERIMENT,
    greedy.EXPERIMENT,
    paths.EXPERIMENT,
    cpu.EXPERIMENT,
    scoreboard.EXPERIMENT,
    everyday.EXPERIMENT,
    advised.EXPERIMENT,
    host_tcp.EXPERIMENT,
)

#: The papers' tables and figures, in the order of the papers.
PAPERS: tuple[Experiment, ...] = (
    im_measure.STEPS,
    im_counts.COUNTS,
    im_timer.EXPERIMENT,
    im_passive.EXPERIMENT,
    im_web.MEASURING,
    im_share.AMONG,
    im_share.BESIDE_RENO,
    im_web.BACKGROUND,
    im_modes.LONG_FAT,
    im_modes.WIRELESS_LOSS,
    bg_parameters.WINDOWS,
    bg_parameters.GAMMA,
    bg_parameters.DELTA,
    bg_load.HARM,
    bg_joining.EXPERIMENT,
    bg_load.USE,
    lp_model.EXPERIMENT,
    lp_greedy.EXPERIMENT,
    lp_square.PERIOD,
    lp_square.AGGREGATION,
    lp_square.FAIRNESS,
    lp_web.EXPERIMENT,
    lp_line.LONG_BULK,
    lp_line.LONG_WEB,
    en_loss.EXPERIMENT,
    en_ftp.BY_LOAD,
    en_ftp.WITH_OTHERS,
    en_ftp.HISTORY_SETS,
)

EXPERIMENTS: tuple[Experiment, ...] = OWN + PAPERS
