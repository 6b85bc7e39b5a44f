"""Floor and ceiling of a run hold for the sum of its connections."""

from __future__ import annotations

import json

import pytest

from guests import RECEIVER, UP, Path3, run
from margins import at_least, at_most, within

pytestmark = pytest.mark.vm

SECONDS = 8


def mean_rates_bps(orders: dict[str, str], rival: bool) -> dict[str, float]:
    """Mean rate of a run of two parallel connections by name of its order."""
    path = Path3()
    script = UP + path.script()
    port = 5200
    for name, order in orders.items():
        if rival:
            script += (
                f"ns {path.rx} iperf3 -s -1 -p {port + 1} >/dev/null & R=$!\n"
                f"listening {path.rx} {port + 1}\n"
                f"ns {path.tx} iperf3 -c {RECEIVER} -p {port + 1} -C cubic -t {SECONDS + 3}"
                f" >/dev/null & C=$!\nsleep 2\n"
            )
        script += (
            f"ns {path.rx} iperf3 -s -1 -p {port} >/dev/null & S=$!\n"
            f"listening {path.rx} {port}\n"
            f"ns {path.tx} imtcp run --json {order} -- iperf3 -c {RECEIVER} -p {port} -P 2"
            f' -t {SECONDS} >/dev/null 2>"$OUT/{name}"\nwait $S\n'
        )
        if rival:
            script += "wait $C $R\n"
        port += 10
    result = run(script)
    return {
        name: json.loads(result.files[name].decode().splitlines()[-1])["mean_bps"]
        for name in orders
    }


def test_the_floor_holds_beside_a_greedy_flow_and_is_more_than_what_yielding_leaves() -> None:
    rates = mean_rates_bps({"yields": "", "floor": "--min-rate 25M"}, rival=True)
    # The rate at the receiver is a little under the wire's, which the floor counts.
    at_least("of the floor", rates["floor"] / 25e6, 0.85)
    at_most("without it, of that", rates["yields"] / rates["floor"], 0.75)


def test_the_ceiling_is_reached_and_holds_for_the_sum_at_a_usual_round_trip() -> None:
    orders = {
        "low": "--max-rate 5M",
        "high": "--max-rate 20M",
        "other": "--mode lp --max-rate 5M",
    }
    rates = mean_rates_bps(orders, rival=False)
    # The ceiling is the wire's: 1448 bytes of payload in a frame of 1514. The first ten packets
    # of each of three connections leave before any pacing: 0.8 % of 8 s at 5M; and what the last
    # stream took ahead is not waited for at the end.
    for name, ceiling_bps in (("low", 5e6), ("high", 20e6), ("other", 5e6)):
        within(f"{name}, of the ceiling", rates[name] / ceiling_bps, 0.9, 1.0)


def test_what_is_sent_again_counts_towards_the_ceiling() -> None:
    """A tenth is lost and sent again: without it the rate would be a tenth above the ceiling."""
    path = Path3(forward="rate 50mbit limit 200 loss 10%", back="delay 10ms limit 10000")
    counters = f"ns {path.tx} grep t0: /proc/net/dev"
    # Behind the name come eight numbers of what was received, then the bytes sent.
    sent = f"$({counters} | tr -s ': ' ' ' | cut -d ' ' -f 11)"
    # Now and then one of four connections waits for its timer, and the others have its share. The
    # handshake can be lost, too: the ten seconds begin when they have sent for some three.
    script = UP + path.script()
    script += (
        f"ns {path.rx} iperf3 -s -1 -p 5200 >/dev/null & S=$!\n"
        f"listening {path.rx} 5200\n"
        f"ns {path.tx} imtcp run -q --mode lp --max-rate 1M -- iperf3 -c {RECEIVER} -p 5200 -P 4"
        " -t 16 >/dev/null & R=$!\n"
        f'until [ "{sent}" -gt 400000 ]; do sleep 0.1; done\n'
        f'before={sent}; sleep 10; echo $(({sent} - before)) >"$OUT/bytes"\n'
        "wait $R $S\n"
    )
    rate_bps = int(run(script).files["bytes"]) * 8 / 10
    within("of the ceiling", rate_bps / 1e6, 0.9, 1.04)


def test_the_pacing_that_a_program_asks_for_holds_under_fq_and_after_the_control_is_gone() -> None:
    path = Path3()
    script = UP + path.script() + f"tc -n {path.tx} qdisc replace dev t0 root fq\n"
    script += (
        f"ns {path.rx} iperf3 -s -1 -p 5200 >/dev/null & S=$!\n"
        f"listening {path.rx} 5200\n"
        f"ns {path.tx} imtcp run -q -- iperf3 -c {RECEIVER} -p 5200 --fq-rate 5M -t 6 -J"
        ' >"$OUT/told" & R=$!\n'
        "sleep 3; imtcp down >&2; wait $R $S\n"
    )
    told = json.loads(run(script).files["told"])
    # The first second has the ten segments that leave before any pacing, and iperf3 writes
    # 128 kB at a time.
    rates = [each["sum"]["bits_per_second"] for each in told["intervals"][1:]]
    assert len(rates) == 5
    at_least("slowest second, of the rate", min(rates) / 5e6, 0.8)
    at_most("fastest second, of the rate", max(rates) / 5e6, 1.2)
    at_most("all five, of the rate", sum(rates) / 5 / 5e6, 1.02)


def test_what_is_available_to_a_run_of_several_connections_is_what_they_could_have_together() -> (
    None
):
    """To each of them the others are strangers, and what is available a share."""
    path = Path3()
    script = UP + path.script()
    for port, parallel in ((5200, 1), (5210, 4)):
        script += (
            f"ns {path.rx} iperf3 -s -1 -p {port} >/dev/null & S=$!\n"
            f"listening {path.rx} {port}\n"
            f"ns {path.tx} imtcp run --json -- iperf3 -c {RECEIVER} -p {port} -P {parallel}"
            f' -t {SECONDS} >/dev/null 2>"$OUT/{parallel}"\nwait $S\n'
        )
    result = run(script)
    for parallel in ("1", "4"):
        told = json.loads(result.files[parallel].decode().splitlines()[-1])
        at_least(f"{parallel} of them, results", told["avail_results"], 11)
        # on an idle path of 50 Mbit/s
        mean_share = told["avail_mean_bps"] / 50e6
        within(f"{parallel} of them, mean, of the link", mean_share, 0.8, 1.15)
        # The mean is one of whole kbit/s.
        low, mean, high = (told[f"avail_{of}_bps"] // 1000 for of in ("min", "mean", "max"))
        assert low <= mean <= high, told
        assert told["mean_bps"] <= told["avail_mean_bps"], told
