"""The thesis's transfers by FTP: the artificial trace, the service's input, and the claims."""

from __future__ import annotations

import csv
import itertools
import shutil
import subprocess
from datetime import timedelta

import polars as pl
import pytest

from imtcp_lab import day, ftp, ftp_path, tables
from imtcp_lab.controls import CONTROLS
from imtcp_lab.engine import tools
from imtcp_lab.experiments import advised, en_ftp, en_ftp_claims
from imtcp_lab.results import Point
from imtcp_lab.traffic import Times
from imtcp_lab.vm import FAST
from synthetic import META, sent_by_ftp
from test_experiments import scenarios
from vm_guests import runner

NOON = day.at(12, 0)


def test_the_made_day_is_near_its_threshold_when_the_thesiss_advice_switched():
    threshold = day.THRESHOLD_MBPS[45]
    # Congestion control by the thesis's advice, which the shape must allow:
    #
    # time   table 4        figure 9
    # 0:15   on
    # 3:25   on, then off
    # 7:25   off
    # 14:25                 off, on after 9 minutes, off after 36
    assert day.shape_mbps(0.25) < threshold
    assert day.shape_mbps(3 + 25 / 60) < threshold < day.shape_mbps(4)
    assert day.shape_mbps(7 + 25 / 60) > threshold + 5 * day.DEVIATION_MBPS
    assert day.shape_mbps(14 + 25 / 60) > threshold > day.shape_mbps(14 + 40 / 60)
    assert threshold < day.shape_mbps(15 + 5 / 60)


def test_the_shape_goes_over_midnight():
    # Midnight is two thirds of the way between the neighbouring points.
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
    # A past day has records every five minutes from an hour before to four hours after, and one
    # that holds at the start. Today has only the hour before.
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
    assert "imtcp-agent feed" in script
    job = one.job()
    assert job.files["losses.sh"] == b"true\n"
    # imtcp measures during the transfer, so the trace is not reported.
    assert "reports.sh" not in script


def test_what_is_left_is_the_traces_mean_over_the_transfer():
    one = scenarios(advised.EXPERIMENT, ["cubic"], "--times", "12:00")[0]
    # 40 s are 800 s of the trace: two records of five minutes and 200 s of the third.
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
    # 47:48 minutes in the thesis's table 3.
    assert row["minutes"] == pytest.approx(47.8, rel=0.01)
    assert (row["answers"], row["switches"], row["off_share"]) == (4, 2, 0.5)


TIMES = [hour + minute / 60 for hour, minute in en_ftp_claims.TIMES_OF_DAY]


def states(told: str) -> dict:
    """A row's columns from the states in the notation of the thesis's tables: 0(2),1 is off, off,
    on."""
    off = []
    for part in told.split(","):
        state, _, count = part.rstrip(")").partition("(")
        off += [state == "0"] * int(count or 1)
    return {
        "answers": len(off),
        "switches": sum(a != b for a, b in itertools.pairwise(off)),
        "off_share": sum(off) / len(off),
    }


def thesis_loads() -> list[dict]:
    """Rates and states of [EN tables 3 to 10]."""
    table = {
        45: ((45.68, 70.08, 45.44, "1(4)"), (45.68, 70.0, 57.6, "1,0(3)"),
             (45.6, 70.08, 70.08, "0(2)"), (45.92, 70.08, 53.76, "0,1(2),0"),
             (45.84, 70.08, 68.08, "0(3),1")),
        60: ((25.68, 69.68, 25.6, "1(12)"), (31.84, 69.84, 57.68, "1,0(9)"),
             (44.4, 70.08, 70.0, "0(5)"), (28.8, 69.76, 40.24, "0(2),1(4),0(3)"),
             (27.92, 69.76, 43.84, "0(5),1(4)")),
        75: ((11.68, 64.96, 16.88, "1(46),0(23)"), (15.68, 68.32, 58.4, "1,0(48)"),
             (22.24, 69.2, 68.56, "0(18)"), (14.24, 69.12, 34.72, "0(7),1(9),0(21),1(3)"),
             (13.04, 68.56, 29.28, "0(24),1(6),0(4),1(9)")),
    }  # fmt: skip
    return [
        {"method": method, "used_pct": used, "hour": hour, "ftp_mbps": mbps, "seed": 1}
        | (states(told) if method == "advice" else {})
        for used, times in table.items()
        for hour, (*found, told) in zip(TIMES, times, strict=True)
        for method, mbps in zip(("CC", "NOCC", "advice"), found, strict=True)
    ]


