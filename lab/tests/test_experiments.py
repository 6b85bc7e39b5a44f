"""The experiments' computations from their points, and their options."""

from __future__ import annotations

import argparse
import math

import polars as pl
import pytest

from imtcp_lab import cli, raw, run, sweep, tables
from imtcp_lab.controls import CONTROLS, named
from imtcp_lab.experiments import EXPERIMENTS, alone, cpu, greedy, tracking, web
from imtcp_lab.job import LabError
from synthetic import point


def scenarios(experiment, controls, *arguments):
    parser = argparse.ArgumentParser()
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--first-seed", type=int, default=1)
    experiment.add_arguments(parser)
    parser.add_argument("--quick", action="store_true")
    args = parser.parse_args(list(arguments))
    args.seed_numbers = run.seed_numbers(args)
    args.chosen = named(controls)
    return experiment.scenarios(args)


@pytest.mark.parametrize("experiment", EXPERIMENTS, ids=lambda e: e.name)
def test_every_point_of_an_experiment_has_its_own_key_and_job(experiment):
    points = scenarios(experiment, list(experiment.controls))
    assert len({p.key for p in points}) == len(points)
    # Jobs of *none* have no background, so those of two variants may be equal.
    jobs = [p.job() for p in points if not p.control.is_none]
    asked = {(job.script, tuple(sorted(job.files.items()))) for job in jobs}
    assert len(asked) == len(jobs)
    assert all(name in CONTROLS for name in experiment.controls)


def test_seeds_for_tuning_and_for_reporting_can_be_kept_apart():
    points = scenarios(web.EXPERIMENT, "imtcp_bg", "--seeds", "3", "--first-seed", "101")
    assert {p.seed for p in points} == {101, 102, 103}


def events(rows):
    """(t_us, outcome, avail_bps, smoothed_bps) → the event table."""
    names = ("t_us", "outcome", "avail_bps", "smoothed_bps")
    return pl.DataFrame(
        [dict(zip(names, row, strict=True)) for row in rows], schema=raw.EVENT_COLUMNS
    )


def track(variant, rows):
    scenario = scenarios(tracking.EXPERIMENT, "imtcp", "--cross", variant, "--seeds", "1")[0]
    return point(scenario, 30e6, events=events(rows))


def test_errors_are_of_valid_results_against_the_schedule():
    run = track(
        "30pct",
        [
            (1_000_000, "valid", 10e6, None),  # warm-up
            (3_000_000, "valid", 77e6, None),  # +10 %
            (4_000_000, "bunched", 1e6, None),
            (5_000_000, "valid", 63e6, None),  # -10 %
            (6_000_000, "valid", 84e6, None),  # +20 %
        ],
    )
    row = tracking.EXPERIMENT.rows([run])[0]
    assert row["error_median"] == pytest.approx(0.1)
    assert row["bias"] == pytest.approx(0.2 / 3)
    assert row["results_per_s"] == pytest.approx(3 / 10)
    assert row["valid_share"] == pytest.approx(3 / 4)
    assert row["outcomes"] == {"valid": 3, "bunched": 1}
    # 30 of the 70 Mbit/s that are available.
    assert row["U"] == pytest.approx(3 / 7, rel=1e-3)


def test_results_just_after_a_step_are_not_judged():
    run = track("steps", [(8_100_000, "valid", 70e6, None), (8_400_000, "valid", 30e6, None)])
    assert tracking.valid_results(run, tracking.CROSS["steps"])["error"].to_list() == [0.0]


def test_a_step_is_found_when_the_smoothed_value_is_near():
    run = track(
        "steps",
        [
            (7_900_000, "valid", 70e6, 70e6),
            (8_300_000, "valid", 30e6, 50e6),
            (8_700_000, "valid", 30e6, 35e6),
        ],
    )
    assert tracking.time_to_find_us(run, 8) == 700_000
    assert math.isnan(tracking.time_to_find_us(run, 16))


