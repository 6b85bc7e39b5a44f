"""The papers' figures: their runs, verdicts, pictures and report."""

from __future__ import annotations

import io
import json
import math
import re
from dataclasses import replace

import polars as pl
import pytest
from PIL import Image

from imtcp_lab import asked, cli, papers, papers_report, plots, results, run, sweep
from imtcp_lab.controls import CONTROLS
from imtcp_lab.experiments import (
    PAPERS,
    bg_joining,
    im_counts,
    im_measure,
    im_modes,
    im_passive,
    im_share,
    im_timer,
    lp_greedy,
    lp_model,
    lp_square,
    lp_web,
)
from imtcp_lab.experiments.paper import (
    DIFFERS,
    NOT_REPRODUCED,
    REPRODUCED,
    Claim,
    Verdict,
    below,
    less,
    mean,
    more_than_one,
    near,
)
from imtcp_lab.figures import DARK, LIGHT
from imtcp_lab.job import LabError
from imtcp_lab.metrics import Window
from synthetic import point
from test_experiments import rival, scenarios

PNG = b"\x89PNG"
by_name = pytest.mark.parametrize("experiment", PAPERS, ids=lambda e: e.name)


def quick(experiment):
    return scenarios(experiment, list(experiment.controls), "--quick", "--seeds", "1")


def as_if_run(experiment):
    """Points of the quick form, with 10 Mbit/s for every background."""
    return [
        point(s, 0 if s.control.is_none else 10e6, rival=rival(s, 5e6)) for s in quick(experiment)
    ]


def needs_points(experiment):
    return bool(experiment.controls)


@by_name
def test_a_quick_form_is_a_part_of_the_cost(experiment):
    if not needs_points(experiment):
        pytest.skip("nothing is run for a model")
    full = scenarios(experiment, list(experiment.controls), "--seeds", str(experiment.seeds))
    assert sum(s.times.total_s for s in quick(experiment)) < sum(s.times.total_s for s in full) / 4


@by_name
def test_rows_are_judged_and_drawn(experiment):
    rows = results.plain(experiment.rows(as_if_run(experiment) if needs_points(experiment) else []))
    verdict = experiment.paper.verdict(rows)
    assert verdict.claims
    assert all(claim.text for claim in verdict.claims)
    assert experiment.paper.draw(rows, LIGHT).startswith(PNG)


def test_the_dark_picture_is_another_one():
    rows = results.plain(lp_model.EXPERIMENT.rows([]))
    light, dark = (lp_model.EXPERIMENT.paper.draw(rows, theme) for theme in (LIGHT, DARK))
    assert light != dark


def test_panels_stand_beside_and_below_each_other(monkeypatch):
    made = []
    monkeypatch.setattr(plots, "png", lambda figure: made.append(figure) or b"")
    rows = [
        {"control": "reno", "load": load, "x": x, "y": x * load, "z": 1}
        for load in (1, 2)
        for x in (1, 2)
    ]
    plots.lines(rows, "x", "y", "x", "y", panels="load", below=[("z", "z")])
    y1, y2, z1, z2 = (axes.get_lines()[0].get_ydata().tolist() for axes in made[0].axes)
    assert (y1, y2, z1, z2) == ([1, 2], [2, 4], [1, 1], [1, 1])
    assert [text.get_text() for text in made[0].legends[0].get_texts()] == ["Reno"]


def test_lines_over_time_are_named_once_for_all_panels(monkeypatch):
    made = []
    monkeypatch.setattr(plots, "png", lambda figure: made.append(figure) or b"")
    line = {"t_s": [0, 1], "value": [1, 2]}
    lines = [line | {"name": "flow 1"}, line | {"name": "flow 2"}, line]
    rows = [{"control": c, "seed": 1, "lines": lines} for c in ("reno", "imtcp_bg")]
    plots.over_time(rows, "lines", "Mbit/s")
    (legend,) = made[0].legends
    assert [text.get_text() for text in legend.get_texts()] == ["flow 1", "flow 2"]


