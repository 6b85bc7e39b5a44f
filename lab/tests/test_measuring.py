"""The laboratory measures correctly: short runs in the VM.

Each test asserts a result of theory for the path.  So a mistake in topology, traffic or metrics
shows here, not in somebody's conclusions.
"""

from __future__ import annotations

import dataclasses
import json
from functools import cache

import polars as pl
import pytest

from imtcp_lab import programs, raw, segments, vm
from imtcp_lab.controls import CONTROLS
from imtcp_lab.engine import paths, tools
from imtcp_lab.metrics import Window, background_bytes, carried_bps, counted, point_metrics
from imtcp_lab.queues import WayBack
from imtcp_lab.reverse import BulkBack, Together
from imtcp_lab.scenario import Scenario
from imtcp_lab.topology import Dumbbell
from imtcp_lab.traffic import Bulk, Rival, Rsync, Times, Udp, Web
from vm_guests import runner

pytestmark = pytest.mark.vm

CAPACITY_BPS = 20e6
PATH = Dumbbell(capacity_bps=CAPACITY_BPS, buffer_pkts=100)
TIMES = Times(warmup_s=1.5, measure_s=4, drain_s=1.5)


def need_load():
    if not (paths.programs() / "imtcp-load").is_file():
        pytest.skip("imtcp-load is not built")


def need_imtcp():
    if not (paths.programs() / "imtcp").is_file():
        pytest.skip("imtcp is not built")


@cache
def measure(control, foreground=None, background=None, times=TIMES, path=PATH, trace=False):
    need_load()
    scenario = Scenario(
        path, foreground, background or Bulk(), CONTROLS[control], times, trace_segments=trace
    )
    result = runner(vm.FAST).run(scenario.job()).check()
    assert "background-ended" not in result.files
    return scenario, raw.read_tables(result)


def judged(control, **more):
    foreground = Web(load=0.4, max_bytes=500_000)
    scenario, tables = measure(control, foreground, **more)
    _, alone = measure("none", foreground)
    return point_metrics(tables, alone, CAPACITY_BPS, scenario.window)


def test_the_bottleneck_carries_its_capacity_and_not_more():
    scenario, tables = measure("cubic")
    assert carried_bps(tables["queue"], scenario.window) == pytest.approx(20e6, rel=0.003)


def test_goodput_at_the_receiver_agrees_with_the_bottleneck():
    scenario, tables = measure("cubic")
    payload = sum(background_bytes(tables["tcp"], scenario.window).values())
    frames_bps = payload * 8 / scenario.window.seconds * 1514 / 1448
    assert frames_bps == pytest.approx(20e6, rel=0.02)


def test_what_both_ends_saw_agrees_with_what_arrived():
    scenario, tables = measure("reno", trace=True)
    window = scenario.window
    payload = sum(background_bytes(tables["tcp"], window).values())

    def inside(seen):
        return sum(n for t_us, n in seen if window.start_us <= t_us < window.end_us)

    acked = inside((a.t_us, a.acked_bytes) for a in segments.acks(tables["segments"]))
    arrived = inside(segments.arrivals(tables["segments"]))
    # At each end of the window the ACKs of one round trip are on their way.
    assert arrived == pytest.approx(payload, rel=0.02)
    assert acked == pytest.approx(payload, rel=0.02)


def test_flows_against_the_stream_fill_the_link_back_and_cost_tcp_its_acks():
    path = dataclasses.replace(PATH, foreground_rtts_ms=(30.0,), way_back=WayBack(link_pkts=100))
    foreground = Together((Rival(congestion_control="reno"), BulkBack(flows=4)))
    scenario, tables = measure("none", foreground, path=path)
    _, alone = measure("none", Rival(congestion_control="reno"), path=path)
    window = scenario.window
    back_bps = counted(tables["back"], "bytes", window) * 8 / window.seconds
    there_bps = counted(tables["rival"], "bytes", window) * 8 / window.seconds
    assert back_bps > 0.75 * CAPACITY_BPS
    # In so short a run the amount is chance, but without flows in the reverse direction it is zero.
    alone_bps = counted(alone["rival"], "bytes", window) * 8 / window.seconds
    assert there_bps < alone_bps


def test_marks_are_only_for_those_who_ask_for_them():
    path = dataclasses.replace(PATH, queue="lp-ecn")
    scenario, tables = measure("reno", Rival(congestion_control="reno"), path=path)
    window = scenario.window
    capacity = CAPACITY_BPS * 1448 / 1514
    background = sum(background_bytes(tables["tcp"], window).values()) * 8 / window.seconds
    # The marked flow yields from 15 % of the queue on; the other one fills it.
    assert background < 0.3 * capacity
    assert counted(tables["rival"], "bytes", window) * 8 / window.seconds > 0.6 * capacity


def test_cubic_fills_the_buffer():
    _, tables = measure("cubic")
    queue = tables["queue"].filter(tables["queue"]["handle"] == 0x1_0000)
    assert queue["backlog_pkts"].max() >= PATH.buffer_pkts - 2
    assert queue["drops"].max() > 0


def test_the_round_trip_is_the_stated_one():
    _, tables = measure("vegas", times=Times(1, 1, 0.5))
    least_us = tables["tcp"]["srtt_us"].min()
    # The receiver's own samples come from its handshake, so they have only the base delay.
    assert least_us == pytest.approx(30_000, rel=0.02)