def test_the_truth_follows_the_steps():
    steps = tracking.CROSS["steps"]
    assert [tracking.true_available_bps(steps, t * 1e6) for t in (0, 7.9, 8, 17)] == [
        70e6, 70e6, 30e6, 50e6,
    ]  # fmt: skip
    assert tracking.schedule_text(steps) == "0:30000000,8:70000000,16:50000000"


def test_tcp_cross_traffic_joins_flow_by_flow_and_takes_whole_frames():
    scenario = scenarios(tracking.EXPERIMENT, "imtcp", "--cross", "tcp", "--seeds", "1")[0]
    assert "--flows 10 --stagger 1 --max-rate 4000000" in scenario.script()
    steps = tracking.CROSS["tcp"]
    # 4 Mbit/s · 1514/1448 = 4.1823 Mbit/s of frames each.
    assert tracking.true_available_bps(steps, 0.5e6) == pytest.approx(95.8177e6, abs=100)
    assert tracking.true_available_bps(steps, 9.5e6) == pytest.approx(58.1768e6, abs=100)
    # Each step is too small to count as found.
    assert tracking.large_steps_s(steps) == []
    assert tracking.large_steps_s(tracking.CROSS["steps"]) == [8, 16]


def test_on_another_capacity_cross_traffic_and_truth_are_in_proportion():
    arguments = ("--capacity-mbps", "10", "--seeds", "1", "--cross")
    udp = scenarios(tracking.EXPERIMENT, "imtcp", *arguments, "steps")[0]
    assert "0:3000000,8:7000000,16:5000000" in udp.script()
    tcp = scenarios(tracking.EXPERIMENT, "imtcp", *arguments, "tcp")[0]
    assert "--max-rate 400000 " in tcp.script()
    rows = [(7_000_000, "valid", 7.7e6, 7.7e6), (8_500_000, "valid", 3e6, 3e6)]
    row = tracking.EXPERIMENT.rows([point(udp, 3e6, events=events(rows))])[0]
    assert row["bias"] == pytest.approx(0.05)
    assert row["found_s"] == pytest.approx(0.5)


def test_cross_traffic_that_did_not_arrive_shows():
    scenario = scenarios(tracking.EXPERIMENT, "imtcp", "--cross", "60pct", "--seeds", "1")[0]
    # Intervals of 0.1 s, and 1472 bytes of payload per frame of 1514 bytes. Half of the planned
    # rate arrives.
    times = list(range(100_000, 13_000_000, 100_000))
    packets = [30e6 / 8 / 1514 / 10] * len(times)
    udp = pl.DataFrame({"t_us": times, "packets": packets, "bytes": [1472 * n for n in packets]})
    row = tracking.EXPERIMENT.rows([point(scenario, 30e6, udp=udp, events=events([]))])[0]
    assert row["carried"] == pytest.approx(0.5)
    idle = scenarios(tracking.EXPERIMENT, "imtcp", "--cross", "0pct", "--seeds", "1")[0]
    row = tracking.EXPERIMENT.rows([point(idle, 30e6, udp=udp, events=events([]))])[0]
    assert math.isnan(row["carried"])


def test_alone_reports_utilisation_of_the_capacity():
    scenario = scenarios(alone.EXPERIMENT, "cubic", "--flows", "1")[0]
    row = alone.EXPERIMENT.rows([point(scenario, 40e6)])[0]
    assert row["utilisation"] == pytest.approx(0.8, rel=1e-3)
    assert math.isnan(row["jain"])


def test_cpu_counts_what_was_not_idle_per_byte_against_reno():
    reno, bg = scenarios(cpu.EXPERIMENT, "reno,imtcp_bg", "--seeds", "1")

    def uptime(busy_s):
        return pl.DataFrame({"uptime_s": [5.0, 15.0], "idle_s": [4.0, 14.0 - busy_s]})

    # 40 Mbit/s of frames for 10 s are 47.82 MB of payload.
    rows = cpu.EXPERIMENT.rows(
        [point(reno, 40e6, uptime=uptime(1.0)), point(bg, 40e6, uptime=uptime(1.5))]
    )
    assert rows[0]["instructions_per_byte"] == pytest.approx(1e9 / 47.82e6, rel=1e-3)
    assert rows[1]["ratio"] == pytest.approx(1.5, rel=1e-3)
    assert rows[1]["extra_per_segment"] == pytest.approx(0.5e9 / 47.82e6 * 1448, rel=1e-3)