def test_what_has_no_x_is_a_level(monkeypatch):
    made = []
    monkeypatch.setattr(plots, "png", lambda figure: made.append(figure) or b"")
    rows = [{"control": "reno", "x": x, "y": 2} for x in (1, 2)]
    plots.lines([*rows, {"control": "none", "x": None, "y": 5}], "x", "y", "x", "y")
    (axes,) = made[0].axes
    assert [5, 5] in [list(line.get_ydata()) for line in axes.get_lines()]
    names = [text.get_text() for text in axes.get_legend().get_texts()]
    assert names == ["Reno", "no background"]


def test_a_picture_has_a_palette_and_equal_ones_are_equal_files():
    first, again = (plots.bars([{"control": "reno", "y": 1}], "y", "y") for _ in range(2))
    assert first == again
    with Image.open(io.BytesIO(first)) as image:
        assert image.mode == "P"


@by_name
def test_what_is_kept_is_judged_and_drawn_again(experiment):
    record = papers.load_kept(experiment)
    section = papers_report.section(experiment, record)
    if record is None:
        assert section.word == papers_report.NOT_RUN
        return
    assert section.word in (REPRODUCED, DIFFERS, NOT_REPRODUCED)
    assert section.picture.light_png.startswith(PNG)
    assert record["experiment"] == experiment.name


def test_a_verdict_says_how_many_of_its_claims_hold():
    yes, no = Claim("a", True), Claim("b", False)
    assert Verdict((yes, yes)).word == REPRODUCED
    assert Verdict((yes, no)).word == DIFFERS
    assert Verdict((no, no)).word == NOT_REPRODUCED


def test_a_claim_says_how_many_seeds_bear_it_out_where_they_do_not_agree():
    def judge(rows):
        return [below("U", mean(rows, "U"), "the bound", 0.5), below("I", 0.0, "the bound", 1)]

    paper = replace(im_measure.STEPS.paper, judge=judge)
    rows = [{"seed": 1, "U": 0.4}, {"seed": 2, "U": 0.6}, {"seed": 3, "U": 0.4}]
    split, agreed = paper.verdict(rows).claims
    assert split.holds and split.told.endswith("[holds in 2 of 3 seeds by themselves]")
    assert agreed.told == agreed.text
    missed = paper.verdict([row | {"U": row["U"] + 0.05} for row in rows[:2]]).claims[0]
    assert not missed.holds and missed.told.endswith("[holds in 1 of 2 seeds by themselves]")


def test_what_was_not_measured_bears_nothing_out():
    rows = [{"control": "reno", "U": None}]
    assert math.isnan(mean(rows, "U", control="reno"))
    assert not below("U", mean(rows, "U"), "1", 1).holds
    assert "(not measured)" in below("U", mean(rows, "U"), "1", 1).text


def test_near_is_within_what_is_said_on_both_sides():
    assert near("U", 0.61, 0.51, 0.11).holds and near("U", 0.41, 0.51, 0.11).holds
    assert not near("U", 0.63, 0.51, 0.11).holds and not near("U", 0.39, 0.51, 0.11).holds
    assert not near("U", math.nan, 0.51, 0.11).holds


def test_less_is_by_a_twentieth_and_not_by_a_hair():
    assert less("U", 0.95, "that", 1.0).holds
    assert not less("U", 0.96, "that", 1.0).holds


def test_a_step_is_followed_where_half_of_its_results_are_right_and_not_where_there_are_none():
    true = {"name": "true", "t_s": [0, 1, 2, 3, 4, 5], "value": [60, 60, 20, 20, 60, 60]}
    measured = {"name": "measured", "t_s": [0.5, 1.5, 2.5], "value": [60, 71, 30]}
    claims = im_measure.STEPS.paper.judge(
        [{"N": 5, "error_median": 0.1, "lines": [measured, true]}]
    )
    # The last claim is about streams of three packets, which have no rows here.
    assert [claim.holds for claim in claims] == [True, False, False, False]
    assert "step 1, to 60 Mbit/s: median error 9.2 % with N = 5" in claims[0].text


def as_in_the_papers_table(scale):
    return [
        {"N": packets, "m": m, "results": scale * results}
        for packets, by_m in im_counts.PAPER_COUNTS.items()
        for m, results in by_m.items()
    ]


