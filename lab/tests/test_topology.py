"""The dumbbell's script for the kernel."""

from __future__ import annotations

import itertools
import shutil
import subprocess

import pytest

from imtcp_lab.hosts import LINUX, OF_2003, Hosts
from imtcp_lab.queues import QUEUES, WayBack
from imtcp_lab.topology import Dumbbell, bdp_pkts


def test_the_bandwidth_delay_product_counts_whole_frames():
    # 50 Mbit/s for 30 ms are 187 500 bytes.
    assert bdp_pkts(50e6, 0.03) == pytest.approx(187_500 / 1514)


def test_the_shapers_bucket_is_one_frame_and_the_timers_slack():
    # 20 µs at 50 Mbit/s are 125 bytes.
    assert Dumbbell(capacity_bps=50e6).burst_bytes == 1514 + 125
    assert Dumbbell(capacity_bps=1e6).burst_bytes == 1514 + 16


def test_the_buffer_is_a_fifo_inside_the_shaper():
    script = Dumbbell(buffer_pkts=125).script()
    assert "parent 1:1 handle 10: pfifo limit 125" in script
    assert "prio bands 2" not in script


def test_priority_puts_the_background_in_the_lower_of_two_full_buffers():
    script = Dumbbell(buffer_pkts=125, priority=True).script()
    assert "handle 11: pfifo limit 125" in script
    # Flows of the background's class take turns [LP §III]; the foreground's queue is as without it.
    assert "handle 12: fq limit 125 flow_limit 125 nopacing" in script
    assert "match ip src 10.1.0.2/32 flowid 10:2" in script


def test_random_loss_stands_in_the_buffers_place_with_its_limit():
    script = Dumbbell(buffer_pkts=125, loss_pct=0.5).script()
    assert "parent 1:1 handle 10: netem loss 0.5% limit 125" in script
    assert "pfifo" not in script


def test_every_client_class_has_its_own_delay_on_the_way_back():
    path = Dumbbell(foreground_rtts_ms=(20, 200), background_rtt_ms=30)
    script = path.script()
    assert path.client_addresses == ("10.9.0.11", "10.9.0.12")
    for address, delay in (("11", "20000us"), ("12", "200000us"), ("2", "30000us")):
        band = next(
            line.split("flowid 1:")[1]
            for line in script.splitlines()
            if f"match ip src 10.9.0.{address}/32" in line
        )
        start = f"qdisc add dev rx0 parent 1:{band} handle"
        line = next(x for x in script.splitlines() if x.startswith(start))
        assert f"netem delay {delay} limit 100000" in line


def test_no_delay_stands_on_the_bottlenecks_device():
    lines = Dumbbell().script().splitlines()
    assert not [x for x in lines if "netem" in x and "rt-rx" in x]


def test_loss_stands_before_a_discipline_that_keeps_its_own_limit():
    script = Dumbbell(buffer_pkts=125, loss_pct=1, queue="fq_codel").script()
    assert "parent 1:1 handle 10: netem loss 1% limit 100000" in script
    assert "parent 10:1 handle 100: fq_codel limit 125" in script


def test_under_priority_each_band_has_the_queue_and_its_loss():
    script = Dumbbell(buffer_pkts=125, loss_pct=1, priority=True).script()
    assert script.count("netem loss 1% limit 125") == 2


def test_red_marks_in_the_proportions_of_its_manual_and_hosts_ask_for_it():
    script = Dumbbell(capacity_bps=20e6, buffer_pkts=120, queue="red-ecn").script()
    # A quarter and a twelfth of 120 frames.
    assert "red limit 181680 min 15140 max 45420 avpkt 1514" in script
    assert "echo 1 >/proc/sys/net/ipv4/tcp_ecn" in script
    assert "tcp_ecn" not in Dumbbell(queue="fq_codel").script()


def test_a_queue_that_marks_from_delta_on_spares_who_does_not_ask_for_marks():
    script = Dumbbell(capacity_bps=1.5e6, buffer_pkts=15, queue="lp-ecn").script()
    # The threshold is 15 % of 15 frames of 1514 bytes, 2.25 frames. For a burst of 4 tc wants at
    # least 2.75:
    #
    # W    (1 - (1 - W)^4) / W
    # 1/4  2.73, too little
    # 1/8  3.31
    assert "red limit 22710 min 3406 max 3406 avpkt 1514 burst 4 " in script
    assert "ecn nodrop" in script
    assert "ns bg sh -c 'echo 1 >/proc/sys/net/ipv4/tcp_ecn'" in script
    assert script.count("tcp_ecn") == 1


def test_a_link_back_has_its_queue_before_the_delays():
    back = WayBack(link_pkts=99)
    script = Dumbbell(capacity_bps=10e6, foreground_rtts_ms=(48.0,), way_back=back).script()
    assert "qdisc add dev rx0 root handle 1: tbf rate 10000000bit" in script
    assert "qdisc add dev rx0 parent 1:1 handle 10: pfifo limit 99" in script
    for device, address in (("rt-bg", "10.9.0.2"), ("rt-fg", "10.9.0.11")):
        assert f"qdisc add dev {device} root handle 1: prio" in script
        assert f"filter add dev {device} parent 1: protocol ip prio 1 u32 match ip src {address}/32" in script  # fmt: skip  # noqa: E501
    assert "dev rx0 root handle 1: prio" not in script


def test_a_thin_way_back_carries_half_of_the_delayed_acks():
    # ACKs of 66 bytes for every second packet of 1514 bytes take 436 of 20 000 kbit/s.
    path = Dumbbell(capacity_bps=20e6, way_back=WayBack(thinned=True))
    assert path.script().count("root cake bandwidth 217966bit ack-filter") == 2