def test_cpu_counts_the_controls_own_programs_apart():
    reno, bg = scenarios(cpu.EXPERIMENT, "reno,imtcp_bg", "--seeds", "1")
    uptime = pl.DataFrame({"uptime_s": [5.0, 15.0], "idle_s": [4.0, 13.0]})
    # The counts cover twenty seconds, twice the window. The last program appears only in the second
    # look.
    programs = pl.DataFrame(
        [
            (0, 1, "imtcp_pkts_acked", 100, 50_000),
            (0, 2, "imtcp_min_tso_segs", 10, 9_000),
            (20_000_000, 1, "imtcp_pkts_acked", 40_100, 16_050_000),
            (20_000_000, 2, "imtcp_min_tso_segs", 20_010, 6_009_000),
            (20_000_000, 3, "imtcp_cong_avoid", 30_000, 12_000_000),
        ],
        schema=raw.PROGRAM_COLUMNS,
        orient="row",
    )
    rows = cpu.EXPERIMENT.rows(
        [point(reno, 40e6, uptime=uptime), point(bg, 40e6, uptime=uptime, programs=programs)]
    )
    assert "own_ratio" not in rows[0]
    assert rows[1]["per_ack"] == pytest.approx((16_000_000 + 12_000_000) / 40_000)
    assert rows[1]["per_send"] == pytest.approx(300)
    # The programs took 34 ms in twenty seconds, and half of that in the window. 47.82 MB are 33 022
    # segments.
    assert rows[1]["own_per_segment"] == pytest.approx(17e6 / 33_022, rel=1e-3)
    assert rows[1]["own_ratio"] == pytest.approx(1 + 0.017, rel=1e-3)


def test_cpu_needs_its_yardstick():
    with pytest.raises(ValueError, match="reno"):
        scenarios(cpu.EXPERIMENT, "cubic")


def rival(scenario, bps):
    """Payload bytes that arrived at the foreground's receiver, per 100 ms."""
    times = range(100_000, round(scenario.times.total_s * 1e6), 100_000)
    return pl.DataFrame({"t_us": times, "bytes": [round(bps / 80)] * len(times)})


def test_greedy_reports_what_the_foreground_lost_against_being_alone():
    none, mine = scenarios(greedy.EXPERIMENT, "none,imtcp_bg", "--rivals", "reno", "--seeds", "1")
    ran = [
        point(none, rival=rival(none, 40e6)),
        point(mine, 10e6, rival=rival(mine, 30e6)),
    ]
    row = greedy.EXPERIMENT.rows(ran)[1]
    assert row["rival_loss"] == pytest.approx(0.25)
    assert row["share"] == pytest.approx(0.2, rel=1e-3)


