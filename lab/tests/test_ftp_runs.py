"""The thesis's transfers by FTP: the made trace, what is fed to the service, what is judged."""

from __future__ import annotations

import csv
import itertools
import shutil
import subprocess
from datetime import timedelta

import polars as pl
import pytest

from imtcp_lab import day, ftp, ftp_path
from imtcp_lab.controls import CONTROLS
from imtcp_lab.engine import tools
from imtcp_lab.experiments import advised, en_ftp
from imtcp_lab.results import Point
from imtcp_lab.traffic import Times
from synthetic import META, sent_by_ftp
from test_experiments import scenarios
from vm_guests import runner

NOON = day.at(12, 0)


def test_the_made_day_is_near_its_threshold_when_the_thesiss_advice_switched():
    threshold = day.THRESHOLD_MBPS[45]
    # Table 4: on at 0:15, on and then off from 3:25, off at 7:25; figure 9 from 14:25 on: off, on
    # after 9 minutes, off again after 36.
    assert day.shape_mbps(0.25) < threshold
    assert day.shape_mbps(3 + 25 / 60) < threshold < day.shape_mbps(4)
    assert day.shape_mbps(7 + 25 / 60) > threshold + 5 * day.DEVIATION_MBPS
    assert day.shape_mbps(14 + 25 / 60) > threshold > day.shape_mbps(14 + 40 / 60)
    assert threshold < day.shape_mbps(15 + 5 / 60)


def test_the_shape_goes_over_midnight():
    # From 42.5 at 23:30 to 41.2 at 0:15: two thirds of the way at 0:00.
    assert day.shape_mbps(0) == pytest.approx(42.5 - 1.3 * 2 / 3)
    assert day.shape_mbps(24) == pytest.approx(day.shape_mbps(0))


def test_a_more_congested_network_has_fifteen_less_at_all_times():
    slight, high = (day.trace(day.at(0, 0), 1, used, seed=3) for used in (45, 75))
    assert len(slight) == 288
    for (_, more), (_, less) in zip(slight, high, strict=True):
        assert more - less == pytest.approx(30e6)


def test_days_differ_from_their_shape_by_the_stated_deviation():
    trace = day.trace(day.at(0, 0), 60, 45, seed=1)
    differ = [bps / 1e6 - day.shape_mbps(n % 288 / 12) for n, (_, bps) in enumerate(trace)]
    spread = (sum(d * d for d in differ) / len(differ)) ** 0.5
    assert spread == pytest.approx(day.DEVIATION_MBPS, rel=0.1)
    beside = sum(a * b for a, b in itertools.pairwise(differ)) / len(differ) / spread**2
    assert beside == pytest.approx(1 - 300 / 1800, abs=0.05)


def test_a_transfer_meets_the_record_that_holds_when_it_begins():
    trace = [(NOON + timedelta(minutes=m), 1e6 * (m + 100)) for m in range(-20, 20, 5)]
    part = ftp.around(trace, NOON + timedelta(minutes=2), timedelta(0))
    assert part[:2] == [
        (NOON + timedelta(minutes=2), 100e6),
        (NOON + timedelta(minutes=5), 105e6),
    ]


def test_the_history_is_as_much_faster_as_the_transfer():
    trace = day.trace(day.at(0, 0) - timedelta(days=28), 30, 45, seed=1)
    text = ftp.history(trace, NOON).decode()
    rows = list(csv.DictReader(text.splitlines()))
    # An hour before and four after, every five minutes, and one that holds at the start; of today
    # the hour alone.
    assert len(rows) == 28 * 61 + 13
    yesterday = [r for r in rows if r["time"].startswith("2026-01-29")]
    assert yesterday[13]["time"] == (NOON - timedelta(days=1) + timedelta(seconds=15)).isoformat()
    today = [r for r in rows if r["time"].startswith("2026-01-30")]
    assert today[0]["time"] == (NOON - timedelta(minutes=3)).isoformat()
    assert today[12]["time"] == NOON.isoformat()
    at_noon = dict(trace)[NOON]
    assert float(today[12]["available_bps"]) == pytest.approx(at_noon / 5, abs=1)


def test_what_comes_to_be_known_during_the_transfer_is_reported_then():
    one = scenario(hour=12, minute=0, history="all")
    script = one.reports()
    left_bps = dict(one.trace())[NOON + timedelta(minutes=5)] / 5
    assert f"tell 15000000 2026-01-30T12:00:15+00:00 {left_bps:.0f}\n" in script
    assert script.count("\ntell ") == 48
    subprocess.run(["sh", "-n"], input=script.encode(), check=True)
    assert "reports.sh" in one.script()
    assert "reports.sh" not in scenario().script()


