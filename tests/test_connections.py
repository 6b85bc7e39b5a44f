"""Connections of every kind: none does worse than Reno because a measurement failed."""

from __future__ import annotations

import itertools
from functools import cache
from statistics import median

import numpy as np
import pytest

from guests import (
    RECEIVER,
    SEEDS,
    UP,
    Path3,
    Row,
    Transfer,
    assert_seldom_wrong,
    lines,
    percentile,
    rows,
    run,
    valid_bps,
)
from imtcp_lab.job import JobResult
from imtcp_lab.vm import FAST
from margins import at_least, at_most

pytestmark = pytest.mark.vm

#: The longest time that a packet may be held, IMTCP_T_MAX_US of meas.h.
T_MAX_US = 50_000
#: A process and a timer of the guest may be late by so much.
SLACK_US = 1_000
CONTROLS = ("reno", "imtcp", "imtcp_bg")


def records(result: JobResult, name: str) -> list[dict]:
    """What ``imtcp watch`` said of the connection that sent most."""
    found = lines(result, name)
    assert found, f"{name}: no connection was seen"
    most = max(found, key=lambda r: r["bytes_acked"])
    return [r for r in found if r["cookie"] == most["cookie"] and r["src"] == most["src"]]


@pytest.mark.parametrize("kernel", ["6.1", FAST])
def test_idle_and_application_limited_connections_are_as_fast_as_with_reno(kernel: str) -> None:
    # A buffer that holds every slow start: this is about silence, not about loss.
    path = Path3(forward="rate 50mbit limit 2000")
    script = UP + path.script()
    for control in CONTROLS:
        script += path.transfer(
            control, "w1000000 d s30000 w1000000 d p20000/100/10 d", recv="-b 20000"
        )
    runs = []
    for seed in range(1, 4):
        result = run(script, kernel, seed=seed)
        runs.append({control: Transfer.of(result, control) for control in CONTROLS})
        assert all(transfer.intact for transfer in runs[-1].values())

    def burst_s(control: str, step: int) -> float:
        """Writing a megabyte and having it acknowledged, in all runs."""
        return sum(r[control].step_s(step) + r[control].step_s(step + 1) for r in runs)

    def block_delays_us(control: str) -> list[int]:
        """From each write of 20 KB to its arrival, in all runs."""
        delays = []
        for transfer in (r[control] for r in runs):
            arrived = {
                r["bytes"]: int(r["t_us"]) for r in transfer.received if r["what"] == "block"
            }
            delays += [
                arrived[str(int(row["written"]) + 20000)] - int(row["t_us"])
                for row in transfer.sent
                if row["step"] == "block"
            ]
        return delays

    for control in ("imtcp", "imtcp_bg"):
        # Before and after half a minute of silence. The background may take its time, but
        # not the silence's: it knows the path.
        allowed = 1.15 if control == "imtcp" else 1.6
        for burst in (1, 4):
            longer = burst_s(control, burst) / burst_s("reno", burst)
            at_most(f"{control}, step {burst}, of Reno's seconds", longer, allowed)
        delays = block_delays_us(control)
        reno = block_delays_us("reno")
        at_most(f"{control}, longest delay over Reno's, us", max(delays) - max(reno), T_MAX_US)
        usual = percentile(delays, 50) - percentile(reno, 50)
        at_most(f"{control}, median delay over Reno's, us", usual, 5_000)