def test_greedy_tells_how_soon_the_background_has_the_link_that_the_foreground_left():
    mine = scenarios(greedy.EXPERIMENT, "imtcp_bg", "--rivals", "reno", "--seeds", "1")[0]
    gone_s = mine.times.active_s + 0.3
    left = rival(mine, 30e6).filter(pl.col("t_us") <= gone_s * 1e6)
    idle_s = 1.2
    samples = range(0, round(mine.times.total_s * 10) + 1)
    segments = [max(0, n - round((gone_s + idle_s) * 10)) * 400 for n in samples]
    there = pl.DataFrame(
        {"t_us": [n * 100_000 for n in samples], "cookie": 1, "data_segs_in": segments}
    )
    # 400 frames per 100 ms are more than 90 % of the capacity; 370 are less.
    assert greedy.back_s(point(mine, tcp=there, rival=left)) == pytest.approx(idle_s)
    never = there.with_columns(pl.col("data_segs_in") * 370 // 400)
    after_s = mine.times.total_s - gone_s
    assert greedy.back_s(point(mine, tcp=never, rival=left)) == pytest.approx(after_s)


def test_a_point_without_its_none_is_an_error():
    scenario = scenarios(web.EXPERIMENT, "cubic")[0]
    with pytest.raises(LabError, match="no run without background"):
        web.EXPERIMENT.rows([point(scenario, 10e6)])


def test_bdp_is_a_buffer():
    points = scenarios(web.EXPERIMENT, "none", "--buffers", "bdp", "--flows", "1")
    assert {p.path.buffer_pkts for p in points} == {124}


def test_tables_show_the_mean_with_the_least_and_the_greatest():
    rows = [
        {"control": "cubic", "U": 0.9, "I": 0.5},
        {"control": "cubic", "U": 1.1, "I": 0.7},
        {"control": "nv", "U": 0.95, "I": None},
    ]
    columns = (tables.Column("U", "U"), tables.Column("I", "I", tables.as_percent))
    text = tables.text_table(rows, ("control",), columns)
    lines = text.splitlines()
    assert " ".join(lines[2].split()) == "cubic 1.00 (0.90 … 1.10) 60 % (50 % … 70 %) 2"
    assert lines[3].split() == ["nv", "0.95", "-", "1"]


def test_settings_have_no_more_digits_than_a_reader_needs():
    assert [tables.as_setting(v) for v in (3 + 5 / 12, 0.001, 1500.0, 7, "cubic")] == [
        "3.417",
        "0.001",
        "1500",
        "7",
        "cubic",
    ]


def test_small_percentages_have_a_digit_more():
    assert tables.as_percent(0.034) == "3.4 %"
    assert tables.as_percent(1.19) == "119 %"
    assert tables.as_percent(-0.0004) == "0.0 %"
    assert tables.as_percent(-0.0006) == "-0.1 %"
    assert tables.as_mbps(2.25e7) == "22.5"


def test_the_bar_tells_share_points_and_time_left(monkeypatch):
    class Stream(list):
        def write(self, text):
            self.append(text)

        def flush(self):
            pass

        def isatty(self):
            return False

    stream = Stream()
    now = [100.0]
    monkeypatch.setattr(sweep.time, "monotonic", lambda: now[0])
    bar = sweep.ProgressBar(10, "demo", stream)
    bar.points = 4
    now[0] = 130.0
    bar.finished = 1
    bar.show(2.5)
    assert "25%  1/4  1:30 left" in stream[-1]


def test_a_kernel_that_the_laboratory_has_not_got_is_wrong_usage(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(SystemExit) as ended:
        cli.main(["run", "web", "--kernel", "5.10"])
    assert ended.value.code == 2
    said = capsys.readouterr().err
    assert "choose from" in said and "6.12" in said


@pytest.mark.parametrize(
    ("command", "told"),
    [
        ("web --buffers foo", "argument --buffers: 'foo' is neither packets nor bdp"),
        ("web --flows 1,a", "argument --flows: invalid count value: 'a'"),
        ("web --load 0", "argument --load: not positive: 0"),
        ("alone --flows 0,1", "argument --flows: not 1 or more: 0"),
        ("limit --rtts x", "argument --rtts: invalid positive value: 'x'"),
        ("greedy --rivals imtcp", "argument --rivals: unknown rival imtcp (known: reno, "),
    ],
)
def test_a_wrong_value_of_an_option_is_told_with_the_options_name(command, told, capsys):
    with pytest.raises(SystemExit) as ended:
        cli.main(["run", *command.split()])
    assert ended.value.code == 2
    assert told in capsys.readouterr().err


@pytest.mark.parametrize("name", [e.name for e in EXPERIMENTS])
def test_help_of_each_experiment_opens(name, capsys):
    with pytest.raises(SystemExit) as ended:
        cli.main(["run", name, "--help"])
    assert ended.value.code == 0
    assert "--seeds" in capsys.readouterr().out