def test_udp_arrives_at_the_scheduled_rates():
    _, tables = measure("none", Udp("0:5M,4:12M"), times=Times(1, 6, 1))
    for start_s, end_s, rate_bps in ((1, 3.9, 5e6), (4.1, 7, 12e6)):
        window = Window(round(start_s * 1e6), round(end_s * 1e6))
        assert carried_bps(tables["queue"], window) == pytest.approx(rate_bps, rel=0.01)
        # A frame of 1514 bytes has 42 bytes of headers.
        arrived_bps = counted(tables["udp"], "bytes", window) * 8 / window.seconds
        assert arrived_bps == pytest.approx(rate_bps * (1514 - 42) / 1514, rel=0.05)


def test_a_greedy_foreground_is_counted_at_its_receiver():
    scenario, tables = measure("none", Rival(congestion_control="cubic"))
    received_bps = counted(tables["rival"], "bytes", scenario.window) * 8 / scenario.window.seconds
    # A frame of 1514 bytes has 1448 bytes of payload. At each end of the window some data waits
    # behind a hole: at most the buffer's 100 packets, 1.5 % of four seconds.
    assert received_bps == pytest.approx(CAPACITY_BPS * 1448 / 1514, rel=0.02)


def test_the_web_arrives_the_same_beside_every_control():
    _, cubic = measure("cubic", Web(load=0.4, max_bytes=500_000))
    _, none = measure("none", Web(load=0.4, max_bytes=500_000))
    planned = ["object", "start_us", "size_bytes", "class"]
    assert cubic["web"].select(planned).equals(none["web"].select(planned))
    assert len(none["web"]) > 50
    assert none["web"]["finished"].min() == 1


LINKS_BPS = (2e6, 8e6)
#: Two servers with their own links, and one reader each.
READERS = Web(load=0, readers=1, think_s=0.05, mean_bytes=200_000, max_bytes=500_000)


def read(control):
    """The objects of each server, in order of time."""
    path = dataclasses.replace(PATH, server_links_bps=LINKS_BPS, foreground_rtts_ms=(20.0,))
    _, tables = measure(control, READERS, path=path)
    sessions = tables["web"].with_columns(session=pl.col("object") // 1_000_000)
    return [sessions.filter(pl.col("session") == n).sort("start_us") for n in range(2)]


def test_a_servers_objects_come_as_fast_as_its_link_and_no_faster():
    for objects, link_bps in zip(read("none"), LINKS_BPS, strict=True):
        whole = objects.filter((pl.col("finished") == 1) & (pl.col("size_bytes") > 100_000))
        frames = whole["size_bytes"] * 8 * 1514 / 1448 / (whole["duration_us"] / 1e6)
        # The bucket lets a frame and 20 µs pass; slow start takes some round trips of 20 ms.
        assert 0.6 * link_bps < frames.max() < 1.02 * link_bps


def test_readers_wait_and_ask_for_the_same_later():
    for beside, alone in zip(read("cubic"), read("none"), strict=True):
        for objects in (beside, alone):
            ended = objects["start_us"] + objects["duration_us"]
            assert (objects["start_us"][1:] > ended[:-1]).all()
        assert len(beside) <= len(alone)
        planned = ["object", "size_bytes", "class"]
        assert beside.select(planned).equals(alone.select(planned)[: len(beside)])


def test_strict_priority_leaves_the_foreground_as_it_was_and_uses_the_rest():
    m = judged("priority")
    assert m["U"] > 0.97
    # Only harm has a bound: by chance, the web's objects may also come a little sooner.
    assert m["I_mean"] < 0.05
    # At most one packet on the wire is in front of each burst of the foreground; CUBIC adds tens.
    assert m["queue_pkts_mean"] - m["queue_pkts_alone"] < 4


def test_cubic_harms_the_web():
    m = judged("cubic")
    assert m["U"] > 0.9
    # The bounds are far from the means of ten seeds, because another build is another sample.
    assert m["I_mean"] > 0.1
    assert m["queue_pkts_mean"] - m["queue_pkts_alone"] > 10


def test_rsync_uploads_through_the_bottleneck():
    scenario, tables = measure("reno", background=Rsync(tree_bytes=40_000_000))
    payload = sum(background_bytes(tables["tcp"], scenario.window).values())
    assert payload * 8 / scenario.window.seconds > 0.8 * CAPACITY_BPS


def test_imtcp_bg_is_watched_while_it_sends():
    need_imtcp()
    _, tables = measure("imtcp_bg")
    watch = tables["watch"]
    assert set(watch["mode"].to_list()) == {"bg"}
    assert watch["bytes_acked"].max() > 1_000_000


@pytest.mark.parametrize("program", programs.PROGRAMS.values(), ids=lambda p: p.name)
@pytest.mark.parametrize("control", ["cubic", "imtcp_bg"])
def test_real_programs_deliver_what_they_were_given(program, control):
    need_load()
    chosen = CONTROLS[control]
    if chosen.needs_imtcp:
        need_imtcp()
    lacking = [name for name in program.needs if tools.which(name) is None]
    if lacking:
        pytest.skip(f"not installed: {', '.join(lacking)}")
    result = runner(vm.FAST).run(programs.job(program, chosen)).check()
    verdict = json.loads(result.files["verdict.json"])
    assert verdict["code"] == 0, result.log
    assert verdict["identical"], result.log
    if chosen.needs_imtcp:
        assert b'"mode":"bg"' in result.files["watch.jsonl"]
