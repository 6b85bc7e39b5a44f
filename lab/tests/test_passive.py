"""Estimators that only watch: results computed by hand from their papers' formulas."""

from __future__ import annotations

import math
import re
import subprocess

import polars as pl
import pytest

from imtcp_lab import passive, segments
from imtcp_lab.experiments import im_passive
from imtcp_lab.segments import Ack

MSS = 1000


def test_what_is_held_until_the_next_is_judged_at_all_times_and_not_where_there_is_something_new():
    true = {"name": "true", "t_s": [0, 1, 2, 3, 4], "value": [100] * 5}
    early = {"name": "measured", "t_s": [0], "value": [50]}
    assert im_passive.held_error({"lines": [early, true]}) == 0.5
    late = {"name": "measured", "t_s": [0, 1], "value": [50, 100]}
    assert im_passive.held_error({"lines": [late, true]}) == 0
    nothing = {"name": "measured", "t_s": [], "value": []}
    assert math.isnan(im_passive.held_error({"lines": [nothing, true]}))


def test_westwood_is_its_filter_step_by_step():
    # With tau = 500 ms and D = 100 ms, B' = (900 B + 100 (b + b')) / 1100. An ACK of 1000 bytes
    # after 100 ms is a rate of 80 kbit/s:
    #
    # time    b   b'  B' in kbit/s
    # 100 ms  80   0  100 * 80 / 1100 = 7.2727
    # 200 ms  80  80  (900 * 7.2727 + 16000) / 1100 = 20.4959
    acks = [Ack(0, MSS), Ack(100_000, MSS), Ack(200_000, MSS)]
    found = passive.westwood(acks, MSS)
    assert found == [
        (100_000, pytest.approx(7_272.73, abs=0.01)),
        (200_000, pytest.approx(20_495.87, abs=0.01)),
    ]


def test_westwood_comes_to_a_steady_rate():
    acks = [Ack(10_000 * n, MSS) for n in range(1000)]
    assert passive.westwood(acks, MSS)[-1][1] == pytest.approx(800_000, rel=1e-3)


def test_westwood_takes_a_silence_for_samples_of_zero():
    # 500 ms without an ACK contain one virtual sample of 0, after 250 ms, which leaves B = 0. Then
    # 1000 bytes in 250 ms are 32 kbit/s: B = 250 * 32 / 1250 = 6.4.
    assert passive.westwood([Ack(0, MSS), Ack(500_000, MSS)], MSS) == [
        (500_000, pytest.approx(6_400))
    ]


def test_acks_of_one_microsecond_are_one_sample():
    acks = [Ack(0, MSS), Ack(0, MSS), Ack(100_000, MSS)]
    # 2000 bytes in 100 ms.
    assert passive.westwood(acks, MSS) == [(100_000, pytest.approx(100 * 160_000 / 1100))]


def test_a_duplicate_counts_as_a_segment_and_is_not_counted_again():
    acks = [Ack(1, MSS), Ack(2, 0), Ack(3, 0), Ack(4, 3 * MSS), Ack(5, 2 * MSS)]
    # The ACK that fills the hole covers three segments; two duplicates have counted two of them.
    assert [n for _, n in passive.delivered(acks, MSS)] == [1000, 1000, 1000, 1000, 2000]


def test_what_a_partial_ack_does_not_use_up_is_left_for_the_next():
    acks = [*(Ack(n, 0) for n in range(5)), Ack(6, 3 * MSS), Ack(7, 4 * MSS)]
    # Duplicates counted five segments. Three of them cover the first ACK, which counts only its own
    # segment. Two are left for the next.
    assert [n for _, n in passive.delivered(acks, MSS)][5:] == [1000, 2000]


def test_hoes_rate_is_the_slope_of_three_acks_once_in_a_round_trip():
    # The first three ACKs carry 2 bytes per µs. The group at 50 ms is too early. The last group has
    # gaps of 2 ms.
    times_ms = (0, 1, 2, 50, 51, 52, 100, 102, 104)
    found = passive.hoe([Ack(t * 1000, 2 * MSS) for t in times_ms], rtt_us=100_000)
    assert found == [(2_000, pytest.approx(16e6)), (104_000, pytest.approx(8e6))]


def test_uneven_acks_have_the_least_squares_slope():
    # The means of x and of y are 2: (4 + 0 + 6) / (4 + 1 + 9).
    assert passive.slope([(0, 0), (1, 2), (5, 4)]) == pytest.approx(10 / 14)
    assert passive.slope([(1, 0), (1, 2)]) is None


def test_a_duplicate_breaks_hoes_row():
    acks = [Ack(0, MSS), Ack(1000, 0), Ack(2000, MSS), Ack(3000, MSS), Ack(4000, MSS)]
    assert passive.hoe(acks, 100_000) == [(4000, pytest.approx(8e6))]


def test_rab_counts_what_arrived_in_a_round_trip():
    # After the first segment, ten arrive in 100 ms: 80 kbit in 0.1 s.
    arrivals = [(10_000 * n, MSS) for n in range(21)]
    assert passive.rab(arrivals, 100_000) == [
        (100_000, pytest.approx(800_000)),
        (200_000, pytest.approx(800_000)),
    ]


def test_averages_are_of_each_interval_and_none_where_nothing_was_said():
    samples = [(900, 9.0), (1000, 1.0), (1499, 3.0), (2600, 5.0)]
    assert passive.averages(samples, 500, 1000, 3000) == [2.0, None, None, 5.0]


def table(rows):
    return pl.DataFrame(rows, schema=["t_us", "host", "data_bytes", "snd_una"], orient="row")


def test_an_acks_bytes_are_seen_before_the_next_one_and_wrap():
    seen = table(
        [
            (10, "10.1.0.2", 0, "0xfffffc18"),
            (15, "10.9.0.2", 1448, "0x7"),
            (20, "10.1.0.2", 0, "0x0"),
            (30, "10.1.0.2", 0, "0x0"),
            (40, "10.1.0.2", 0, "0x7d0"),
        ]
    )
    assert segments.acks(seen) == [Ack(10, 1000), Ack(20, 0), Ack(30, 2000)]
    assert segments.arrivals(seen) == [(15, 1448)]


def test_the_kernels_lines_become_rows():
    line = (
        "     imtcp-load-391     [000] ..s2.   105.033812: tcp_probe: family=AF_INET"
        " src=10.9.0.2:5001 dest=10.1.0.2:43210 mark=0x0 data_len=1448 snd_nxt=0x5f1e8a0b"
        " snd_una=0x5f1e8a0b snd_cwnd=10 ssthresh=2147483647 snd_wnd=65536 srtt=0 rcv_wnd=131072"
        " sock_cookie=a skbaddr=00000000aa skaddr=00000000bb"
    )
    expression = re.search(r"sed -nE '(.*)' \$TRACE/trace", segments.keep())[1]
    done = subprocess.run(
        ["sed", "-nE", expression],
        input=f"# tracer: nop\n{line}\n",
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "105033812,10.9.0.2,1448,0x5f1e8a0b\n"