@pytest.mark.parametrize("kernel", ["6.1", FAST])
def test_requests_of_100_bytes_and_short_connections_are_not_held_back(kernel: str) -> None:
    path = Path3()
    script = UP + path.script() + f"ns {path.rx} ./wire echo 7 &\nlistening {path.rx} 7\n"
    for control in CONTROLS:
        script += (
            f'ns {path.tx} ./wire rr -c {control} {RECEIVER} 7 "$OUT/{control}.rr" 200 100 10\n'
            f'ns {path.rx} ./wire recv -n 200 6 "$OUT/{control}.recv" & RECV=$!\n'
            f"listening {path.rx} 6\n"
            f'ns {path.tx} ./wire short -c {control} {RECEIVER} 6 "$OUT/{control}.short"'
            " 200 10000\nwait $RECV\n"
        )
    result = run(script, kernel)

    def took(name: str) -> list[int]:
        return [int(row["took_us"]) for row in rows(result, name)]

    for control in ("imtcp", "imtcp_bg"):
        answers = took(f"{control}.rr")
        assert len(answers) == 200
        slowest_us = percentile(answers, 99) - percentile(took("reno.rr"), 99)
        at_most(f"{control}, slow answers over Reno's, us", slowest_us, SLACK_US)
        short = took(f"{control}.short")
        reno = took("reno.short")
        at_most(f"{control}, short ones, of Reno's time", sum(short) / sum(reno), 1.02)
        at_most(f"{control}, slowest short one over Reno's, us", max(short) - max(reno), 5_000)
        ends = [row for row in rows(result, f"{control}.recv") if row["what"] == "end"]
        assert len(ends) == 200
        assert all(row["right"] == "1" and row["bytes"] == "10000" for row in ends)


@cache
def stopped_reader(seed: int = 1) -> JobResult:
    """With each control, a reader that stops for five seconds after the first megabyte."""
    path = Path3(forward="rate 20mbit limit 1000")
    script = UP + path.script()
    for control in CONTROLS:
        script += path.capture(f"{control}.pcap")
        script += path.transfer(control, "w4000000", recv="-z 1000000:5000 -r 200000")
        script += "kill $CAPTURE; wait $CAPTURE\n"
    return run(script, seed=seed)


@pytest.mark.parametrize("control", ["imtcp", "imtcp_bg"])
def test_a_reader_that_stops_for_five_seconds_gets_data_again_at_once(control: str) -> None:
    result = stopped_reader()
    assert Transfer.of(result, control).intact
    packets = rows(result, f"{control}.pcap")
    # The first ACK that opens the window after it was closed, and what leaves then.
    closed = next(i for i, p in enumerate(packets) if p["out"] == "0" and p["window"] == "0")
    opened = next(
        i for i, p in enumerate(packets) if i > closed and p["out"] == "0" and int(p["window"]) > 0
    )
    after = next(p for p in packets[opened:] if p["out"] == "1" and int(p["bytes"]) > 0)
    late_us = int(after["t_us"]) - int(packets[opened]["t_us"])
    at_most("from the window's opening to data, us", late_us, SLACK_US)


@pytest.mark.parametrize(("control", "allowed"), [("imtcp", 1.02), ("imtcp_bg", 1.1)])
def test_a_reader_that_stops_costs_no_more_than_it_costs_reno(control: str, allowed: float) -> None:
    results = [stopped_reader(seed) for seed in range(1, 4)]

    def took_s(name: str) -> float:
        return sum(Transfer.of(result, name).seconds - 5 for result in results)

    # Pacing costs each of the two slow starts a round trip and a half, 30 ms each.
    more_s = took_s(control) - 0.09 * len(results)
    at_most("of Reno's seconds", more_s / took_s("reno"), allowed)


#: Guests of an ensemble, of two transfers each: enough to pass, and enough to fail. A value that
#: misses its bound by chance is measured again, with twice as much.
GUESTS, GUESTS_MOST = 5, 15
#: Standard errors of the difference. The first end the search early. Beyond the last what is within
#: its bound is less than once in 10 000 samples (Student's t, 30 transfers of each control).
ENOUGH_ERRORS, LAST_ERRORS = 2, 5