def scenario(**more) -> ftp.FtpScenario:
    return ftp.FtpScenario(
        ftp_path.FtpPath(),
        None,
        None,
        CONTROLS["imtcp_nocc"],
        Times(0, 60, 0),
        seed=1,
        variant="v",
        **more,
    )


def test_with_advice_the_connections_own_control_is_reno_and_off_is_none():
    advised, plain = scenario(history="week").script(), scenario().script()
    assert "echo reno >/proc/sys/net/ipv4/tcp_congestion_control" in advised
    assert "history=week threshold=8400000" in advised
    assert "horizon_s=180 freshness_s=30" in advised
    assert "s|@ENGINE@|on|" in advised
    assert "echo imtcp_nocc >/proc/sys/net/ipv4/tcp_congestion_control" in plain
    assert "s|@ENGINE@|off|" in plain
    assert "advice serve" not in plain


def test_the_losses_are_those_of_the_days_trace():
    job = scenario(hour=12, minute=0).job()
    first = job.files["losses.sh"].decode().splitlines()[0]
    bps = dict(scenario().trace())[NOON] / 5
    # (8 · 1.22 · 1448 / (50 ms · T))², in per cent.
    lost = (8 * 1.22 * 1448 / (0.05 * bps)) ** 2 * 100
    assert first.startswith("tc qdisc change dev wan-rt root netem limit 1000 loss ")
    assert float(first.split()[-1].rstrip("%")) == pytest.approx(lost, rel=1e-4)


@pytest.mark.skipif(shutil.which("dash") is None, reason="dash is not installed")
@pytest.mark.parametrize(
    "experiment",
    [en_ftp.BY_LOAD, en_ftp.WITH_OTHERS, en_ftp.HISTORY_SETS, advised.EXPERIMENT],
    ids=lambda e: e.name,
)
def test_the_script_is_posix_shell(experiment):
    for one in scenarios(experiment, list(experiment.controls), "--seeds", "1"):
        subprocess.run(["dash", "-n"], input=one.script().encode(), check=True)


@pytest.mark.parametrize("text", ["7", "24:00", "7:60", "x:1", ""])
def test_what_is_no_time_of_day_is_refused(text):
    with pytest.raises(Exception, match="time of day"):
        advised.times_of_day(text)


def test_on_a_busy_path_others_take_what_the_trace_does_not_leave():
    one = next(
        s
        for s in scenarios(advised.EXPERIMENT, ["none", "imtcp_fs"], "--times", "12:00")
        if s.history
    )
    script = one.script()
    left_bps = dict(one.trace())[NOON] / 5
    schedule = script.partition("--schedule ")[2].split()[0].split(",")
    assert schedule[0] == f"0:{20e6 - left_bps:.0f}"
    assert schedule[1].startswith("15:")
    assert "off imtcp_fs bg imtcp_bg unknown default" in script
    assert "echo cubic >/proc/sys/net/ipv4/tcp_congestion_control" in script
    assert "imtcp agent" in script
    job = one.job()
    assert job.files["losses.sh"] == b"true\n"
    # The rest of the day is measured.
    assert "reports.sh" not in script


def test_what_is_left_is_the_traces_mean_over_the_transfer():
    one = scenarios(advised.EXPERIMENT, ["cubic"], "--times", "12:00")[0]
    # 40 s are 800 of the trace's: two records of five minutes and 200 s of the third.
    bps = [b / 5 for at, b in one.trace() if NOON <= at < NOON + timedelta(minutes=15)]
    mean = (300 * bps[0] + 300 * bps[1] + 200 * bps[2]) / 800
    assert advised.available_bps(one) == pytest.approx(mean * 1448 / 1514)


def test_others_wait_is_held_against_the_run_without_a_transfer():
    none, cubic = (
        scenarios(advised.EXPERIMENT, [name], "--times", "12:00", "--seeds", "1")[0]
        for name in ("none", "cubic")
    )

    def udp(ms: int) -> pl.DataFrame:
        return pl.DataFrame(
            {"t_us": [1_000_000, 2_000_000], "packets": [10, 10], "delay_sum_us": [ms * 10_000] * 2}
        )

    points = [
        Point(none, {"udp": udp(2)}, META),
        Point(cubic, {"udp": udp(32), **sent_by_ftp(8e6)}, META),
    ]
    rows = advised.EXPERIMENT.rows(points)
    assert [row["others_delay_ms"] for row in rows] == [0, pytest.approx(30)]
    assert rows[1]["ftp_mbps"] == pytest.approx(40)


