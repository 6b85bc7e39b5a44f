"""Parameters reach the connections of a run, and what is in force can be read back."""

from __future__ import annotations

import json
from typing import Any

import pytest

from guests import RECEIVER, UP, Path3, lines, run
from imtcp_lab.vm import FAST
from margins import at_least, within

pytestmark = pytest.mark.vm

LINK_BPS = 50e6
DEFAULTS = {"N": 8, "delta": 1.2, "g": 1.0, "gamma": 0.125}


def most_sent(found: list[dict[str, Any]]) -> dict[str, Any]:
    """The newest record of the connection that sent most: iperf3 has one for its orders."""
    return max(found, key=lambda r: r["bytes_acked"])


@pytest.mark.parametrize("kernel", ["6.1", FAST])
def test_a_run_with_g_takes_that_share_of_an_idle_line_and_says_what_is_in_force(
    kernel: str,
) -> None:
    path = Path3()
    runs = {"whole": "", "half": "--param g=0.5 --param N=10"}
    script = UP + path.script()
    for port, (name, order) in enumerate(runs.items(), 5300):
        script += (
            f"ns {path.rx} iperf3 -s -1 -p {port} >/dev/null & S=$!\nlistening {path.rx} {port}\n"
            f"( sleep 4; imtcp watch --once --json --filter :{port}"
            f' >"$OUT/{name}.watch"; imtcp status --json >"$OUT/{name}.status";'
            f' imtcp status >"$OUT/{name}.text" ) & W=$!\n'
            f"ns {path.tx} imtcp run --json {order} -- iperf3 -c {RECEIVER} -p {port} -t 8"
            f' >/dev/null 2>"$OUT/{name}"\nwait $S $W\n'
        )
    result = run(script, kernel)
    rates = {
        name: json.loads(result.files[name].decode().splitlines()[-1])["mean_bps"] for name in runs
    }
    at_least("whole, of the link", rates["whole"] / LINK_BPS, 0.8)
    # The cap is a 20th above the share, of frames, and what is measured may be a little high.
    within("half, of the link", rates["half"] / LINK_BPS, 0.4, 0.55)
    in_force = {"whole": DEFAULTS, "half": DEFAULTS | {"g": 0.5, "N": 10}}
    for name, params in in_force.items():
        assert most_sent(lines(result, f"{name}.watch"))["params"] == params
        status = json.loads(result.files[f"{name}.status"])
        assert [r["params"] for r in status["runs"]] == [params]
    assert b"bg, N=10, g=0.5, no limits" in result.files["half.text"]


def test_ledbat_with_a_smaller_target_keeps_a_shorter_queue_on_the_same_path() -> None:
    link_bps = 10e6
    # The buffer holds 600 ms: the queue is what the control lets in.
    path = Path3(forward="rate 10mbit limit 500")
    orders = {100: "", 20: "--param target=20"}
    script = UP + path.script()
    for port, (target_ms, order) in enumerate(orders.items(), 5300):
        script += (
            f"ns {path.rx} iperf3 -s -1 -p {port} >/dev/null & S=$!\nlistening {path.rx} {port}\n"
            f'( sleep 10; imtcp watch --once --json --filter :{port} >"$OUT/{target_ms}.watch" ) &'
            " W=$!\n"
            f"ns {path.tx} imtcp run --json --mode ledbat {order} -- iperf3 -c {RECEIVER} -p {port}"
            f' -t 12 >/dev/null 2>"$OUT/{target_ms}"\nwait $S $W\n'
        )
    result = run(script)
    queue_us = {}
    for target_ms in orders:
        record = most_sent(lines(result, f"{target_ms}.watch"))
        assert record["params"] == {"gain": 1.0, "target": target_ms}
        queue_us[target_ms] = record["srtt_us"] - record["min_rtt_us"]
        summary = json.loads(result.files[str(target_ms)].decode().splitlines()[-1])
        at_least(f"{target_ms} ms, of the link", summary["mean_bps"] / link_bps, 0.8)
    # The queue of slow start beyond 100 ms drains slowly: by a packet in a round trip and less.
    at_least("queue for 100 ms, us", queue_us[100], 90_000)
    within("queue for 20 ms, us", queue_us[20], 10_000, 30_000)


