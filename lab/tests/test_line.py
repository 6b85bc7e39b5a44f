"""Four routers in line: the script that builds them, and the rows from their results."""

from __future__ import annotations

import re
import shutil
import subprocess

import pytest

from imtcp_lab.experiments import lp_line
from imtcp_lab.line import Line
from synthetic import point
from test_experiments import scenarios


def test_each_link_has_its_rate_and_queue():
    script = Line(capacity_bps=1.5e6, buffer_pkts=15).script()
    assert script.count("root handle 1: tbf rate 1500000bit") == 3
    assert script.count("pfifo limit 15") == 3


def test_a_round_trip_grows_with_the_links_that_are_crossed():
    line = Line(bulk=((0, 3),), web=((0, 1), (1, 2), (2, 3)))
    assert [line.rtt_ms(span) for span in (line.bulk[0], line.web[0])] == [128, 48]
    script = line.script()
    assert script.count("netem delay 48000us") == 3
    assert script.count("netem delay 128000us") == 1


def test_every_router_knows_every_hosts_network():
    script = Line().script()
    for network in (f"10.{net}.{k}.0/24" for net in (1, 9) for k in range(4)):
        assert script.count(f"route add {network} via") == 3


def test_nothing_goes_backwards_or_beyond_the_last_router():
    for span in ((1, 1), (2, 1), (0, 4), (-1, 1)):
        with pytest.raises(ValueError, match="nothing goes"):
            Line(bulk=(span,))


@pytest.mark.skipif(shutil.which("dash") is None, reason="dash is not installed")
@pytest.mark.parametrize("experiment", [lp_line.LONG_BULK, lp_line.LONG_WEB])
def test_the_script_is_posix_shell(experiment):
    for scenario in scenarios(experiment, "none,imtcp_lp", "--seeds", "1"):
        subprocess.run(["dash", "-n"], input=scenario.script().encode(), check=True)


def test_without_background_nothing_of_it_is_sent():
    none, lp = scenarios(lp_line.LONG_WEB, "none,imtcp_lp", "--seeds", "1")
    assert "bulk-client" not in none.script()
    clients = re.findall(r"bulk-client --to (\S+) --cc (\S+)", lp.script())
    assert clients == [(f"10.9.{k}.2:5001", "imtcp_lp") for k in (1, 2, 3)]


def test_the_share_is_of_each_transfers_link():
    lp = scenarios(lp_line.LONG_WEB, "imtcp_lp", "--seeds", "1")[0]
    row = lp_line.LONG_WEB.rows([point(lp, 0.6e6)])[0]
    assert row["bulk_share"] == pytest.approx(0.4, rel=1e-3)
    assert row["response_s"] == pytest.approx(0.1)