def test_the_papers_own_counts_bear_all_of_its_sentences_out():
    claims = im_counts.COUNTS.paper.judge(as_in_the_papers_table(1))
    assert all(claim.holds for claim in claims)
    assert "is 2, 4, 6 with N = 5, 6, 7" in claims[-1].text


def test_half_of_the_papers_results_to_the_number_is_not_more_than_half():
    claims = im_counts.COUNTS.paper.judge(as_in_the_papers_table(0.5))
    assert [c.holds for c in claims if "half of the paper's" in c.text] == [False] * 3
    assert all(c.holds for c in claims if "half of the paper's" not in c.text)


@pytest.mark.parametrize(("of_4_ms", "holds"), [(10, False), (28, True), (70, False)])
def test_a_short_timer_costs_some_results_and_not_all(of_4_ms, holds):
    results = {"40": 100, "adapts": 100, "10": 90, "4": of_4_ms}
    rows = [
        {"available_mbps": 4, "T": timer, "results": count, "hold_p90_ms": 1, "goodput_bps": 1e6}
        for timer, count in results.items()
    ]
    (claim,) = (c for c in im_timer.EXPERIMENT.paper.judge(rows) if "with 4 ms" in c.text)
    # The paper's share is 28 %, so the claim allows 14 to 64 %.
    assert claim.holds == holds


def test_a_difference_without_a_reason_says_that_none_is_found():
    known = lp_greedy.EXPERIMENT
    experiment = replace(known, paper=replace(known.paper, reason=""))
    rows = results.plain(experiment.rows(as_if_run(experiment)))
    record = {"rows": rows, "environment": {}, "commits": ["abc"], "quick": True}
    section = papers_report.section(experiment, record)
    assert section.word != REPRODUCED
    assert "not found yet" in section.reason
    held = sum(claim.holds for claim in section.verdict.claims)
    of = len(section.verdict.claims)
    assert section.shown == f"{section.word} ({held} of {of} claims, quick form)"


@pytest.mark.parametrize(
    ("seeds", "form", "told"),
    [(2, False, " --seeds 2"), (lp_greedy.EXPERIMENT.seeds, False, ""), (1, True, " --quick")],
)
def test_the_command_that_runs_it_again_has_as_many_seeds(seeds, form, told):
    experiment = lp_greedy.EXPERIMENT
    rows = results.plain(experiment.rows(as_if_run(experiment)))
    rows = [row | {"seed": seed} for row in rows for seed in range(1, seeds + 1)]
    record = {"rows": rows, "environment": {}, "commits": ["abc"], "quick": form}
    section = papers_report.section(experiment, record)
    assert section.details["again"] == f"lab run LP-T1 --keep{told}"


def test_a_mean_is_of_the_rows_that_are_asked_for():
    rows = [
        {"control": "reno", "flows": 1, "U": 0.2},
        {"control": "reno", "flows": 1, "U": 0.4},
        {"control": "reno", "flows": 5, "U": 0.9},
    ]
    assert mean(rows, "U", control="reno", flows=1) == pytest.approx(0.3)


def test_lp_beside_tcp_is_a_share_of_the_link():
    scenario = quick(lp_greedy.EXPERIMENT)[-1]
    row = lp_greedy.EXPERIMENT.rows([point(scenario, 0.0405e6, rival=rival(scenario, 1.35e6))])[0]
    assert row["lp_share"] == pytest.approx(0.027, rel=1e-2)
    assert row["tcp_share"] == pytest.approx(9 / 10 * 1514 / 1448, rel=1e-2)


def test_ten_flows_back_are_a_row_of_their_own():
    mine = [s for s in quick(lp_greedy.EXPERIMENT) if s.control.name == "imtcp_lp"]
    one_way, two_way = (s.job().script for s in mine)
    assert "--flows 10" not in one_way
    assert "--flows 10" in two_way
    window = mine[1].window
    back = pl.DataFrame({"t_us": [window.end_us], "bytes": [round(56_250 * window.seconds)]})
    row = lp_greedy.EXPERIMENT.rows(
        [point(mine[1], 0.15e6, rival=rival(mine[1], 0.75e6), back=back)]
    )[0]
    # 56.25 kB of payload per second are 0.3 of 1.5 Mbit/s.
    assert row["back_share"] == pytest.approx(0.3 * 1514 / 1448)