def no_slower_than_reno(
    path: Path3, steps: str, allowed: dict[str, float], least_retrans: int = 0
) -> dict[str, list[float]]:
    """The seconds that transfers took with each control.

    None is slower than Reno by more than the share that is allowed and what chance may add.  The
    kernel paces this Reno, as it paces every mode.
    """
    seconds: dict[str, list[float]] = {control: [] for control in CONTROLS}

    def slower_by_at_least(control: str, errors: int) -> float:
        own, reno = (np.array(seconds[c]) for c in (control, "reno"))
        error = np.hypot(own.std(ddof=1), reno.std(ddof=1)) / np.sqrt(len(own))
        return float((own.mean() - errors * error) / reno.mean() - 1)

    for seed in range(1, GUESTS_MOST + 1):
        labels = [(control, f"{control}{n}") for n in (1, 2) for control in CONTROLS]
        script = UP + path.script()
        for control, label in labels:
            script += path.transfer(control, steps, label, send="-p" if control == "reno" else "")
        result = run(script, seed=seed, limit_s=600)
        for control, label in labels:
            transfer = Transfer.of(result, label)
            assert transfer.intact
            assert int(transfer.sent[-1]["retrans"]) >= least_retrans
            seconds[control].append(transfer.seconds)
        if seed >= GUESTS and all(
            slower_by_at_least(c, ENOUGH_ERRORS) <= allowed[c] for c in allowed
        ):
            return seconds
    for control, most in allowed.items():
        assert slower_by_at_least(control, LAST_ERRORS) <= most, (control, seconds)
    return seconds


def test_one_percent_of_random_loss_costs_no_more_than_it_costs_reno() -> None:
    # A short round trip and 70 losses in each transfer: their number and places decide much. In a
    # short one all depends on how far slow start came before the first, and the background's goes
    # no further than the path carries (lab/notes/0004-random-loss.md).
    path = Path3(forward="rate 50mbit limit 1000 loss 1%", back="delay 10ms limit 10000")
    # The background yields to a queue; random loss makes none.
    no_slower_than_reno(path, "w10000000", {"imtcp": 0.03, "imtcp_bg": 0.1}, least_retrans=30)


@pytest.mark.parametrize("kernel", ["6.1", FAST])
def test_a_blackout_of_two_seconds_is_recovered_from_as_reno_does(kernel: str) -> None:
    path = Path3(forward="rate 20mbit limit 100")
    fine = f"tc -n {path.mid} qdisc change dev m2 root netem {path.forward}"
    script = UP + path.script()
    for control in CONTROLS:
        script += (
            f"( sleep 2; {fine} loss 100%; sleep 2; {fine} loss 0%"
            f' ; cut -d" " -f1 /proc/uptime >"$OUT/{control}.over" ) & BREAK=$!\n'
            f'imtcp watch --json --interval 0.5 >"$OUT/{control}.watch" & WATCH=$!\n'
        )
        script += path.transfer(control, "w9000000", send="-S 20")
        script += "kill $WATCH; wait $BREAK\n"
    result = run(script, kernel)

    def recovery_s(control: str) -> float:
        """From the first new ACK after the blackout to the end."""
        transfer = Transfer.of(result, control)
        assert transfer.intact
        over_us = float(result.files[f"{control}.over"]) * 1e6
        later = [row for row in transfer.sent if int(row["t_us"]) > over_us - 500_000]
        stuck = later[0]["acked"]
        first = next(row for row in later if row["acked"] != stuck)
        return (transfer.end_us - int(first["t_us"])) / 1e6

    for control, allowed in (("imtcp", 1.2), ("imtcp_bg", 1.6)):
        at_most(f"{control}, of Reno's recovery", recovery_s(control) / recovery_s("reno"), allowed)
        # The timer's next power of two decides when the path is found again: a shorter round
        # trip may find it up to the blackout's length later. Else as fast as ever.
        usual = 1.02 if control == "imtcp" else 1.25
        reno = Transfer.of(result, "reno")
        whole_s = Transfer.of(result, control).seconds - 2.0
        at_most(f"{control}, of Reno's seconds", whole_s / reno.seconds, usual)
        last = records(result, f"{control}.watch")[-1]
        assert last["reductions"]["rto"] >= 1
        at_least(f"{control}, measurements", last["meas_completed"], 1)


