"""U, I and the queue from small tables, with results computed by hand."""

from __future__ import annotations

import math

import polars as pl
import pytest

from imtcp_lab.metrics import (
    Window,
    background_bytes,
    carried_bps,
    drops_pkts,
    foreground_queue_pkts,
    interference,
    point_metrics,
    value_at,
)
from imtcp_lab.topology import HIGH_BAND_HANDLE, SHAPER_HANDLE

WINDOW = Window(1_000_000, 3_000_000)


def queue(rows, handle=SHAPER_HANDLE):
    """(t_us, backlog_pkts, drops, sent_bytes) → the sampler's table."""
    return pl.DataFrame(
        {
            "t_us": [r[0] for r in rows],
            "handle": [handle] * len(rows),
            "backlog_bytes": [r[1] * 1514 for r in rows],
            "backlog_pkts": [r[1] for r in rows],
            "drops": [r[2] for r in rows],
            "sent_bytes": [r[3] for r in rows],
        }
    )


def tcp(rows):
    """(t_us, cookie, bytes_received) → the sampler's table."""
    return pl.DataFrame(rows, schema=["t_us", "cookie", "bytes_received"], orient="row")


def web(rows):
    """(object, start_us, size_bytes, duration_us, finished) → the client's table."""
    names = ["object", "start_us", "size_bytes", "duration_us", "finished"]
    return pl.DataFrame(rows, schema=names, orient="row")


def test_a_counter_is_read_between_two_samples():
    assert value_at([0, 10], [0.0, 100.0], 4) == 40.0
    assert value_at([0, 10], [5.0, 100.0], -3) == 5.0
    assert value_at([0, 10], [5.0, 100.0], 99) == 100.0
    assert value_at([], [], 1) == 0.0


def test_goodput_counts_only_the_window_of_each_connection():
    table = tcp([(0, 1, 0), (2_000_000, 1, 2000), (4_000_000, 1, 6000)])
    # The counter is at 1000 bytes at 1 s, and at 4000 at 3 s.
    assert background_bytes(table, WINDOW) == {1: 3000.0}


def test_a_connection_that_opens_within_the_window_counts_whole():
    table = tcp([(1_500_000, 7, 500), (3_000_000, 7, 900)])
    assert background_bytes(table, WINDOW) == {7: 900.0}


def test_no_connections_no_goodput():
    assert background_bytes(None, WINDOW) == {}


def test_the_carried_rate_is_the_counters_slope():
    table = queue([(0, 0, 0, 0), (4_000_000, 0, 0, 1_000_000)])
    assert carried_bps(table, WINDOW) == pytest.approx(2e6)


def test_the_foreground_waits_in_the_upper_band_where_there_is_one():
    shaper = queue([(1_000_000, 100, 0, 0), (2_000_000, 200, 0, 0)])
    assert foreground_queue_pkts(shaper, WINDOW) == 150
    band = queue([(1_000_000, 1, 0, 0), (2_000_000, 3, 0, 0)], HIGH_BAND_HANDLE)
    assert foreground_queue_pkts(pl.concat([shaper, band]), WINDOW) == 2


def test_the_queue_outside_the_window_does_not_count():
    table = queue([(0, 900, 0, 0), (2_000_000, 10, 3, 0), (2_500_000, 20, 8, 0)])
    assert foreground_queue_pkts(table, WINDOW) == 15
    assert drops_pkts(table, WINDOW) == 5


ALONE = web(
    [
        (0, 500_000, 10_000, 100, 1),  # before the window
        (1, 1_000_000, 10_000, 100, 1),
        (2, 1_500_000, 20_000, 200, 1),
        (3, 2_000_000, 90_000, 700, 1),
        (4, 3_000_000, 10_000, 100, 1),  # after it
    ]
)


def test_harm_is_the_ratio_of_the_means_over_the_same_objects():
    beside = web(
        [
            (0, 500_000, 10_000, 9999, 1),
            (1, 1_000_000, 10_000, 150, 1),
            (2, 1_500_000, 20_000, 250, 1),
            (3, 2_000_000, 90_000, 1600, 1),
            (4, 3_000_000, 10_000, 9999, 1),
        ]
    )
    harm = interference(beside, ALONE, WINDOW)
    assert harm.mean == pytest.approx(2000 / 1000 - 1)
    assert harm.small == pytest.approx(400 / 300 - 1)
    # Between the second and the third value, nine tenths of the way.
    assert harm.p95 == pytest.approx((250 + 0.9 * 1350) / (200 + 0.9 * 500) - 1)
    assert (harm.objects, harm.unfinished) == (3, 0)


def test_unfinished_objects_enter_with_the_time_they_had():
    beside = web([(1, 1_000_000, 10_000, 5000, 0), (2, 1_500_000, 20_000, 200, 1)])
    harm = interference(beside, ALONE, WINDOW)
    assert harm.unfinished == 1
    assert harm.mean == pytest.approx(5200 / 300 - 1)


def test_what_readers_ask_for_later_is_compared_all_the_same():
    beside = web([(1, 1_000_900, 10_000, 300, 1), (2, 3_500_000, 20_000, 900, 1)])
    harm = interference(beside, ALONE, WINDOW, same_starts=False)
    # A reader asked for the second object after the window. The first took 100 µs alone.
    assert harm.objects == 1
    assert harm.mean == pytest.approx(2)
    other = web([(1, 1_000_000, 10_001, 300, 1)])
    with pytest.raises(ValueError, match="different arrivals"):
        interference(other, ALONE, WINDOW, same_starts=False)


def test_runs_with_other_arrivals_are_not_compared():
    beside = web([(1, 1_000_001, 10_000, 100, 1)])
    with pytest.raises(ValueError, match="different arrivals"):
        interference(beside, ALONE, WINDOW)


def test_u_is_goodput_in_frames_over_what_the_foreground_leaves():
    # Spare capacity: 10 Mbit/s less 2 of the foreground are 8 Mbit/s. Background: 1.448 MB of
    # payload in 2 s are 6.056 Mbit/s of frames.
    alone = {"queue": queue([(0, 0, 0, 0), (4_000_000, 0, 0, 1_000_000)]), "web": ALONE}
    run = {
        "queue": queue([(1_000_000, 40, 0, 0), (3_000_000, 60, 2, 2_000_000)]),
        "tcp": tcp([(1_000_000, 1, 0), (3_000_000, 1, 1_448_000)]),
        "web": ALONE,
    }
    m = point_metrics(run, alone, 10e6, WINDOW)
    assert m["U"] == pytest.approx(6.056 / 8)
    assert m["I_mean"] == 0
    assert m["queue_pkts_mean"] == 50
    assert m["carried_bps"] == pytest.approx(8e6)
    assert m["jain"] is None


def test_a_run_without_web_has_no_harm_to_report():
    alone = {"queue": queue([(1_000_000, 0, 0, 0), (3_000_000, 0, 0, 0)])}
    m = point_metrics(alone, alone, 10e6, WINDOW)
    assert m["I_mean"] is None
    assert m["U"] == 0
    assert not math.isnan(m["queue_pkts_mean"])