def test_lp_by_marks_has_a_queue_that_marks_and_the_others_have_not():
    queues = {(s.control.name, s.path.queue) for s in quick(lp_web.EXPERIMENT)}
    marked = {control for control, queue in queues if queue == "lp-ecn"}
    # The reference has the same queue.
    assert marked == {"imtcp_lpecn", "none"}
    others = {control for control, queue in queues if queue == "droptail"}
    assert others == set(lp_web.EXPERIMENT.controls) - {"imtcp_lpecn"}


def test_a_rise_is_found_by_the_first_average_near_the_new_truth():
    # The cross traffic takes 40, 80 and 40 of 100 Mbit/s, in steps of 2 s after the first second.
    steps = [(0, 40e6), (3, 80e6), (5, 40e6)]
    window = Window(1_000_000, 7_000_000)
    before = [60e6] * 4 + [20e6] * 4

    def rises_s(after):
        return im_passive.rises_s([*before, *after], steps, window, 100e6)

    assert rises_s([20e6, None, 50e6, 60e6]) == [1.5]
    # If it is never found, the whole step counts.
    assert rises_s([20e6] * 4) == [2.0]


def test_what_the_acks_meet_is_judged_before_the_first_fall():
    true = {"name": "true", "t_s": [5, 6, 7, 8], "value": [60, 60, 20, 60]}
    measured = {"name": "measured", "t_s": [5.2, 5.7, 6.2, 7.2], "value": [66, 57, 66, 99]}
    assert im_passive.first_step_error({"lines": [measured, true]}) == pytest.approx(0.1)
    nothing = {"name": "measured", "t_s": [], "value": []}
    assert math.isnan(im_passive.first_step_error({"lines": [nothing, true]}))


def test_a_pause_that_the_paper_does_not_have_is_not_judged():
    ratios = {"adapts": 3, "0": 0.5, "12": 0.6, "15": 0.9, "20": 1.1, "reno": 1}
    rows = [
        {"acks": "as they come", "flows": 2, "pause": pause, "ratio": ratio}
        for pause, ratio in ratios.items()
    ]
    claims = im_share.BESIDE_RENO.paper.judge(rows)
    assert len(claims) == 4 and all(claim.holds for claim in claims)
    assert not any("adapts" in claim.text for claim in claims)


def test_more_of_the_link_than_reno_is_no_fault_and_more_flows_use_more():
    def holds(uses):
        rows = [
            {"capacity_mbps": 70, "flows": flows, "control": control, "jain": 1, "utilisation": u}
            for flows, ours, renos in uses
            for control, u in (("paper", ours), ("reno", renos))
        ]
        return [c.holds for c in im_share.AMONG.paper.judge(rows) if "Jain" not in c.text]

    # The paper's values of two and of 24 flows at 70 Mbit/s.
    assert holds([(2, 0.856, 0.866), (24, 0.941, 0.886)]) == [True, True, True]
    assert holds([(2, 0.90, 0.96), (24, 0.92, 0.92)]) == [False, True, False]


@pytest.mark.parametrize(("mine", "its", "often"), [(0, 0, False), (0, 24, True), (24, 24, False)])
def test_highspeed_loses_often_only_if_it_loses_at_all(mine, its, often):
    rows = [
        {"control": control, "buffer_pkts": 200, "goodput_mbps": 1, "drops_pkts": lost}
        for control, lost in (("imtcp_fs", mine), ("paper_fs", mine), ("highspeed", its))
    ]
    losing = [c for c in im_modes.LONG_FAT.paper.judge(rows) if "loses" in c.text]
    assert [claim.holds for claim in losing] == [often, often]


def test_only_those_who_watch_leave_a_record_of_segments():
    scripts = {s.control.name: s.job().script for s in quick(im_passive.EXPERIMENT)}
    assert "tcp_probe" not in scripts["imtcp"]
    script = scripts["reno"]
    assert script.index("tcp_probe/enable") < script.index("T0=")
    assert script.rstrip().endswith("exit $code")


