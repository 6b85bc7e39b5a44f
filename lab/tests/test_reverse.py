"""The shell of traffic in the reverse direction."""

from __future__ import annotations

import pytest

from imtcp_lab.controls import CONTROLS
from imtcp_lab.queues import WayBack
from imtcp_lab.reverse import BulkBack, Together, UdpBack
from imtcp_lab.scenario import Scenario
from imtcp_lab.topology import Dumbbell
from imtcp_lab.traffic import Bulk, Rival, Times, Udp


def scenario(*parts):
    path = Dumbbell(foreground_rtts_ms=(48.0,), way_back=WayBack(link_pkts=99))
    times = Times(warmup_s=1, measure_s=2, drain_s=0.5)
    return Scenario(path, Together(parts), Bulk(), CONTROLS["reno"], times, seed=3)


def script(*parts):
    return scenario(*parts).script()


def test_flows_back_go_from_the_first_client_to_the_foregrounds_sender():
    text = script(Rival(), BulkBack(flows=10))
    assert (
        "ns rx imtcp-load bulk-client --from 10.9.0.11 --to 10.2.0.2:5003 --cc reno --flows 10"
        in text
    )
    assert 'imtcp-load bulk-server --listen 10.2.0.2:5003 --out "$OUT/back.csv"' in text
    # The foreground's own flows go the other way.
    assert "ns fg imtcp-load bulk-client --to 10.9.0.11:5002" in text


def test_udp_back_and_there_are_counted_apart():
    text = script(Udp("0:40M"), UdpBack(20e6, frames=(90, 1514)))
    assert "ns rx imtcp-load udp --to 10.2.0.2:6001 --schedule 20000000 --poisson" in text
    assert text.count('--out "$OUT/udp.csv"') == 1
    assert "ns fg imtcp-load udp --to 10.9.0.3:6000" in text


def test_the_results_metadata_names_each_part():
    foreground = scenario(Rival(), BulkBack()).parameters()["foreground"]
    assert foreground["kind"] == "Together"
    assert [part["kind"] for part in foreground["parts"]] == ["Rival", "BulkBack"]
    assert foreground["parts"][1]["flows"] == 10


def test_a_link_back_that_filters_acks_has_no_queue_of_packets():
    with pytest.raises(ValueError, match="one link back"):
        WayBack(thinned=True, link_pkts=9)
