"""No congestion control: what the receiver takes and no more, and only where it is allowed."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from guests import RECEIVER, UP, Path3, Row, Transfer, lines, rows, run
from imtcp_lab.vm import FAST
from margins import at_least, at_most

pytestmark = pytest.mark.vm

#: Without window scaling no receiver offers more.
WINDOW_BYTES = 65535
AVAILABLE = "cat /proc/sys/net/ipv4/tcp_available_congestion_control"


def unscaled(path: Path3) -> str:
    """A window that the capture shows as it is."""
    return path.script() + f"ns {path.rx} sh -c 'echo 0 >/proc/sys/net/ipv4/tcp_window_scaling'\n"


def in_flight(packets: list[Row]) -> Iterator[tuple[int, int, int]]:
    """When data leave, how much is then not acknowledged, and the window that was offered."""
    acked = window = 0
    for p in packets:
        if p["out"] == "0":
            if int(p["ack"]):
                acked, window = int(p["ack"]), int(p["window"])
        elif int(p["bytes"]):
            flight = (int(p["seq"]) + int(p["bytes"]) - acked) % (1 << 32)
            if flight < 1 << 31:  # else sent again after all
                yield int(p["t_us"]), flight, window


@pytest.mark.parametrize("kernel", ["6.1", FAST])
def test_it_fills_the_receivers_window_from_the_first_ack_on_and_never_has_more_in_flight(
    kernel: str,
) -> None:
    path = Path3()
    script = UP + unscaled(path) + "imtcp up --allow-nocc >&2\n" + path.capture("packets")
    script += path.transfer("imtcp_nocc", "w6000000") + "kill $CAPTURE; wait $CAPTURE\n"
    result = run(script, kernel)
    transfer = Transfer.of(result, "imtcp_nocc")
    assert transfer.intact
    assert {row["control"] for row in transfer.sent} == {"imtcp_nocc"}
    sent = list(in_flight(rows(result, "packets")))
    assert all(flight <= window for _, flight, window in sent)
    # Three round trips after the start at the latest: the receiver opens its window as it learns.
    steady = [(flight, window) for t, flight, window in sent if t > sent[0][0] + 100_000]
    full = [flight >= window - 3 * 1448 for flight, window in steady]
    at_least("of the moments the window is full", sum(full) / len(full), 0.9)
    # A window in each round trip of 30 ms is what it can have.
    at_least("of a window in each round trip", transfer.bps / (WINDOW_BYTES * 8 / 0.0315), 0.8)


def test_after_losses_the_kernels_recovery_works_and_the_window_comes_back() -> None:
    path = Path3(forward="rate 50mbit limit 1000 loss 1%")
    script = UP + unscaled(path) + "imtcp up --allow-nocc >&2\n" + path.capture("packets")
    script += path.transfer("imtcp_nocc", "w6000000", send="-S 5")
    script += "kill $CAPTURE; wait $CAPTURE\n" + path.transfer("reno", "w6000000")
    result = run(script)
    nocc, reno = (Transfer.of(result, name) for name in ("imtcp_nocc", "reno"))
    assert nocc.intact
    assert all(flight <= window for _, flight, window in in_flight(rows(result, "packets")))
    samples = [row for row in nocc.sent if row["step"] == "sample" and int(row["retrans"])]
    at_least("packets sent again", int(samples[-1]["retrans"]), 10)
    # Open is 0, Disorder 1: nothing is being repaired.
    calm = [int(row["cwnd_segs"]) for row in samples if row["ca_state"] in "01"]
    at_least("looks while nothing is repaired", len(calm), 10)
    whole = WINDOW_BYTES // 1448
    whole_again = sum(cwnd >= 0.9 * whole for cwnd in calm) / len(calm)
    at_least("of these the window is whole", whole_again, 0.95)
    at_most("of Reno's seconds", nocc.seconds / reno.seconds, 0.7)


@pytest.mark.parametrize("kernel", ["6.1", FAST])
def test_without_permission_it_is_refused_and_the_next_up_takes_the_permission_away(
    kernel: str,
) -> None:
    path = Path3()
    script = f"""{UP}{path.script()}
ns {path.tx} imtcp run --mode nocc -- echo unheard >"$OUT/unheard" 2>&1 || true
dmesg >"$OUT/kernel"
unshare -m sh -c 'mount --bind /proc/version /dev/kmsg; exec imtcp attach --mode nocc --pid 1' \
	>"$OUT/nowhere" 2>&1 || true
syslogd -O /tmp/messages
cp wire /tmp/wire; chmod 755 /tmp/wire; mkdir -m 777 /tmp/nobody
for port in 5300 5301; do
	ns {path.rx} iperf3 -s -p $port >/dev/null & listening {path.rx} $port
