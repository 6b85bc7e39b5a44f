"""Paths like those that people use: the properties of each, and the peers that beat ours there."""

from __future__ import annotations

from itertools import groupby, pairwise

import polars as pl
import pytest

from imtcp_lab import everyday, segments
from imtcp_lab.changes import Change
from imtcp_lab.experiments import everyday as experiment
from imtcp_lab.metrics import (
    Window,
    background_bytes,
    carried_bps,
    counted,
    delay_quantile_s,
    foreground_queue_pkts,
)
from imtcp_lab.queues import CODEL_ECN, FQ, PFIFO_FAST, PIE, WayBack
from imtcp_lab.reverse import BulkBack, Together
from imtcp_lab.topology import FRAME_BYTES, Dumbbell
from imtcp_lab.traffic import Times, Udp
from test_experiments import scenarios
from test_measuring import measure


def test_each_path_is_a_script_and_the_same_for_the_same_seed():
    for kind in everyday.EVERYDAY.values():
        one, again, other = (kind.path(seed) for seed in (1, 1, 2))
        assert one == again and one.script()
        assert (one == other) == (not one.changes)


def test_a_radio_moves_to_neighbouring_rates():
    rates = [c.capacity_bps for c in everyday.EVERYDAY["lte"].path(7).changes]
    at = [everyday.LTE_BPS.index(rate) for rate in rates]
    assert {abs(a - b) for a, b in pairwise(at)} == {1}
    assert set(at) == set(range(len(everyday.LTE_BPS)))


def test_the_mean_capacity_counts_each_rate_for_as_long_as_it_holds():
    path = Dumbbell(capacity_bps=10e6, changes=(Change(2, 1e6), Change(3, 7e6)))
    assert path.mean_capacity_bps(0, 2) == 10e6
    # Each of the three rates holds for one second.
    assert path.mean_capacity_bps(1, 4) == pytest.approx(6e6)
    assert path.mean_capacity_bps(5, 9) == 7e6


def test_a_change_keeps_the_buffer_and_names_the_backgrounds_delay():
    path = Dumbbell(buffer_pkts=125, foreground_rtts_ms=(20, 200), changes=(Change(1.5, 5e6, 60),))
    commands = path.changing()
    assert (
        "sleep-until $((T0 + 1500000)); tc -n rt qdisc change dev rt-rx root handle 1:" in commands
    )
    assert "tbf rate 5000000bit burst 1530 limit 125;" in commands
    # The address has the third band of delays.
    assert "tc -n rx qdisc change dev rx0 parent 1:3 handle 13: netem delay 60000us" in commands
    assert "match ip src 10.9.0.2/32 flowid 1:3" in path.script()


def test_a_burst_of_losses_is_left_after_its_length_and_entered_for_its_share():
    # Leave with probability 1/8; enter with 1 in 792, so that the share of lost packets is 1 %.
    script = Dumbbell(loss_pct=1, loss_burst_pkts=8, buffer_pkts=100).script()
    assert "netem loss gemodel 0.126263% 12.5% limit 100" in script


@pytest.mark.parametrize(
    "wrong",
    [
        {"loss_burst_pkts": 8},
        {"loss_pct": 1, "loss_burst_pkts": 1},
        {"changes": (Change(1, 1e6),), "priority": True},
        {"bunched_ms": 4, "delay_line": True},
        {"one_host": True, "mtu_bytes": 1420},
        {"one_host": True, "paced": True},
    ],
)
def test_what_a_path_cannot_do_is_refused(wrong):
    with pytest.raises(ValueError, match=r"burst|priority|netem|one host"):
        Dumbbell(**wrong)


def test_where_packets_are_lost_at_random_the_ideal_is_bbr_and_where_rates_change_there_is_none():
    made = scenarios(
        experiment.EXPERIMENT, ["none", "priority"], "--seeds", "1", "--paths", "lossy-1,thin,wifi"
    )
    assert [(s.variant, s.control.name) for s in made] == [
        ("lossy-1", "none"),
        ("lossy-1", "priority_bbr"),
        ("thin", "none"),
        ("thin", "priority"),
        ("wifi", "none"),
    ]


def _rows(control, *pairs):
    return [{"path": "thin", "control": control, "U": u, "harm": harm} for u, harm in pairs]


def test_a_peer_beats_where_both_intervals_are_apart():
    ours = _rows("imtcp_bg", (0.50, 0.05), (0.52, 0.06), (0.51, 0.055))
    better = _rows("vegas", (0.70, 0.01), (0.71, 0.02), (0.72, 0.015))
    only_fuller = _rows("nv", (0.70, 0.05), (0.71, 0.06), (0.72, 0.055))
    ideal = _rows("priority", (0.99, 0.0), (0.99, 0.0), (0.99, 0.0))
    rows = ours + better + only_fuller + ideal
    assert experiment.beaten(rows, "imtcp_bg") == [("thin", "vegas")]
    # One seed has no interval.
    assert experiment.beaten(ours[:1] + better[:1], "imtcp_bg") == []


def test_an_unknown_path_is_refused_with_those_that_there_are():
    with pytest.raises(ValueError, match=r"unknown path carrier-pigeon \(known: wifi, lte"):
        everyday.named("thin,carrier-pigeon")


UDP_30 = Udp("0:30M")