def thesis_others() -> list[dict]:
    """Mbit/s of FTP and of each other flow, from [EN tables 13, 17 and 18]."""
    table = {
        "CC": ((39.76, 52.10), (39.60, 52.22), (39.60, 52.21), (39.68, 52.17), (39.68, 52.12),
               (38.80, 25.79, 27.53), (39.04, 25.78, 27.25), (38.96, 25.85, 27.31),
               (38.48, 26.02, 27.64), (39.04, 25.86, 27.25)),
        "advice": ((39.20, 52.82), (53.52, 37.97), (69.68, 20.60), (48.56, 42.49), (67.20, 22.73),
                   (38.64, 25.83, 27.60), (52.24, 23.04, 24.17), (69.20, 10.74, 10.28),
                   (47.68, 21.24, 22.96), (66.48, 12.03, 11.29)),
        "NOCC": ((69.52, 20.61), (69.60, 20.63), (69.68, 20.58), (69.76, 20.58), (69.76, 20.59),
                 (69.28, 10.28, 10.61), (69.36, 10.24, 10.64), (69.28, 10.32, 10.60),
                 (69.28, 10.45, 10.42), (69.28, 10.26, 10.60)),
    }  # fmt: skip
    beside = [
        {"method": method, "flows": len(others), "hour": hour, "seed": 1, "ftp_mbps": ftp_mbps}
        | {"others_mbps": sum(others), "other_least_mbps": min(others)}
        for method, found in table.items()
        for hour, (ftp_mbps, *others) in zip(TIMES * 2, found, strict=True)
    ]
    return beside + [
        {"method": "alone", "flows": flows, "hour": 7.4, "seed": 1, "others_mbps": 83.4}
        for flows in (1, 2)
    ]


def thesis_histories() -> list[dict]:
    """Rates and states of [EN tables 20 to 27]."""
    table = {
        (45, "all"): ((45.44, "1(4)"), (57.60, "1,0(3)"), (70.08, "0(2)"), (53.76, "0,1(2),0"),
                      (68.08, "0(3),1")),
        (45, "weekday"): ((45.52, "1(4)"), (52.96, "1,0"), (70.00, "0(2)"), (57.84, "0,1"),
                          (70.08, "0(2)")),
        (45, "week"): ((45.36, "1(3)"), (51.36, "1,0"), (70.08, "0"), (70.08, "0"),
                       (70.08, "0(2)")),
        (60, "all"): ((25.60, "1(12)"), (57.68, "1,0(9)"), (70.00, "0(5)"),
                      (40.24, "0(2),1(4),0(3)"), (43.84, "0(5),1(4)")),
        (60, "weekday"): ((25.68, "1(8)"), (53.60, "1,0(5)"), (69.92, "0(4)"),
                          (42.00, "0,1(2),0(2)"), (45.84, "0(3),1(2)")),
        (60, "week"): ((25.68, "1(5)"), (51.76, "1,0(4)"), (70.00, "0(2)"), (43.92, "0,1,0"),
                       (55.28, "0(3),1")),
        (75, "all"): ((16.88, "1(46),0(23)"), (58.40, "1,0(48)"), (68.56, "0(18)"),
                      (34.72, "0(7),1(9),0(21),1(3)"), (29.28, "0(24),1(6),0(4),1(9)")),
        (75, "weekday"): ((17.68, "1(27),0(10)"), (57.04, "1,0(26)"), (69.44, "0(10)"),
                          (30.72, "0(3),1(6),0(7),1,0(3)"), (34.16, "0(14),1(5),0(4),1(4)")),
        (75, "week"): ((17.52, "1(22),0(15)"), (56.88, "1,0(24)"), (69.52, "0(6)"),
                       (28.08, "0(2),1(3),0(5),1(2),0(3)"), (38.08, "0(12),1(3),0(2),1(2)")),
    }  # fmt: skip
    return [
        {"method": "advice", "used_pct": used, "history": history, "hour": hour, "seed": 1}
        | {"ftp_mbps": mbps}
        | states(told)
        for (used, history), times in table.items()
        for hour, (mbps, told) in zip(TIMES, times, strict=True)
    ]