def test_on_a_lan_the_background_is_as_fast_as_reno_and_holds_nothing_to_measure() -> None:
    # A window that is right for half a millisecond has no room for a stream: with a cap that
    # waited for one the transfer took 4.7 % longer than with Reno.
    path = Path3(forward="rate 100mbit limit 1000", back="delay 0.2ms limit 10000")
    script = UP + path.script()
    for control in CONTROLS:
        script += f'imtcp watch --json --interval 0.1 >"$OUT/{control}.watch" & WATCH=$!\n'
        script += path.transfer(control, "w12000000") + "kill $WATCH\n"
    result = run(script)
    reno = Transfer.of(result, "reno")
    for control in CONTROLS:
        assert Transfer.of(result, control).intact
        longer = Transfer.of(result, control).seconds / reno.seconds
        at_most(f"{control}, of Reno's seconds", longer, 1.02)
    seen = records(result, "imtcp_bg.watch")
    last = seen[-1]
    assert last["cap_segs"] is None
    assert last["meas_completed"] == 0
    # it yields all the same, to its own queue
    at_least("times that it yielded", last["reductions"]["rtt"], 1)
    # one look may meet the top
    at_most("median round trip, us", median(one["srtt_us"] for one in seen), 2_000)


def test_reordering_costs_no_more_than_it_costs_reno() -> None:
    # Every twentieth packet overtakes: how often that looks like a loss is chance.
    path = Path3(forward="rate 50mbit delay 15ms reorder 5% 25% limit 1000", back="delay 15ms")
    seconds = no_slower_than_reno(path, "w5000000", {"imtcp": 0.1, "imtcp_bg": 0.3})
    # The handshake overtakes too. Kept as the least round trip it would cost ten seconds; without
    # that a transfer takes one, and with a timeout three.
    at_most("imtcp_bg, slowest transfer, s", max(seconds["imtcp_bg"]), 5.0)


RECEIVERS = {
    "delayed": Path3(),
    "every-packet": Path3(quickack=True),
    "gro": Path3(gro=True),
}


@cache
def acknowledged(receiver: str) -> list[JobResult]:
    """With each control, a transfer to a receiver that acknowledges in its own way."""
    path = RECEIVERS[receiver]
    script = UP + path.script()
    for control in CONTROLS:
        script += f'imtcp watch --events --json >"$OUT/{control}.events" & WATCH=$!\nsleep 0.1\n'
        script += path.transfer(control, "w15000000", recv="-r 400000")
        script += "sleep 0.3; kill $WATCH; wait $WATCH || true\n"
    return [run(script, seed=seed) for seed in SEEDS]


@pytest.mark.parametrize("receiver", RECEIVERS)
def test_whatever_acks_a_receiver_sends_costs_little_and_results_are_not_low(receiver: str) -> None:
    results = acknowledged(receiver)

    def took_s(control: str) -> float:
        """In all guests."""
        transfers = [Transfer.of(result, control) for result in results]
        assert all(transfer.intact for transfer in transfers)
        return sum(transfer.seconds for transfer in transfers)

    for control, share in (("imtcp", 0.95), ("imtcp_bg", 0.8)):
        at_least(f"{control}, of Reno's rate", took_s("reno") / took_s(control), share)
        # Nobody else is there, and the receiver's window leaves no queue of its own.
        if valid := valid_bps(results, control, least_events=5):
            at_least(f"{control}, median result, Mbit/s", percentile(valid, 50) / 1e6, 0.75 * 50)


@pytest.mark.parametrize("receiver", RECEIVERS)
def test_whatever_acks_a_receiver_sends_results_are_right_or_rejected(receiver: str) -> None:
    for control in ("imtcp", "imtcp_bg"):
        assert_seldom_wrong(valid_bps(acknowledged(receiver), control, least_events=5), 50e6)


def gaps_after_acks_us(packets: list[Row], port: str = "5000") -> list[int]:
    """For each ACK that moved the left edge while data was still to come: how long nothing left.

    The captured connection has no loss and a window limited by its receiver, so that each such
    ACK makes room for a packet.
    """
    data = [p for p in packets if p["out"] == "1" and int(p["bytes"]) and p["dport"] == port]
    last_us = int(data[-1]["t_us"])
    gaps, waiting_us, edge = [], None, None
    for packet in packets:
        at_us = int(packet["t_us"])
        if packet["out"] == "1" and int(packet["bytes"]):
            if waiting_us is not None:
                gaps.append(at_us - waiting_us)
            waiting_us = None
            if at_us >= last_us:
                break
        elif packet["out"] == "0" and packet["ack"] != edge:
            edge = packet["ack"]
            if waiting_us is None:
                waiting_us = at_us
    return gaps