done
imtcp up --json >"$OUT/up"
code() {{ name=$1; shift; c=0; "$@" >"$OUT/$name" 2>&1 || c=$?; echo $c >"$OUT/$name.code"; }}
code run ns {path.tx} imtcp run --mode nocc -- true
code attach imtcp attach --mode nocc --pid $$
{AVAILABLE} >"$OUT/before"
imtcp up --allow-nocc --json >"$OUT/allowed" 2>"$OUT/said"
imtcp up --allow-nocc >&2
{AVAILABLE} >"$OUT/while"
send="/tmp/wire send -c imtcp_nocc {RECEIVER} 5300 /tmp/nobody/out w1"
code nobody ns {path.tx} su -s /bin/sh nobody -c "$send"
code used ns {path.tx} imtcp run --mode nocc -- iperf3 -c {RECEIVER} -p 5300 -t 1
nsenter --net=/var/run/netns/{path.tx} iperf3 -c {RECEIVER} -p 5300 -t 6 >&2 & C=$!
sleep 1
code live imtcp attach --mode nocc --pid $C
sleep 1; imtcp watch --once --json --filter :5300 >"$OUT/attached"
ns {path.tx} imtcp run --mode nocc -- iperf3 -c {RECEIVER} -p 5301 -t 4 >&2 2>"$OUT/lost" & R=$!
sleep 1
imtcp up >"$OUT/taken" 2>&1
imtcp status --json >"$OUT/status.json"; imtcp status >"$OUT/status"
{AVAILABLE} >"$OUT/after"
imtcp watch --once --json --filter :5300 >"$OUT/gone"
code again imtcp attach --mode nocc --pid $C
wait $C $R
imtcp up --allow-nocc >&2; imtcp down >&2
{AVAILABLE} >"$OUT/down"
ls /sys/fs/bpf >"$OUT/pins"
cp /tmp/messages "$OUT/messages"
"""
    result = run(script, kernel)

    def text(name: str) -> str:
        return result.files[name].decode()

    for name, code in (("run", 125), ("attach", 1), ("again", 1)):
        assert int(text(f"{name}.code")) == code, text(name)
        assert text(name).startswith("imtcp: mode nocc is not allowed on this machine")
        assert "`imtcp up --allow-nocc`" in text(name)
        assert text(name).count("\n") == 1
    # Without a syslog it is in the kernel's log, and where that takes nothing, on the terminal.
    assert "no congestion control (nocc) refused for a run (echo), by " in text("kernel")
    assert text("unheard").count("\n") == 1, text("unheard")
    assert text("nowhere").startswith("imtcp: in no log, for nothing listens on /dev/log and "), (
        text("nowhere")
    )
    assert "(nocc) refused for process 1, by " in text("nowhere")
    assert "imtcp: mode nocc is not allowed on this machine" in text("nowhere")
    loaded = {name: "imtcp_nocc" in text(name) for name in ("before", "while", "after", "down")}
    assert loaded == {"before": False, "while": True, "after": False, "down": False}
    assert [json.loads(text(name))["nocc"] for name in ("up", "allowed")] == [False, True]
    # Not for who lacks CAP_NET_ADMIN, loaded or not.
    assert int(text("nobody.code")) != 0, text("nobody")
    # A run and a connection that was there before, both told to those who look after the machine.
    assert int(text("used.code")) == 0, text("used")
    assert "imtcp: no congestion control (nocc) for run " in text("used")
    attached = max(lines(result, "attached"), key=lambda r: r["bytes_acked"])
    assert attached["mode"] == "nocc"
    for what in (
        "is allowed from now on, by ",
        "for run ",
        "for process ",
        "refused for a run (true), by ",
        "refused for process ",
        "is not allowed any more, by ",
    ):
        assert f"no congestion control (nocc) {what}" in text("messages"), text("messages")
    # Everybody may read the log: of a command it has the program alone.
    assert "(iperf3), by " in text("messages") and "5300" not in text("messages")
    # Taken away: what used it goes on with the default control, which no record is of.
    assert "not allowed any more" in text("taken")
    assert not lines(result, "gone")
    # Said of the run and of the attachment that have lost it, and at the run's end.
    status = json.loads(text("status.json"))
    assert [it["in_force"] for it in status["runs"] + status["attachments"]] == [False, False]
    assert text("status").count("no longer in force: nocc is not allowed any more") == 2
    assert "mode nocc was taken away during the run; until then " in text("lost")
    assert result.files["pins"] == b""