def test_rates_and_times_are_told_as_the_thesiss():
    one = scenarios(en_ftp.BY_LOAD, ["imtcp_nocc"], "--quick", "--seeds", "1")[1]
    row = en_ftp.BY_LOAD.rows([Point(one, sent_by_ftp(45.68e6 / 5, (1, 0, 0, 1)), META)])[0]
    assert row["method"] == "advice"
    assert row["ftp_mbps"] == pytest.approx(45.68)
    # Its table 3: 47:48 minutes.
    assert row["minutes"] == pytest.approx(47.8, rel=0.01)
    assert (row["answers"], row["switches"], row["off_share"]) == (4, 2, 0.5)


def test_the_thesiss_own_values_are_judged_reproduced():
    table = {
        45: ((45.68, 70.08, 45.44), (45.68, 70.0, 57.6), (45.6, 70.08, 70.08),
             (45.92, 70.08, 53.76), (45.84, 70.08, 68.08)),
        60: ((25.68, 69.68, 25.6), (31.84, 69.84, 57.68), (44.4, 70.08, 70.0),
             (28.8, 69.76, 40.24), (27.92, 69.76, 43.84)),
        75: ((11.68, 64.96, 16.88), (15.68, 68.32, 58.4), (22.24, 69.2, 68.56),
             (14.24, 69.12, 34.72), (13.04, 68.56, 29.28)),
    }  # fmt: skip
    rows = [
        {"method": method, "used_pct": used, "hour": hour, "ftp_mbps": mbps, "seed": 1}
        for used, times in table.items()
        for hour, values in enumerate(times)
        for method, mbps in zip(("CC", "NOCC", "advice"), values, strict=True)
    ]
    # Its own averages: 29.1, 47.1 and 158.7 %.
    assert [en_ftp.gained(rows, used) for used in table] == pytest.approx(
        [0.2907, 0.4711, 1.5872], rel=5e-3
    )
    assert en_ftp.BY_LOAD.paper.verdict(rows).word == "reproduced"
    assert en_ftp.BY_LOAD.paper.draw(rows_for_drawing(rows), en_ftp.plots.LIGHT)[:4] == b"\x89PNG"


def rows_for_drawing(rows: list[dict]) -> list[dict]:
    return [r | {"history": "", "flows": 0} for r in rows]


@pytest.mark.vm
@pytest.mark.skipif(
    not {"proftpd", "mod_imtcp.so"}.isdisjoint(tools.find().missing),
    reason="needs proftpd (scripts/packages-tests.txt) and its module (make proftpd)",
)
def test_a_real_server_follows_advice_over_a_path_that_loses():
    # Two per cent of the file: it ends while the first records hold.
    vm = runner()
    one = scenario(hour=7, minute=25, history="all")
    small = one.job()
    script = small.script.replace(f"truncate -s {ftp.FILE_BYTES}", "truncate -s 3000000")
    result = vm.run(type(small)(script, small.files, small.seed, 300, small.warmup)).check()
    sent, _ = result.files["ftp.csv"].decode().splitlines()[1].split(",")
    assert sent == "3000000"
    answers = result.files["advice.csv"].decode().splitlines()
    assert answers[0] == "off,again_s"
    # The path is far above its threshold then.
    assert answers[1].startswith("1,")
    assert "congestion control imtcp_nocc, send buffer" in result.log


def test_other_flows_are_counted_one_by_one_while_the_file_is_sent():
    one = scenarios(en_ftp.WITH_OTHERS, ["reno"], "--seeds", "1")[1]
    assert one.flows == 2
    seconds = ftp.FILE_BYTES * 8 / 8e6
    rows = [(500_000, 1, 3_000_000), (600_000, 2, 2_000_000), (700_000, 1, 1_000_000)]
    rows.append((round(seconds * 1e6) + 1, 2, 9_000_000))
    bulk = pl.DataFrame(rows, schema=["t_us", "flow", "bytes"], orient="row")
    row = en_ftp.WITH_OTHERS.rows([Point(one, {**sent_by_ftp(8e6), "bulk": bulk}, META)])[0]
    # 4 MB and 2 MB, told five times faster.
    assert row["others_mbps"] == pytest.approx(6e6 * 8 / seconds / 1e6 * 5)
    assert row["other_least_mbps"] == pytest.approx(2e6 * 8 / seconds / 1e6 * 5)