@pytest.mark.parametrize(
    ("rate", "rtt_ms", "window"),
    [("50mbit", 30, 260_000), ("50mbit", 1, 100_000), ("2mbit", 80, 60_000)],
)
@pytest.mark.parametrize("control", ["imtcp", "imtcp_bg"])
def test_nothing_is_held_longer_than_t_while_there_is_data_and_window(
    control: str, rate: str, rtt_ms: int, window: int
) -> None:
    path = Path3(forward=f"rate {rate} limit 1000", back=f"delay {rtt_ms}ms limit 10000")
    megabytes = 6 if rate == "50mbit" else 1
    script = UP + path.script()
    # TCP puts more into a buffer of a short path: no window would hold a stream of these.
    script += f"ns {path.tx} sh -c 'echo 0 >/proc/sys/net/ipv4/tcp_tso_rtt_log'\n"
    script += path.capture("packets")
    script += 'imtcp watch --json --interval 0.5 >"$OUT/watch" & WATCH=$!\n'
    script += path.transfer(control, f"w{megabytes}000000", recv=f"-r {window}")
    script += "kill $WATCH $CAPTURE; wait $CAPTURE\n"
    result = run(script)
    transfer = Transfer.of(result, control)
    assert transfer.intact
    assert transfer.sent[-1]["retrans"] == "0"
    # Otherwise there was nothing to be held. The window of a path of a millisecond is too small for
    # many streams: with 2 of 9 seeds imtcp began two.
    least = 1 if rtt_ms == 1 else 3
    at_least("measurements begun", records(result, "watch")[-1]["meas_started"], least)
    limit_us = T_MAX_US + SLACK_US
    if control == "imtcp_bg":
        # The RTT rule and a trial of RTTmin shrink the window: a round trip without room.
        limit_us += rtt_ms * 1000
    longest_us = max(gaps_after_acks_us(rows(result, "packets")))
    at_most("longest wait for a packet, us", longest_us, limit_us)


def test_a_long_connection_measures_to_its_end_across_the_wrap_of_sequence_numbers() -> None:
    paths = {
        control: Path3(
            forward="rate 8mbit limit 60", back="delay 40ms limit 10000", name=control[-2:]
        )
        for control in CONTROLS
    }
    script = UP + "".join(path.script() for path in paths.values())
    script += 'imtcp watch --events --json >"$OUT/events" & WATCH=$!\nsleep 0.2\n'
    for control, path in paths.items():
        # The numbers wrap after 12.6 of 30 MB.
        transfer = path.transfer(control, "w30000000", send="-q 0xff400000")
        script += f"( {transfer} ) &\n"
        script += 'PIDS="${PIDS:-} $!"\n'
    script += "for p in $PIDS; do wait $p; done\nkill $WATCH; wait $WATCH || true\n"
    result = run(script)
    reno = Transfer.of(result, "reno")
    events = [e for e in lines(result, "events") if "outcome" in e]
    for control, share, mode in (("imtcp", 0.95, "measure"), ("imtcp_bg", 0.8, "bg")):
        transfer = Transfer.of(result, control)
        assert transfer.intact
        assert transfer.seconds >= 30
        at_least(f"{control}, of Reno's rate", transfer.bps / reno.bps, share)
        valid = [e["t_us"] for e in events if e["outcome"] == "valid" and e["mode"] == mode]
        moments = [transfer.start_us, *valid, transfer.end_us]
        longest_s = max(b - a for a, b in itertools.pairwise(moments)) / 1e6
        at_most(f"{control}, longest time without a result, s", longest_s, 20)


LIES = ("honest", "window", "optimistic", "unsent", "split", "timestamps")