def test_square_waves_leave_two_thirds_and_whole_periods_are_judged():
    for scenario in scenarios(lp_square.PERIOD, "imtcp_lp"):
        periods = scenario.times.measure_s / float(scenario.variant.split("s-")[0])
        assert periods == pytest.approx(round(periods))
    # The wave takes two thirds of 10 Mbit/s for half of the time, so 6.67 Mbit/s are available.
    row = lp_square.PERIOD.rows([point(quick(lp_square.PERIOD)[0], 10e6 / 3)])[0]
    assert row["U"] == pytest.approx(0.5, rel=1e-2)


def test_joining_flows_are_one_to_five_and_back():
    spans = bg_joining.spans_s(10)
    present = [sum(a <= t < b for a, b in spans) for t in range(5, 100, 10)]
    assert present == [1, 2, 3, 4, 5, 5, 4, 3, 2, 1]
    script = quick(bg_joining.EXPERIMENT)[-1].job().script
    assert script.count("bulk-client") == 5


def test_parameters_reach_the_mode_of_a_run():
    experiment = next(e for e in PAPERS if e.name == "BG-F6")
    script = next(s for s in quick(experiment) if not s.control.is_none).job().script
    assert "imtcp run --mode paper-bg --param delta=1.05 -- imtcp-load bulk-client" in script


@pytest.mark.parametrize(("buffer", "delta", "ratio"), [(62, 0.15, 6.7), (10, 0.5, 0.8)])
def test_the_models_ratio_is_that_of_the_derivation(buffer, delta, ratio):
    assert lp_model.greatest_ratio(buffer, delta) == pytest.approx(ratio, abs=0.05)


def test_no_ratio_is_small_enough_for_a_small_buffer():
    assert math.isnan(lp_model.greatest_ratio(1, 0.5))


def test_the_report_has_every_figure_and_says_what_was_not_run():
    model = next(e for e in PAPERS if e is lp_model.EXPERIMENT)
    record = {"rows": results.plain(model.rows([])), "environment": {}, "commits": ["abc"],
              "quick": False}  # fmt: skip
    sections = [papers_report.section(e, record if e is model else None) for e in PAPERS]
    made = papers_report.files(sections)
    html, markdown = made["papers.html"].decode(), made["papers.md"].decode()
    for experiment in PAPERS:
        assert f'id="{experiment.name}"' in html
        assert f"## {experiment.name}: " in markdown
    assert html.count("Not run: lab run") == len(PAPERS) - 1
    assert html.count("data:image/png") == 2
    assert "http" not in html.replace("http-equiv", "")
    assert made["LP-F6.png"].startswith(PNG)
    assert "![LP-F6](LP-F6.png)" in markdown
    assert "the scoreboard</a>" not in html
    beside = papers_report.files(sections, "scoreboard.html")["papers.html"].decode()
    assert '<a href="scoreboard.html">the scoreboard</a>' in beside


@pytest.fixture
def checkout(tmp_path, monkeypatch):
    """A checkout of its own, so that the test does not write into the real one."""
    monkeypatch.setattr(results.paths, "checkout", lambda: tmp_path)
    return tmp_path


