"""The model behind the line of delayed information."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from imtcp_lab import limit
from imtcp_lab.experiments.limit import EXPERIMENT, TOLD_AT
from imtcp_lab.limit import Law
from imtcp_lab.metrics import Window
from imtcp_lab.topology import SHAPER_HANDLE
from synthetic import point
from test_experiments import scenarios

#: 8 Mbit/s are 1000 bytes per step.
CAPACITY_BPS = 8e6
PLAIN = Law(share=1.0, average_s=0.001, tau_rtts=1.0, offset_s=0.0, foresees=False)


def with_parts(**parts):
    return Law(**{**PLAIN.__dict__, **parts})


def queue_table(backlog_bytes, sent_bytes):
    n = len(sent_bytes)
    return pl.DataFrame(
        {
            "t_us": [1000 * i for i in range(n)],
            "handle": [SHAPER_HANDLE] * n,
            "backlog_bytes": backlog_bytes,
            "sent_bytes": sent_bytes,
        }
    )


def test_what_came_is_what_left_and_what_the_queue_grew_by():
    queue = queue_table([0, 500, 200], [0, 1000, 2000])
    assert limit.arrivals_bytes(queue, 2000).tolist() == [1500, 700]
    assert limit.recorded_bytes(queue, 2000).tolist() == [500, 200]


def test_beside_a_steady_foreground_all_is_used_and_nothing_waits():
    out = limit.simulate(np.full(200, 400.0), CAPACITY_BPS, 0.010, [PLAIN])
    assert out.sent_bytes[:10].sum() == 0
    assert np.allclose(out.sent_bytes[10:], 600)
    assert out.queue_bytes.max() == 0


def test_a_share_is_of_the_available_bandwidth():
    out = limit.simulate(np.full(50, 400.0), CAPACITY_BPS, 0.010, [with_parts(share=0.5)])
    assert np.allclose(out.sent_bytes[10:], 300)


def test_a_burst_is_heard_of_a_round_trip_later():
    """The round trip is 3 steps, and only step 10 has arrivals: 2000 bytes.

    step    seen step  A     q seen  sent  queue after it
    10-12   7-9        1000     0    1000  2000
    13      10            0  2000       0  1000
    14      11         1000  2000     333   333
    15      12         1000  2000     333     0

    In steps 14 and 15 the law sends A less 2000 / (tau RTT) = 667 bytes.
    """
    arrivals = np.zeros(30)
    arrivals[10] = 2000
    out = limit.simulate(arrivals, CAPACITY_BPS, 0.003, [PLAIN])
    assert out.queue_bytes[9:16, 0].round().tolist() == [0, 2000, 2000, 2000, 1000, 333, 0]
    assert out.sent_bytes[12:16, 0].round().tolist() == [1000, 0, 333, 333]


def test_who_foresees_does_not_give_way_twice_to_the_same_queue():
    """As above, but the law knows the fluid that it sent since the step that it sees.

    In step 14 it sees 2000 bytes of step 11. It sent 1000 since then, and the link carried 2000. So
    it expects 1000 bytes, and sends 667.
    """
    arrivals = np.zeros(30)
    arrivals[10] = 2000
    laws = [PLAIN, with_parts(foresees=True)]
    out = limit.simulate(arrivals, CAPACITY_BPS, 0.003, laws)
    assert out.sent_bytes[14].round().tolist() == [333, 667]


@pytest.mark.parametrize("law", limit.LAWS[:: len(limit.LAWS) // 12])
def test_no_law_sends_more_than_the_capacity_or_less_than_nothing(law):
    arrivals = np.random.default_rng(1).pareto(1.2, 500) * 300
    out = limit.simulate(arrivals, CAPACITY_BPS, 0.010, [law])
    assert out.sent_bytes.min() >= 0
    assert out.sent_bytes.max() <= 1000
    assert (out.queue_bytes[:, 0] >= limit.queue_alone_bytes(arrivals, CAPACITY_BPS) - 1e-6).all()


def test_an_objects_round_trips_are_longer_by_what_the_queue_is_longer():
    """1000 bytes of queue add 1 ms to a round trip.

    object                    round trips with the queue  added time
    100 ms, in the window     5                           5 ms
    50 ms, ends before it     0                           0

    The object before the window does not count, and neither does the unfinished one: I is 5/150.
    """
    added = np.zeros(400)
    added[200:300] = 1000
    web = pl.DataFrame(
        {
            "start_us": [200_000, 120_000, 10_000, 200_000],
            "duration_us": [100_000, 50_000, 300_000, 100_000],
            "class": [0, 1, 0, 0],
            "finished": [1, 1, 1, 0],
        }
    )
    harmed = limit.harm(added, web, (20.0, 65.0), CAPACITY_BPS, Window(100_000, 400_000))
    assert harmed.tolist() == pytest.approx([5 / 150])


def test_the_line_is_made_of_those_that_none_is_better_than():
    best = limit.front([(0.5, 0.02), (0.8, 0.04), (0.6, 0.05), (0.5, 0.03), (0.9, 0.10)])
    assert (best.used, best.harms) == ((0.5, 0.8, 0.9), (0.02, 0.04, 0.10))
    assert best.harm_at(0.85) == pytest.approx(0.07)
    assert best.harm_at(0.4) == 0.02
    assert best.harm_at(0.95) is None
    assert limit.front([]).harm_at(0.5) is None


def test_the_longer_the_round_trip_the_higher_the_line():
    rng = np.random.default_rng(7)
    arrivals = np.where(rng.random(3000) < 0.1, 4000.0, 0.0)
    alone = limit.queue_alone_bytes(arrivals, CAPACITY_BPS)
    web = pl.DataFrame({"start_us": [0], "duration_us": [3_000_000], "class": [0], "finished": [1]})

    def harm_at(rtt_s):
        out = limit.simulate(arrivals, CAPACITY_BPS, rtt_s)
        added = out.queue_bytes - alone[:, np.newaxis]
        used = out.sent_bytes.sum(axis=0) / (3e6 - arrivals.sum())
        harms = limit.harm(added, web, (50.0,), CAPACITY_BPS, Window(0, 1))
        return limit.front(list(zip(used, harms, strict=True))).harm_at(0.8)

    assert harm_at(0.010) < harm_at(0.030) < harm_at(0.090)


def test_rows_hold_each_control_against_the_line_of_its_round_trip():
    chosen = scenarios(EXPERIMENT, "none,imtcp_bg", "--seeds", "1", "--rtts", "15,100")
    assert [s.queue_every_ms for s in chosen] == [1, 10, 1, 10]
    points = [point(s, 0 if s.control.is_none else 24e6, slower=1.1) for s in chosen]
    for p in points:
        p.tables["web"] = p.tables["web"].with_columns(pl.lit(0).alias("class"))
    rows = EXPERIMENT.rows(points)
    assert [row["variant"] for row in rows] == ["15ms"] * (2 + len(TOLD_AT)) + ["100ms"] * 9
    bg = rows[1]
    assert bg["control"] == "imtcp_bg"
    # The foreground is steady, so a background with 80 % of the rest needs no queue.
    assert bg["U"] == pytest.approx(0.8, rel=0.02)
    assert bg["I_line"] == pytest.approx(0, abs=1e-3)
    assert bg["I_queue"] == 0
    assert set(EXPERIMENT.figures(rows, points)) == {"plane-15ms.png", "plane-100ms.png"}
