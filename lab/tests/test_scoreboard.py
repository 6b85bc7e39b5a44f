"""The scoreboard's cells, harm and use in each, and the findings."""

from __future__ import annotations

import json

import polars as pl
import pytest

from imtcp_lab import cli, figures, run, scoreboard, sweep
from imtcp_lab.controls import CONTROLS
from imtcp_lab.experiments.scoreboard import DIMENSIONS, EXPERIMENT, FOREGROUNDS, Cell, cells
from imtcp_lab.job import LabError
from imtcp_lab.traffic import VOICE_FRAME_BYTES
from synthetic import point
from test_experiments import rival, scenarios


def test_the_design_is_the_base_and_each_other_value_of_each_dimension():
    made = cells(list(DIMENSIONS))
    assert len(made) == 1 + sum(len(values) - 1 for values in DIMENSIONS.values()) == 23
    assert made[0].name == "base"
    assert len({cell.name for cell in made}) == 23


def test_the_full_form_is_every_combination():
    made = cells(["buffer_bdp", "flows"], full=True)
    assert len(made) == 12
    assert Cell(buffer_bdp=0.25, flows=5) in made
    assert Cell(buffer_bdp=0.25, flows=5).name == "buffer_bdp-0.25_flows-5"


def test_every_control_has_a_colour_and_a_mark_of_its_own():
    assert set(CONTROLS) == set(figures.STYLES)
    assert len(set(figures.STYLES.values())) == len(figures.STYLES)


def test_an_unknown_dimension_is_wrong_usage_and_says_which_there_are(capsys):
    with pytest.raises(SystemExit) as ended:
        cli.main(["scoreboard", "--dimensions", "flows,colour"])
    assert ended.value.code == 2
    assert "unknown dimension colour (known: buffer_bdp" in capsys.readouterr().err


def test_names_in_the_plane_lie_over_no_other_names(monkeypatch):
    drawn = []
    monkeypatch.setattr(figures, "png", lambda figure: drawn.append(figure) or b"")
    # As near to each other as in the busiest corner of the real picture.
    near = [name for name in CONTROLS if name != "none"][:8]
    rows = [{"control": c, "I_mean": 0.1 + 0.02 * i, "U": 0.9} for i, c in enumerate(near)]
    figures.plane(rows)
    texts = [text for text in drawn[0].axes[0].texts if text.get_text()]
    assert sorted(text.get_text() for text in texts) == sorted(near)
    boxes = [text.get_window_extent() for text in texts]
    assert not [(a, b) for i, a in enumerate(boxes) for b in boxes[:i] if a.overlaps(b)]


def test_ten_calls_of_voice_send_as_g711_does():
    # 500 packets per second of 214 bytes.
    assert FOREGROUNDS["voice"].schedule == f"0:{500 * 214 * 8}"
    assert VOICE_FRAME_BYTES == 214


def in_cell(dimensions, controls, wanted):
    made = scenarios(EXPERIMENT, controls, "--dimensions", dimensions, "--seeds", "1")
    return [s for s in made if s.variant == wanted]


def udp(delay_us):
    times = range(0, 20_000_000, 100_000)
    return pl.DataFrame(
        {"t_us": times, "packets": 50, "bytes": 8600, "delay_sum_us": 50 * delay_us}
    )


def test_harm_to_voice_is_delay_in_intervals_of_its_packets():
    none, bg = in_cell("foreground", "none,imtcp_bg", "foreground-voice")
    rows = EXPERIMENT.rows([point(none, udp=udp(10_000)), point(bg, 5e6, udp=udp(15_000))])
    assert [row["control"] for row in rows] == ["imtcp_bg"]
    assert rows[0]["I_mean"] == pytest.approx(5 / 20)


def test_harm_to_a_greedy_transfer_is_how_much_faster_it_is_alone():
    none, bg = in_cell("foreground", "none,imtcp_bg", "foreground-reno")
    rows = EXPERIMENT.rows(
        [point(none, rival=rival(none, 16e6)), point(bg, 3e6, rival=rival(bg, 12e6))]
    )
    assert rows[0]["I_mean"] == pytest.approx(1 / 3)
    # Background and rival together, of 20 Mbit/s; the rival's bytes are payload.
    assert rows[0]["U"] == pytest.approx((3 + 12 * 1514 / 1448) / 20, rel=2e-3)


def test_a_point_without_its_run_without_background_says_nothing():
    _, bg = in_cell("flows", "none,imtcp_bg", "base")
    assert EXPERIMENT.rows([point(bg, 5e6)]) == []


def row(cell, control, use, harm, seed=1):
    values = dict.fromkeys(DIMENSIONS, 0)
    if cell != "base":
        values["flows"] = int(cell.removeprefix("flows-"))
    return {
        "cell": cell, "control": control, "seed": seed, "U": use, "I_mean": harm, "values": values,
    }  # fmt: skip


