"""The demo's outputs from artificial runs: results.json, pictures, the report."""

from __future__ import annotations

import json
import re

import polars as pl
import pytest

from imtcp_lab import cli, demo, measured
from imtcp_lab.controls import named
from imtcp_lab.engine import paths
from imtcp_lab.job import MissingPrerequisite
from imtcp_lab.raw import WATCH_COLUMNS
from synthetic import point


def points(seeds=2):
    watch = pl.DataFrame([{"t_us": 1_000_000, "avail_smoothed_bps": 28e6}], schema=WATCH_COLUMNS)
    out = []
    for scenario in demo.scenarios(named("none,cubic,imtcp_bg,priority"), seeds):
        match scenario.control.name:
            case "none":
                out.append(point(scenario))
            case "cubic":
                out.append(point(scenario, 30e6, slower=2 + scenario.seed / 10))
            case "imtcp_bg":
                out.append(point(scenario, 27e6, slower=1.05, watch=watch))
            case _:
                out.append(point(scenario, 30e6))
    return out


@pytest.fixture
def outputs(tmp_path):
    ran = points()
    demo.write_outputs(tmp_path, ran, measured.rows(ran), 2)
    return tmp_path


def test_results_json_has_one_object_per_control_and_seed_with_the_agreed_keys(outputs):
    records = json.loads((outputs / "results.json").read_text())
    assert len(records) == 8
    for record in records:
        assert set(record) == {
            "control", "seed", "U", "I_mean", "I_p95", "I_small", "queue_pkts_mean",
        }  # fmt: skip
    cubic = next(r for r in records if r["control"] == "cubic" and r["seed"] == 1)
    assert cubic["U"] == pytest.approx(1, abs=1e-3)
    assert cubic["I_mean"] == pytest.approx(1.1)
    none = next(r for r in records if r["control"] == "none")
    assert (none["U"], none["I_mean"]) == (0, 0)


def test_the_pictures_are_png(outputs):
    for name in ("throughput.png", "plane.png"):
        assert (outputs / name).read_bytes().startswith(b"\x89PNG")


def test_the_report_needs_nothing_but_itself(outputs):
    html = (outputs / "report.html").read_text()
    links = re.findall(r"""(?:src|href)=["']([^"']*)""", html)
    assert links
    assert all(link.startswith("data:image/png;base64,") for link in links)
    assert "url(" not in html
    assert "@import" not in html


def test_the_report_has_both_themes_a_viewport_and_every_control(outputs):
    html = (outputs / "report.html").read_text()
    assert "prefers-color-scheme: dark" in html
    assert "@media print" in html
    assert 'name="viewport"' in html
    for control in ("none", "cubic", "imtcp_bg", "priority"):
        assert f">{control}</td>" in html
    assert "6.12.0-test" in html


def test_the_report_shows_the_spread_beneath_the_mean(outputs):
    html = (outputs / "report.html").read_text()
    assert "<td>115 %<small>110 % … 120 %</small></td>" in html


def test_the_same_points_give_the_same_files(outputs, tmp_path_factory):
    again = tmp_path_factory.mktemp("again")
    ran = points()
    demo.write_outputs(again, ran, measured.rows(ran), 2)
    for file in outputs.iterdir():
        assert file.read_bytes() == (again / file.name).read_bytes(), file.name


def test_none_is_always_there_to_compare_with(monkeypatch, tmp_path):
    monkeypatch.setattr(paths, "target", lambda: tmp_path)
    assert [c.name for c in demo.available_controls("cubic")] == ["none", "cubic"]


def test_without_a_build_the_demo_says_what_to_do(monkeypatch, tmp_path):
    monkeypatch.setattr(paths, "target", lambda: tmp_path)
    with pytest.raises(MissingPrerequisite, match="make build"):
        demo.available_controls("cubic,imtcp_bg")


def test_what_is_saved_is_drawn_again_without_a_build(monkeypatch, tmp_path):
    monkeypatch.setattr(paths, "target", lambda: tmp_path)
    controls = demo.available_controls("none,imtcp_bg", to_run=False)
    assert [c.name for c in controls] == ["none", "imtcp_bg"]


def test_the_programs_are_those_that_the_environment_names(monkeypatch, tmp_path):
    (tmp_path / "imtcp").touch()
    monkeypatch.setenv("IMTCP_PROGRAMS", str(tmp_path))
    assert [c.name for c in demo.available_controls("none,imtcp_bg")] == ["none", "imtcp_bg"]
    monkeypatch.setenv("IMTCP_PROGRAMS", str(tmp_path / "elsewhere"))
    with pytest.raises(MissingPrerequisite, match="elsewhere/imtcp"):
        demo.available_controls("none,imtcp_bg")


@pytest.mark.parametrize(
    "arguments",
    [["--seeds", "0"], ["--controls", "cubik"], ["--controls", "none"], ["--jobs", "0"]],
)
def test_wrong_arguments_are_wrong_usage(arguments, capsys):
    assert cli.main(["demo", *arguments]) == 2
    assert "lab demo:" in capsys.readouterr().err
