"""Sixteen kinds of path, and the longest stall of a flow on each."""

from __future__ import annotations

from dataclasses import astuple
from itertools import combinations, product

import polars as pl
import pytest

from imtcp_lab.experiments import paths
from imtcp_lab.topology import FRAME_BYTES
from synthetic import point
from test_experiments import scenarios


def test_any_two_values_of_two_properties_meet_on_some_path():
    columns = list(zip(*(astuple(kind) for kind in paths.kinds()), strict=True))
    assert [len(set(column)) for column in columns] == [4, 4, 4, 4, 2, 2]
    for one, other in combinations(columns, 2):
        assert set(zip(one, other, strict=True)) == set(product(set(one), set(other)))


def test_every_kind_is_what_its_name_says():
    kind = next(k for k in paths.kinds() if k.name == "10mbps-30ms-0.25bdp-loss1-reordered")
    path = kind.path()
    assert (path.capacity_bps, path.background_rtt_ms, path.loss_pct) == (10e6, 30, 1)
    # A quarter of 24.8 packets.
    assert (path.buffer_pkts, path.reordered_ms, path.way_back.jitter_ms) == (6, 2, 0)


def test_no_bottleneck_holds_less_than_four_packets():
    assert min(kind.path().buffer_pkts for kind in paths.kinds()) == 4


def test_a_stall_is_the_longest_run_of_seconds_below_a_tenth():
    enough, less = 1e6, 0.99e6
    rates = [less, enough, less, less, less, enough, less]
    assert paths.longest_stall_s(rates, 10e6) == 3
    assert paths.longest_stall_s([enough] * 5, 10e6) == 0
    assert paths.longest_stall_s([], 10e6) == 0


def test_the_stall_and_the_use_are_of_what_arrived():
    args = ("--kinds", "10mbps-100ms", "--measure-s", "6")
    (scenario,) = scenarios(paths.EXPERIMENT, ["imtcp_bg"], "--seeds", "1", *args)
    times_us = [round(s * 1e6) for s in (0, 1, 2, 3, 4, 5, 6, 7)]
    frames = [0, 400, 800, 800, 800, 800, 1200, 1600]
    tcp = pl.DataFrame(
        {
            "t_us": times_us,
            "cookie": [1] * 8,
            "bytes_received": [f * 1448 for f in frames],
            "data_segs_in": frames,
        }
    )
    (row,) = paths.EXPERIMENT.rows([point(scenario, tcp=tcp)])
    assert row["stalled_s"] == 3
    assert row["utilisation"] == pytest.approx(1200 * FRAME_BYTES * 8 / 6 / 10e6)


def test_a_kind_that_there_is_not_is_refused_with_those_that_there_are():
    with pytest.raises(ValueError, match=r"40gbps in its name .*1mbps-5ms-0.25bdp"):
        scenarios(paths.EXPERIMENT, ["imtcp_bg"], "--kinds", "40gbps")


def test_without_loss_the_same_paths_lose_nothing():
    made = scenarios(paths.EXPERIMENT, ["imtcp_bg"], "--seeds", "1", "--no-loss")
    assert len(made) == 16
    assert {scenario.path.loss_pct for scenario in made} == {0}
