"""The equation of throughput and loss, and its schedules."""

from __future__ import annotations

import json

import pytest

from imtcp_lab import cli, loss, loss_schedule
from imtcp_lab.experiments import en_loss
from synthetic import point
from test_experiments import scenarios

HEAD = "time,available_bps\n"
TRACE = HEAD + "2026-01-05T00:00:00Z,9760000\n2026-01-05T00:30:00Z,0\n"


def test_the_equation_gives_the_papers_first_value():
    # 9.76 bits · 1200 / (25 ms · √0.01) = 4.6848 Mbit/s. The table has 4.68.
    assert loss.throughput_bps(0.01, 0.025, 1200) == pytest.approx(4_684_800)
    assert loss.share(4_684_800, 0.025, 1200) == pytest.approx(0.01)
    assert loss.constant(4_684_800, 0.01, 0.025, 1200) == pytest.approx(1.22)


def test_half_the_throughput_is_four_times_the_loss_and_all_at_most():
    assert loss.share(2_342_400, 0.025, 1200) == pytest.approx(0.04)
    assert loss.share(1, 0.025, 1200) == 1


@pytest.mark.parametrize("bad", [0, -1, float("nan"), float("inf")])
def test_what_is_not_positive_is_refused(bad):
    with pytest.raises(ValueError, match="positive"):
        loss.share(bad, 0.025, 1200)


def test_a_trace_becomes_losses_in_compressed_time():
    rows = loss_schedule.schedule(loss_schedule.read(TRACE.splitlines()), 0.05, 1000, 60)
    # 9760 bits / (50 ms · 9.76 Mbit/s) = 0.02, squared 0.0004. Without bandwidth all packets are
    # lost.
    assert rows == [(0, pytest.approx(0.0004)), (30, 1)]
    assert loss_schedule.script(rows, "eth1", "delay 25ms limit 500") == (
        "tc qdisc change dev eth1 root netem delay 25ms limit 500 loss 0.04000000%\n"
        "sleep 30.000\n"
        "tc qdisc change dev eth1 root netem delay 25ms limit 500 loss 100.00000000%\n"
    )


def test_a_loss_is_never_below_what_netem_can_keep():
    trace = loss_schedule.read([HEAD, "2026-01-05T00:00:00Z,1e18\n"])
    assert loss_schedule.schedule(trace, 0.05, 1000) == [(0, 2.0**-32)]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("time\n", "line 1: no column available_bps"),
        (HEAD, "line 2: the trace is empty"),
        (HEAD + "2026-01-05T00:00:00Z,5\nyesterday,5\n", "line 3"),
        (HEAD + "2026-01-05T00:00:00Z,-5\n", "line 2: available_bps"),
        (HEAD + "2026-01-05T00:00:00,5\n", "line 2: the time has no zone"),
        (HEAD + "2026-01-05T00:00:00Z,5\n2026-01-05T00:00:00Z,5\n", "line 3: not later"),
    ],
)
def test_a_bad_trace_is_refused_with_its_line(text, told, tmp_path, capsys):
    path = tmp_path / "trace.csv"
    path.write_text(text)
    assert cli.main(["loss", str(path)]) == 2
    assert told in capsys.readouterr().err


def test_the_command_gives_rows_as_json(tmp_path, capsys):
    path = tmp_path / "trace.csv"
    path.write_text(TRACE)
    assert cli.main(["loss", str(path), "--packet-bytes", "1000", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)[1] == {"at_s": 1800, "loss": 1}


@pytest.mark.parametrize("wrong", [["--rtt-ms", "0"], ["--compress", "0"], ["--compress", "nan"]])
def test_a_round_trip_or_time_scale_of_nothing_is_refused(wrong, tmp_path, capsys):
    path = tmp_path / "trace.csv"
    path.write_text(TRACE)
    assert cli.main(["loss", str(path), *wrong]) == 2
    assert "positive" in capsys.readouterr().err


def test_c_is_of_the_payload_that_arrived():
    scenario = scenarios(en_loss.EXPERIMENT, ["reno"], "--quick", "--seeds", "1")[0]
    row = en_loss.EXPERIMENT.rows([point(scenario, 10e6)])[0]
    # The thesis's packets: 1200 bytes of data and 12 of timestamps.
    assert scenario.script().count("route change default via 10.9.0.1 advmss 1212") == 1
    # T = 10 Mbit/s · 1448/1514 = 9.564 Mbit/s.
    # C = T · 25 ms · √0.01 / (8 · 1200) = 2.491.
    assert (row["rtt_ms"], row["loss_pct"]) == (25, 1)
    assert row["throughput_mbps"] == pytest.approx(9.564, rel=0.01)
    assert row["c"] == pytest.approx(2.491, rel=0.01)


def test_the_thesiss_own_throughputs_are_nearer_to_the_c_that_it_chose():
    rows = [
        {"control": "reno", "seed": 1, "rtt_ms": rtt_ms, "loss_pct": loss_pct}
        | {
            "throughput_mbps": mbps,
            "c": loss.constant(mbps * 1e6, loss_pct / 100, rtt_ms / 1e3, 1200),
        }
        for (rtt_ms, loss_pct), mbps in en_loss.OBSERVED_MBPS.items()
    ]
    assert en_loss.EXPERIMENT.paper.verdict(rows).word == "reproduced"
    # A tenth of the way from 12.2 to 9.76 bits is nearer to 12.2.
    other = [row | {"c": 1.525 - 0.0305} for row in rows]
    told = [c.text for c in en_loss.EXPERIMENT.paper.verdict(other).claims if not c.holds]
    assert any(text.startswith("25 ms: C differs from 1.22 by 0.27") for text in told)