@pytest.mark.parametrize(
    ("experiment", "rows"),
    [
        (en_ftp.BY_LOAD, thesis_loads()),
        (en_ftp.WITH_OTHERS, thesis_others()),
        (en_ftp.HISTORY_SETS, thesis_histories()),
    ],
    ids=lambda value: getattr(value, "name", "rows"),
)
def test_the_thesiss_own_values_are_judged_reproduced(experiment, rows):
    verdict = experiment.paper.verdict(rows)
    assert [claim.text for claim in verdict.claims if not claim.holds] == []
    assert experiment.paper.draw(rows_for_drawing(rows), en_ftp.plots.LIGHT)[:4] == b"\x89PNG"


def rows_for_drawing(rows: list[dict]) -> list[dict]:
    return [{"history": "", "flows": 0} | r for r in rows]


def test_what_advice_gains_is_the_mean_over_the_times_of_day():
    # The averages in the thesis are 29.1, 47.1 and 158.7 %.
    gains = [en_ftp_claims.gained(thesis_loads(), used) for used in (45, 60, 75)]
    assert gains == pytest.approx([0.2907, 0.4711, 1.5872], rel=5e-3)


def failed(experiment, rows: list[dict]) -> list[str]:
    return [claim.text for claim in experiment.paper.verdict(rows).claims if not claim.holds]


def test_advice_that_is_off_all_the_time_is_told_where_the_load_changes():
    rows = [r | {"off_share": 1.0} if "off_share" in r else r for r in thesis_loads()]
    told = failed(en_ftp.BY_LOAD, rows)
    assert [text.partition(":")[0] for text in told[:1]] == ["at least 45 % used, 3"]
    # Three times of day at each load, and 0:15 at the highest load.
    assert len(told) == 10


def test_two_flows_that_lose_less_than_the_thesiss_are_told():
    rows = [
        r | {"others_mbps": 74.7, "ftp_mbps": 10.0} if (r["method"], r["flows"]) == ("CC", 2) else r
        for r in thesis_others()
    ]
    told = failed(en_ftp.WITH_OTHERS, rows)
    assert told[0].startswith("2 flows lose beside FTP with congestion control 10 %")
    assert told[1].startswith("FTP with congestion control beside 2 flows: Mbit/s 10.0")


def test_as_many_changes_of_state_are_as_many_at_each_time():
    # One change more at one time and one fewer at another give the same mean.
    moved = {("week", TIMES[1]): 2, ("week", TIMES[3]): 1}
    rows = [
        r | {"switches": moved.get((r["history"], r["hour"]), r["switches"])}
        if r["used_pct"] == 60
        else r
        for r in thesis_histories()
    ]
    (told,) = failed(en_ftp.HISTORY_SETS, rows)
    assert "changes of state are as many with each set" in told


def test_times_of_day_are_shown_as_a_clock_has_them():
    assert [tables.as_time(hour) for hour in TIMES] == ["0:15", "3:25", "7:25", "14:25", "21:10"]
    shown = tables.text_table([{"hour": TIMES[1], "x": 1}], ("hour",), (tables.Column("x", "x"),))
    assert shown.splitlines()[0].startswith("time of day")
    assert shown.splitlines()[2].startswith("3:25 ")


@pytest.mark.vm
@pytest.mark.skipif(
    not {"proftpd", "mod_imtcp.so"}.isdisjoint(tools.find().missing),
    reason="needs proftpd (scripts/packages-tests.txt) and its module (make proftpd)",
)
def test_a_real_server_follows_advice_over_a_path_that_loses():
    # Two per cent of the file, so that it ends while the first records hold.
    vm = runner(FAST)
    one = scenario(hour=7, minute=25, history="all")
    small = one.job()
    script = small.script.replace(f"truncate -s {ftp.FILE_BYTES}", "truncate -s 3000000")
    result = vm.run(type(small)(script, small.files, small.seed, 300, small.warmup)).check()
    sent, _ = result.files["ftp.csv"].decode().splitlines()[1].split(",")
    assert sent == "3000000"
    answers = result.files["advice.csv"].decode().splitlines()
    assert answers[0] == "off,again_s"
    # The path is far above its threshold at this time.
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
    # The flows have 4 MB and 2 MB, at rates five times higher in the thesis's network.
    assert row["others_mbps"] == pytest.approx(6e6 * 8 / seconds / 1e6 * 5)
    assert row["other_least_mbps"] == pytest.approx(2e6 * 8 / seconds / 1e6 * 5)