@pytest.mark.vm
def test_the_rate_of_a_path_changes_when_it_says():
    changes = (Change(1.5, 5e6), Change(3.0, 15e6))
    path = Dumbbell(capacity_bps=20e6, buffer_pkts=50, changes=changes)
    _, tables = measure("none", UDP_30, times=Times(0.5, 4, 0.5), path=path)
    for start_s, end_s, rate_bps in ((0.5, 1.4, 20e6), (1.6, 2.9, 5e6), (3.1, 4.4, 15e6)):
        window = Window(round(start_s * 1e6), round(end_s * 1e6))
        assert carried_bps(tables["queue"], window) == pytest.approx(rate_bps, rel=0.01)
    # The buffer stays as long as before.
    assert tables["queue"]["backlog_pkts"].max() <= 51


def _data_arrivals(path):
    scenario, tables = measure("cubic", times=Times(1, 2, 0.5), path=path, trace=True)
    window = scenario.window
    came = segments.arrivals(tables["segments"])
    inside = [(t, size) for t, size in came if window.start_us <= t < window.end_us]
    return tuple(zip(*inside, strict=True))


@pytest.mark.vm
def test_what_crossed_arrives_in_bunches_and_all_of_it():
    path = Dumbbell(capacity_bps=20e6, buffer_pkts=100, bunched_ms=4)
    times_us, sizes = _data_arrivals(path)
    bunches = [times_us[0]]
    for before, t_us in pairwise(times_us):
        # A packet takes 606 µs on the wire.
        if t_us - before > 600:
            bunches.append(t_us)
    apart = [b - a for a, b in pairwise(bunches)]
    assert sum(apart) / len(apart) == pytest.approx(4000, rel=0.1)
    assert sum(sizes) * 8 / 2 * FRAME_BYTES / 1448 == pytest.approx(20e6, rel=0.02)


@pytest.mark.vm
def test_packets_of_a_tunnel_are_smaller():
    _, sizes = _data_arrivals(Dumbbell(capacity_bps=20e6, buffer_pkts=100, mtu_bytes=1420))
    # The MTU less 40 bytes of headers and 12 of timestamps.
    assert max(sizes) == 1368


@pytest.mark.vm
def test_losses_come_in_bursts_of_the_stated_length_and_share():
    path = Dumbbell(capacity_bps=20e6, loss_pct=3, loss_burst_pkts=8)
    # One packet per interval.
    udp = Udp("0:10M", interval_us=1211)
    scenario, tables = measure("none", udp, times=Times(0.5, 20, 0.5), path=path)
    window = scenario.window
    inside = tables["udp"].filter(pl.col("t_us").is_between(window.start_us, window.end_us))
    lost = 1 - counted(tables["udp"], "packets", window) / (20 * 10e6 / 8 / FRAME_BYTES)
    assert 0.015 < lost < 0.045
    runs = [len(list(run)) for empty, run in groupby(inside["packets"] == 0) if empty]
    # A single empty interval may only be an interval's edge between two packets.
    bursts = [run for run in runs if run > 1]
    assert 5 < sum(bursts) / len(bursts) < 12


@pytest.mark.vm
def test_a_way_back_of_a_twentieth_carries_a_twentieth():
    way_back = WayBack(link_pkts=20, link_share=0.05)
    path = Dumbbell(capacity_bps=20e6, buffer_pkts=100, way_back=way_back)
    back = Together((BulkBack(flows=1),))
    scenario, tables = measure("none", back, times=Times(3, 4, 0.5), path=path)
    came_bps = counted(tables["back"], "bytes", scenario.window) * 8 / scenario.window.seconds
    assert came_bps * FRAME_BYTES / 1448 == pytest.approx(1e6, rel=0.1)


@pytest.mark.vm
def test_pie_holds_the_queue_at_its_target_and_codel_marks_in_place_of_drops():
    def queue_ms(queue):
        path = Dumbbell(capacity_bps=20e6, buffer_pkts=1000, queue=queue)
        scenario, tables = measure("cubic", times=Times(4, 8, 0.5), path=path)
        pkts = foreground_queue_pkts(tables["queue"], scenario.window)
        carried = sum(background_bytes(tables["tcp"], scenario.window).values()) * 8 / 8
        drops = tables["queue"].filter(pl.col("t_us") > scenario.window.start_us)["drops"]
        return pkts * FRAME_BYTES * 8 / 20e6 * 1e3, carried, drops.max() - drops.min()

    pie_ms, carried, dropped = queue_ms(PIE)
    assert 3 < pie_ms < 20 and carried > 17e6 and dropped > 0
    codel_ms, carried, dropped = queue_ms(CODEL_ECN)
    assert codel_ms < 10 and carried > 15e6 and dropped == 0


@pytest.mark.vm
def test_on_one_host_marked_packets_wait_for_the_others_and_unmarked_ones_do_not():
    def later_ms(control, queue):
        path = Dumbbell(capacity_bps=20e6, one_host=True, queue=queue)
        udp = Udp("0:10M", wake_us=200)
        scenario, tables = measure(control, udp, times=Times(3, 4, 0.5), path=path)
        window = scenario.window
        carried = carried_bps(tables["queue"], window)
        return delay_quantile_s(tables["udp"], window, 0.95) * 1e3, carried

    alone_ms, _ = later_ms("none", PFIFO_FAST)
    marked_ms, carried = later_ms("imtcp_run", PFIFO_FAST)
    # A packet waits for the one on the wire, which takes 606 µs.
    assert marked_ms < alone_ms + 1.5
    assert carried > 0.95 * 20e6
    unmarked_ms, carried = later_ms("cubic", PFIFO_FAST)
    assert unmarked_ms > alone_ms + 3
    assert carried > 0.98 * 20e6
    # fq serves flows in turn, so marks do not matter.
    fq_ms, _ = later_ms("imtcp_run", FQ)
    assert fq_ms < alone_ms + 3