def test_jitter_and_bunches_are_of_the_delay_on_the_way_back():
    path = Dumbbell(way_back=WayBack(jitter_ms=2, aggregated_ms=4))
    assert "netem delay 30000us 2000us rate 10gbit limit 100000 slot 4ms" in path.script()


def test_late_packets_are_the_backgrounds_and_the_others_overtake_them():
    script = Dumbbell(reordered_ms=2).script()
    late = "qdisc add dev bg0 root netem delay 2000us reorder 99% limit 100000"
    assert f"tc -n bg -batch - <<'EOF'\n{late}" in script
    assert "reorder" not in Dumbbell().script()


def test_a_path_that_makes_no_sense_is_refused():
    for wrong in (
        {"capacity_bps": 0},
        {"buffer_pkts": 0},
        {"background_rtt_ms": -1},
        {"foreground_rtts_ms": (1.0,) * 13},
        {"loss_pct": 100},
        {"loss_pct": 1, "delay_line": True},
        {"reordered_ms": -1},
        {"reordered_ms": 1, "delay_line": True},
        {"way_back": WayBack(thinned=True), "delay_line": True},
        {"way_back": WayBack(link_pkts=9), "delay_line": True},
        {"queue": "hfsc"},
        {"bucket_bytes": -1},
    ):
        with pytest.raises(ValueError, match=r".+"):
            Dumbbell(**wrong)


@pytest.mark.skipif(shutil.which("dash") is None, reason="dash is not installed")
def test_the_script_is_posix_shell():
    backs = (WayBack(thinned=True, jitter_ms=1, aggregated_ms=1), WayBack(link_pkts=9))
    for priority, queue, back in itertools.product((False, True), QUEUES, backs):
        script = Dumbbell(priority=priority, queue=queue, way_back=back).script()
        subprocess.run(["dash", "-n"], input=script.encode(), check=True)


def test_the_delay_line_stands_between_the_bottleneck_and_the_receivers():
    script = Dumbbell(background_rtt_ms=30, delay_line=True).script()
    assert "imtcp-delayline --delay-us 15000 dl-rt dl-rx" in script
    assert "netem" not in script
    with pytest.raises(ValueError, match="prio"):
        Dumbbell(delay_line=True, priority=True)
    with pytest.raises(ValueError, match="one discipline"):
        Dumbbell(reordered_ms=1, paced=True)


def test_servers_have_links_of_their_own_rate():
    path = Dumbbell(server_links_bps=(10e6, 95.5e6))
    script = path.script()
    assert path.server_addresses == ("10.2.0.11", "10.2.0.12")
    assert "addr add 10.2.0.12/24 dev fg0" in script
    # A frame plus the bytes of 20 µs, 25 and 239.
    assert "classid 1:1 htb rate 10000000bit burst 1539 cburst 1539 " in script
    assert "classid 1:2 htb rate 95500000bit burst 1753 cburst 1753 " in script
    assert "u32 match ip src 10.2.0.12/32 flowid 1:2" in script
    assert "htb" not in Dumbbell().script()
    assert Dumbbell().server_addresses == ("10.2.0.2",)


@pytest.mark.parametrize("rates", [(10e6, 0.0), (1e6,) * 201])
def test_servers_without_a_rate_or_too_many_are_refused(rates):
    with pytest.raises(ValueError, match="200 servers"):
        Dumbbell(server_links_bps=rates)


def test_hosts_behind_a_full_way_back_need_not_ask_for_their_router():
    asked = Dumbbell(way_back=WayBack(link_pkts=10)).script()
    assert asked.count("nud permanent") == 4
    assert "nud permanent" not in Dumbbell().script()


def test_receivers_acknowledge_every_segment_where_that_is_asked_for():
    assert "quickack" not in Dumbbell().script()
    script = Dumbbell(prompt_acks=True).script()
    # The host needs its default route first.
    assert script.index("route add default via 10.9.0.1") < script.index("quickack 1")


def test_senders_hand_over_one_segment_at_a_time_where_that_is_asked_for():
    assert "gso_max_segs" not in Dumbbell().script()
    lines = Dumbbell(single_segments=True).script().splitlines()
    assert {line for line in lines if "gso_max_segs 1" in line} == {
        "ip -n bg link set bg0 gso_max_segs 1",
        "ip -n fg link set fg0 gso_max_segs 1",
    }


def test_hosts_keep_the_tcp_of_linux_unless_something_is_set():
    assert LINUX.script(("bg", "rx")) == "" == LINUX.first_rto()
    assert not {"rto_min", "initcwnd", "first-rto"} & set(Dumbbell().script().split())


def test_hosts_have_the_tcp_that_simulators_of_2003_had():
    lines = OF_2003.script(("bg", "rx")).splitlines()
    files = "tcp_recovery; echo 0 >tcp_early_retrans; echo 0 >tcp_frto"
    assert lines[0] == f"ns bg sh -c 'cd /proc/sys/net/ipv4; echo 0 >tcp_sack; echo 0 >{files}'"
    # 1000 bytes less 40 of headers.
    assert lines[2].endswith(" initcwnd 2 rto_min 1000ms advmss 960")
    assert OF_2003.first_rto() == "imtcp-load first-rto --ms 3000"
    script = Dumbbell(hosts=OF_2003).script()
    # Each host needs its default route first.
    assert script.index("route add default via 10.9.0.1") < script.index("rto_min")
    assert "first-rto --ms 3000" in script


@pytest.mark.parametrize(
    "wrong", [{"least_rto_ms": 0}, {"initial_window_segs": 0}, {"packet_bytes": 60}]
)
def test_hosts_of_no_tcp_are_refused(wrong):
    with pytest.raises(ValueError, match=r"at least 1|128 to 1500"):
        Hosts(**wrong)