def lying(mode: str, control: str, index: int, megabytes: float) -> str:
    """A tun device whose other end is a receiver in user space."""
    tun, address = f"tun{index}", f"10.77.{index}.2"
    return f"""\
ip -n tx tuntap add dev {tun} mode tun
ip -n tx addr add 10.77.{index}.1/24 dev {tun}
ip -n tx link set {tun} gso_max_segs 1 up
tc -n tx qdisc add dev {tun} root netem delay 20ms rate 20mbit limit 500
ns tx ./wire liar {tun} {mode} "$OUT/{mode}.{control}.liar" & LIAR=$!
sleep 0.1
ns tx ./wire send -c {control} -S 10 {address} 9 "$OUT/{mode}.{control}.send" \
w{round(megabytes * 1e6)} &
SEND=$!
wait $SEND; wait $LIAR
ip -n tx link del {tun}
"""


@pytest.mark.parametrize("mode", LIES)
def test_a_receiver_that_lies_gains_no_window_beyond_the_rules_and_all_data_arrives(
    mode: str,
) -> None:
    script = UP + "ip netns add tx; ip -n tx link set lo up\n"
    size = 0.03 if mode == "window" else 2
    for index, control in enumerate(CONTROLS, start=1):
        script += lying(mode, control, index, size)
    result = run(script, limit_s=200)
    seconds = {}
    beyond_reno = int(mode == "split")
    for control in CONTROLS:
        sent = rows(result, f"{mode}.{control}.send")
        told = rows(result, f"{mode}.{control}.liar")[0]
        assert told["right"] == "1"
        assert told["bytes"] == sent[-1]["written"] == str(round(size * 1e6))
        if mode not in ("honest", "window"):
            assert int(told["lies"]) > 100
        seconds[control] = (int(sent[-1]["t_us"]) - int(sent[0]["t_us"])) / 1e6
        for row in sent[1:]:
            # Slow start: one segment for each that was acknowledged, however often.
            acked_segs = int(row["acked"]) / int(row["mss_bytes"])
            assert int(row["cwnd_segs"]) <= 10 + acked_segs + 2
            beyond = int(row["unacked_segs"]) - int(row["cwnd_segs"])
            if control == "reno":
                beyond_reno = max(beyond_reno, beyond)
            elif control == "imtcp":
                # And never more in flight than that, but for the segment more that the kernel
                # itself allows in this very run (an ACK that cuts one in two makes it two).
                assert beyond <= beyond_reno <= 1, str(row)
            if control == "reno" or mode != "honest" or int(row["acked"]) < 20_000:
                continue
            # No faster than 2 cwnd/srtt (slow start) times 1.5 (EMPTY), or a stream's upper end.
            window_rate = int(row["cwnd_segs"]) * int(row["mss_bytes"]) * 1e6 / int(row["rtt_us"])
            assert int(row["pacing_bytes_per_sec"]) <= max(3.1 * window_rate, 1.25 * 20e6 / 8)
    at_most("imtcp, of Reno's seconds", (seconds["imtcp"] - 0.1) / seconds["reno"], 1.15)
    # A peer that makes the round trip look shorter pretends a queue. The background sends to it
    # slowly, but to the end. A quarter of a segment in each of 20 ms at the least: 2 MB are some
    # 1400 segments.
    most_s = 1400 * 4 * 0.02 if mode == "optimistic" else seconds["reno"] * 2 + 0.1
    at_most("imtcp_bg, of the most seconds", seconds["imtcp_bg"] / most_s, 1)


def test_a_connection_that_begins_with_a_small_segment_uses_a_slow_link() -> None:
    # 37 bytes cross 2 Mbit/s in 0.4 ms, a full segment in 6 ms. Taken for the least round trip, the
    # small one would make every full segment look like a queue above delta.
    path = Path3(forward="rate 2mbit limit 100", back="delay 20ms limit 10000")
    script = UP + path.script()
    for control in ("reno", "imtcp_bg"):
        script += path.transfer(control, "w37 s200 w3000000")
    result = run(script)
    reno, background = (Transfer.of(result, name) for name in ("reno", "imtcp_bg"))
    assert background.intact
    at_least("of Reno's rate", reno.seconds / background.seconds, 0.85)