def test_keep_writes_what_show_list_and_report_read(checkout, capsys):
    assert cli.main(["list"]) == 0
    assert re.search(r"^LP-F6 +not run", capsys.readouterr().out, re.MULTILINE)
    assert cli.main(["run", "LP-F6", "--keep"]) == 0
    assert "LP-F6: reproduced" in capsys.readouterr().out
    assert cli.main(["list"]) == 0
    assert re.search(r"^LP-F6 +reproduced", capsys.readouterr().out, re.MULTILINE)
    assert cli.main(["show", "LP-F6", "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert shown["verdict"] == "reproduced"
    assert shown["rows"]
    assert cli.main(["report"]) == 0
    said = capsys.readouterr().err
    assert re.search(r"^report .*\d+/\d+", said, re.MULTILINE)
    assert "not run: IM-F8, " in said
    assert (checkout / "out" / "report" / "papers.html").is_file()


def test_the_quick_form_does_not_replace_the_full_forms_results(checkout):
    assert cli.main(["run", "LP-F6"]) == 0
    full = (checkout / "out/LP-F6/results-6.12.json").read_text()
    assert cli.main(["run", "LP-F6", "--quick"]) == 0
    assert (checkout / "out/LP-F6/results-6.12.json").read_text() == full
    assert json.loads((checkout / "out/LP-F6/results-6.12-quick.json").read_text())["quick"]


def test_a_quick_form_replaces_what_is_kept_of_a_quick_or_broken_one_and_not_a_full_one(
    checkout, capsys
):
    def quick() -> bool:
        return json.loads(results.kept("LP-F6").read_text())["quick"]

    assert cli.main(["run", "LP-F6", "--quick", "--keep"]) == 0
    assert quick()
    assert cli.main(["run", "LP-F6", "--keep"]) == 0
    assert not quick()
    assert cli.main(["run", "LP-F6", "--quick", "--keep"]) == 2
    assert not quick()
    assert "holds the full form, which a quick one does not replace" in capsys.readouterr().err
    results.kept("LP-F6").write_text("{")
    assert cli.main(["run", "LP-F6", "--quick", "--keep"]) == 0
    assert quick()


def test_a_quick_form_is_marked_where_it_is_judged_and_json_has_the_claims(checkout, capsys):
    assert cli.main(["run", "LP-F6", "--quick"]) == 0
    assert "LP-F6: reproduced (quick form: a look, not a verdict)" in capsys.readouterr().out
    assert cli.main(["run", "LP-F6", "--quick", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["verdict"] == REPRODUCED
    assert {"text", "holds", "seeds_held", "seeds"} == set(told["claims"][0])


def test_what_the_running_kernel_cannot_do_is_told_and_not_a_traceback(
    checkout, monkeypatch, capsys
):
    monkeypatch.setattr(run, "has_netem", lambda: False)
    monkeypatch.setattr(run, "choose", lambda *_, **__: [CONTROLS["none"]])
    assert cli.main(["run", "LP-T1", "--quick", "--netns", "--controls", "none"]) == 3
    assert "without it LP-T1 cannot be run" in capsys.readouterr().err


def test_a_broken_kept_file_is_told_with_what_to_do(checkout, capsys):
    kept = results.kept("LP-F6")
    kept.parent.mkdir(parents=True)
    kept.write_text('{"schema": 1, "rows": ')
    assert cli.main(["report"]) == 4
    assert "run LP-F6 --keep" in capsys.readouterr().err


def test_run_without_a_name_says_how_to_name_one(capsys):
    assert cli.main(["run"]) == 2
    assert "lab list" in capsys.readouterr().err


WRONG = {
    "run --all LP-T1": "choose one",
    "run LP-T1 --all": "unrecognized",
    "run LP-T1 LP-T9": "lab list",
    "run LP-T1 --first-seed 0": "at least 1",
    "run LP-T1 --fresh --redraw": "choose one",
    "run LP-T1 --controls imtcp_bg --keep": "reno, tcp_lp, imtcp_lp, imtcp_lpecn are missing",
    "run web --measure-s 0": "not positive",
}


@pytest.mark.parametrize("line", WRONG)
def test_wrong_usage_ends_with_2_and_says_why_before_a_guest_starts(line, monkeypatch, capsys):
    monkeypatch.setattr(run, "_points", lambda *_: pytest.fail("a guest would have started"))
    try:
        code = cli.main(line.split())
    except SystemExit as ended:
        code = ended.code
    assert code == 2
    assert WRONG[line] in capsys.readouterr().err


def test_some_of_the_controls_get_a_table_and_no_verdict(checkout, monkeypatch, capsys):
    chosen = scenarios(lp_greedy.EXPERIMENT, ["none", "imtcp_lp"], "--quick", "--seeds", "1")
    ran = [point(s, 0 if s.control.is_none else 1e6, rival=rival(s, 5e6)) for s in chosen]
    monkeypatch.setattr(run, "choose", lambda *_, **__: [s.control for s in chosen[:2]])
    monkeypatch.setattr(run, "_points", lambda *_: ran)
    assert cli.main(["run", "LP-T1", "--quick", "--controls", "imtcp_lp"]) == 0
    said = capsys.readouterr().out
    assert "imtcp_lp" in said.splitlines()[-3]
    assert "no verdict, which takes reno, tcp_lp, imtcp_lpecn, imtcp_bg too" in said


def test_a_directory_that_cannot_be_made_is_told_before_a_guest_starts(
    tmp_path, monkeypatch, capsys
):
    (tmp_path / "file").write_text("")
    monkeypatch.setattr(run, "choose", lambda *_, **__: [CONTROLS["reno"]])
    monkeypatch.setattr(run, "_points", lambda *_: pytest.fail("a guest would have started"))
    assert cli.main(["run", "LP-T1", "--out", str(tmp_path / "file" / "x")]) == 4
    assert f"--out {tmp_path}/file/x: Not a directory" in capsys.readouterr().err


def test_one_that_fails_does_not_end_the_rest(monkeypatch, capsys):
    ran = []

    def fake(args):
        ran.append(args.declared.name)
        if args.declared.name == "BG-F5":
            raise LabError("the guest hung")
        return 0

    monkeypatch.setattr(run, "_run", fake)
    assert cli.main(["run", "--all", "--quick"]) == 4
    assert ran == [e.name for e in PAPERS]
    said = capsys.readouterr().err
    assert "lab run BG-F5: the guest hung" in said
    assert "failed: BG-F5" in said


def test_several_are_run_in_the_papers_order_with_the_same_options(monkeypatch):
    ran = []
    monkeypatch.setattr(run, "_run", lambda args: ran.append((args.declared.name, args.quick)) or 0)
    assert cli.main(["run", "LP-T1", "BG-F5", "--quick"]) == 0
    assert ran == [("BG-F5", True), ("LP-T1", True)]


@pytest.mark.parametrize("line", ["run --quick LP-T1 --seeds 2", "run --seeds 2 LP-T1 --quick"])
def test_options_count_before_and_after_the_name(line, monkeypatch):
    seen = []
    monkeypatch.setattr(run, "_run", lambda args: seen.append((args.quick, args.seeds)) or 0)
    assert cli.main(line.split()) == 0
    assert seen == [(True, 2)]


def test_a_hung_guest_costs_its_own_point_alone(tmp_path):
    from test_results import FakeRunner
    from test_results import scenarios as four

    bad = four()[1].job()

    class Hanging(FakeRunner):
        def run(self, job, progress=None):
            if job == bad:
                raise LabError("the guest kernel hangs")
            return super().run(job, progress)

    with pytest.raises(LabError, match=r"1 of 4 points failed[\s\S]*cubic-s1: the guest"):
        sweep.run_all(four(), Hanging(), tmp_path, jobs=2)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["cubic-s2", "none-s1", "none-s2"]


def test_a_full_disk_is_told_and_not_a_traceback(monkeypatch, capsys):
    def full(*_):
        raise OSError(28, "No space left on device", "out/x")

    monkeypatch.setattr(papers.papers_report, "files", full)
    assert cli.main(["report"]) == 4
    assert "No space left on device" in capsys.readouterr().err


def test_an_empty_directory_is_wrong_usage(capsys):
    with pytest.raises(SystemExit, match="2"):
        cli.main(["report", "--out", ""])
    assert "is empty: write . for the directory you are in" in capsys.readouterr().err


def test_a_file_in_the_place_of_a_directory_is_wrong_usage(tmp_path, capsys):
    there = tmp_path / "kept"
    there.write_text("mine")
    with pytest.raises(SystemExit, match="2"):
        cli.main(["report", "--out", str(there)])
    assert f"{there} is a file, and not a directory" in capsys.readouterr().err
    assert there.read_text() == "mine"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[]", "is of another schema"),
        ('{"schema": 1}', "holds no rows of LP-F6"),
        ('{"schema": 1, "experiment": "LP-F6", "rows": []}', "holds no rows of LP-F6"),
        ('{"schema": 1, "experiment": "LP-T1", "rows": [{}]}', "holds no rows of LP-F6"),
        ('{"schema": 1, "experiment": "LP-F6", "rows": [{"seed": 1}]}', "rows of another form"),
    ],
)
def test_a_kept_file_that_does_not_fit_is_told_and_the_others_are_listed_and_drawn(
    text, said, checkout, capsys
):
    results.write_text(results.kept("LP-F6"), text)
    assert cli.main(["list"]) == 4
    told = capsys.readouterr()
    assert said in told.err
    assert "lab run LP-F6 --keep makes it anew" in told.err
    assert re.search(r"^LP-F6 +not readable", told.out, re.MULTILINE)
    assert re.search(r"^LP-T1 +not run", told.out, re.MULTILINE)
    assert cli.main(["report"]) == 4
    assert said in (checkout / "out" / "report" / "papers.html").read_text()
    assert cli.main(["show", "LP-F6"]) == 4


@by_name
def test_what_is_asked_for_has_a_digest_that_other_seeds_and_forms_do_not_have(experiment):
    if not needs_points(experiment):
        return
    full, again, quick_form, other = (
        asked.digest(papers._scenarios(experiment, seeds, quick=quick))
        for seeds, quick in (([1], False), ([1], False), ([1], True), ([2], False))
    )
    assert full == again
    assert len({full, quick_form, other}) == 3


def test_a_field_with_a_default_and_a_label_change_no_digest_and_a_value_does():
    one = quick(lp_web.EXPERIMENT)[0]
    named_otherwise = replace(one, control=replace(one.control, label="another"))
    assert asked.digest([one]) == asked.digest([named_otherwise])
    slower = replace(one, path=replace(one.path, capacity_bps=1e6))
    assert asked.digest([one]) != asked.digest([slower])
    assert "delay_line" not in json.dumps(asked._told(one))


def test_a_kept_file_of_other_scenarios_gets_no_verdict(checkout, capsys):
    assert cli.main(["run", "LP-F6", "--keep"]) == 0
    kept = results.kept("LP-F6")
    record = json.loads(kept.read_text())
    results.write_json(kept, record | {"asked": "another"})
    capsys.readouterr()
    assert cli.main(["show", "LP-F6"]) == 4
    assert "is of other scenarios than LP-F6 has now" in capsys.readouterr().err


def test_a_kept_file_with_rows_of_a_control_missing_gets_no_verdict(tmp_path, monkeypatch, capsys):
    record = json.loads(results.kept("IM-F16").read_text())
    record["rows"] = [r for r in record["rows"] if (r["control"], r["seed"]) != ("westwood", 2)]
    monkeypatch.setattr(results.paths, "checkout", lambda: tmp_path)
    results.write_json(results.kept("IM-F16"), record)
    assert cli.main(["show", "IM-F16"]) == 4
    assert "is not whole, westwood missing: lab run IM-F16 --keep" in capsys.readouterr().err


def test_more_than_one_is_so_by_a_twentieth_at_every_value():
    assert more_than_one("it uses", [1.06, 1.5]).holds
    claim = more_than_one("it uses", [1.5, 1.05])
    assert not claim.holds
    assert claim.text == "it uses more than 1 by a twentieth: 1.50, 1.05"


def test_readme_says_how_many_of_the_figures_come_out():
    sections = [papers_report.section(e, papers.load_kept(e), pictures=False) for e in PAPERS]
    words = [section.word for section in sections]
    claims = [claim for section in sections for claim in section.verdict.claims]
    readme = " ".join((results.paths.checkout() / "README.md").read_text().split())
    assert (
        f"Of its {len(words)} experiments on the papers' tables and figures"
        f" {words.count(REPRODUCED)} are reproduced (LP-F6 is a formula), {words.count(DIFFERS)}"
        " differ in some or most of their claims, and in"
        f" {words.count(NOT_REPRODUCED)} none holds; {sum(claim.holds for claim in claims)} of"
        f" {len(claims)} claims hold"
    ) in readme


def test_series_over_time_are_a_line_per_flow():
    scenario = quick(bg_joining.EXPERIMENT)[-1]
    made = point(scenario, 10e6)
    both = pl.concat(
        [made.tables["tcp"], made.tables["tcp"].with_columns(cookie=pl.lit(2, pl.Int64))]
    )
    alone = point(quick(bg_joining.EXPERIMENT)[0])
    rows = bg_joining.EXPERIMENT.rows([alone, point(scenario, 10e6, tcp=both)])
    assert len(rows[1]["lines"]) == 2
    assert rows[1]["lines"][0]["value"][4] == pytest.approx(10, rel=0.02)