ROWS = [
    row("base", "imtcp_bg", 0.8, 0.04),
    row("base", "imtcp_bg_g", 0.85, 0.03),
    row("base", "nv", 0.9, 0.09),
    row("base", "priority", 1.0, 0.01),
    row("flows-5", "imtcp_bg", 0.8, 0.06),
    row("flows-5", "nv", 0.8, 0.01),
    row("flows-5", "vegas", 0.9, 0.02),
    row("flows-5", "vegas", 0.7, 0.06, seed=2),
    row("flows-5", "vegas", 0.89, 0.07, seed=3),
    row("flows-5", "priority", 1.0, 0.0),
]


def test_who_is_better_on_both_axes_in_the_mean_is_on_the_list():
    found = scoreboard.beaten(ROWS)
    assert [(b.cell, b.peer) for b in found] == [("flows-5", "vegas")]
    assert found[0].peers.use == pytest.approx(0.83)


def test_a_dimensions_table_has_a_column_for_each_value():
    table = scoreboard.table(ROWS, "flows", (0, 5, 10))
    assert table.titles == ["flows", "0", "5"]
    assert ["imtcp_bg", "0.80 · 4.0 %", "0.80 · 6.0 %"] in table.rows
    assert ["imtcp_bg_g", "0.85 · 3.0 %", "-"] in table.rows


def test_the_page_has_the_median_of_each_control_and_says_what_a_dimension_is():
    table = scoreboard.middle(scoreboard.medians(ROWS))
    assert ["imtcp_bg", "0.80", "5.0 %", "imtcp background"] in table.rows
    page = scoreboard.files(ROWS, {}, [], {"flows": (0, 5)})
    assert "| imtcp_bg | 0.80 | 5.0 % | imtcp background |" in page["scoreboard.md"].decode()
    assert "flows of the background" in page["scoreboard.html"].decode()
    assert set(scoreboard.DIMENSIONS_TOLD) == set(DIMENSIONS)


def test_where_ours_was_not_measured_nobody_is_said_to_be_better():
    others = [r for r in ROWS if r["control"] != "imtcp_bg"]
    assert not any("cells have a peer" in line for line in scoreboard.told(others))


def test_the_distance_to_strict_priority_is_of_both_axes():
    assert scoreboard.to_ideal(ROWS)["base"] == pytest.approx((0.2, 0.03))
    assert "0.20 of U, 4.5 % of I" in scoreboard.text(ROWS, {"flows": (0, 5)})


def named_twice(cell, delay, marks, queue="droptail"):
    rows = [row(cell, "imtcp_lp", delay, 0), row(cell, "imtcp_lpecn", marks, 0)]
    return [r | {"values": r["values"] | {"queue": queue}} for r in rows]


def test_one_algorithm_under_two_names_says_what_is_chance():
    rows = [*named_twice("base", 0.4, 0.45), *named_twice("flows-5", 0.8, 0.6)]
    assert scoreboard.of_two_names(rows) == pytest.approx(0.2)
    # Where a queue marks, the two names are two algorithms.
    marking = named_twice("flows-10", 0.2, 0.9, queue="red-ecn")
    assert scoreboard.of_two_names(rows + marking) == pytest.approx(0.2)
    assert "apart by up to 0.20 of U (one seed)" in scoreboard.text(rows, {"flows": (0, 5)})
    assert scoreboard.of_two_names(ROWS) is None


def test_with_points_missing_the_page_is_made_of_the_others(tmp_path, monkeypatch, capsys):
    def fails_in_part(scenarios, runner, directory, **_):
        for scenario in scenarios:
            if scenario.control.name != "vegas":
                made = point(scenario, 0 if scenario.control.is_none else 5e6, foreground_bps=8e6)
                sweep.results.save(directory, scenario, made.tables, made.meta["environment"], "d")
        raise LabError("1 of 3 points failed")

    monkeypatch.setattr(run.sweep, "run_all", fails_in_part)
    arguments = ["--controls", "none,vegas,imtcp_bg", "--dimensions", "buffer_bdp"]
    code = cli.main(["scoreboard", *arguments, "--out", str(tmp_path)])
    said = capsys.readouterr()
    assert code == 4
    assert "4 of 12 points are missing" in said.err
    assert "0 of 4 cells" in said.out
    assert "<table>" in (tmp_path / "scoreboard.html").read_text()
    assert "| imtcp_bg |" in (tmp_path / "scoreboard.md").read_text()
    kept = json.loads((tmp_path / "results-6.12.json").read_text())
    assert {r["control"] for r in kept["rows"]} == {"imtcp_bg"}