def test_a_chosen_pause_is_what_lies_between_measurements_also_after_losses() -> None:
    path = Path3()  # its buffer is of 200 packets: imtcp loses some now and then
    script = UP + path.script()
    pauses = (20, 0)
    for port, pause in enumerate(pauses, 5300):
        script += (
            f"ns {path.rx} iperf3 -s -1 -p {port} >/dev/null & S=$!\nlistening {path.rx} {port}\n"
            f'( sleep 6; imtcp watch --once --json --filter :{port} >"$OUT/{pause}" ) & W=$!\n'
            f"ns {path.tx} imtcp run --mode measure --param pause={pause} --"
            f" iperf3 -c {RECEIVER} -p {port} -t 7 >/dev/null\nwait $S $W\n"
        )
    result = run(script)
    found = {pause: most_sent(lines(result, str(pause))) for pause in pauses}
    for pause, record in found.items():
        assert record["params"]["pause"] == pause
        at_least(f"pause {pause}, losses", record["reductions"]["loss"], 1)
    # twenty round trips of 30 ms, and the queue's: at most six seconds of them
    within("measurements with a pause of 20", found[20]["meas_started"], 4, 6 / 0.6 + 1)
    more = found[0]["meas_started"] / found[20]["meas_started"]
    at_least("times as many without one", more, 5)


def test_attaching_again_changes_the_parameters_of_open_connections() -> None:
    path = Path3()
    script = path.script() + 'printf "[bg]\\ndelta = 1.5\\n" >/tmp/imtcp.conf\nimtcp up >&2\n'
    script += (
        f"ns {path.rx} iperf3 -s -1 -p 5300 >/dev/null & S=$!\nlistening {path.rx} 5300\n"
        f"nsenter --net=/var/run/netns/{path.tx} iperf3 -c {RECEIVER} -p 5300 -C imtcp_bg -t 14"
        " >/dev/null & C=$!\n"
    )
    orders = {
        "file": "--config /tmp/imtcp.conf --param g=0.8",
        "line": "--config /tmp/imtcp.conf --param delta=2",
        "fs": "--mode fs --param h=20",
        "lp": "--mode lp --param delta=0.3",
        "nice": "--mode nice --param t=0.2 --param f=0.25",
        "printed": "--mode paper-bg --param N=3 --param rtt=newest",
        "none": "",
    }
    watch = "imtcp watch --once --json --filter :5300"
    script += f'sleep 2; {watch} >"$OUT/alone"\n'
    for name, order in orders.items():
        script += (
            f'imtcp attach --json --pid $C {order} >"$OUT/{name}.attach"\n'
            f'sleep 0.5; {watch} >"$OUT/{name}"\n'
        )
    script += "wait $C $S\n"
    result = run(script)
    expected = {
        "file": DEFAULTS | {"delta": 1.5, "g": 0.8},
        "line": DEFAULTS | {"delta": 2.0},
        "fs": {"N": 8, "gamma": 0.125, "h": 20},
        "lp": {"delta": 0.3, "itt": 3},
        "nice": {"f": 0.25, "t": 0.2},
        "printed": {"N": 3, "delta": 1.2, "gamma": 0.125, "rtt": "newest"},
        "none": DEFAULTS,
    }
    # By its control alone: nobody chose anything.
    assert most_sent(lines(result, "alone"))["params"] == DEFAULTS
    for name, params in expected.items():
        assert json.loads(result.files[f"{name}.attach"])["params"] == params
        assert most_sent(lines(result, name))["params"] == params, name
