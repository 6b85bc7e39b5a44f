"""Downloads of a run yield: the windows on the wire, the queue, the limits."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from guests import UP, Path3, rows, run
from imtcp_lab.job import JobResult
from margins import at_least, at_most, within

pytestmark = pytest.mark.vm

SENDER = "10.1.0.2"
PATH = Path3(forward="rate 50mbit limit 1000")
RTT_S = 0.030
#: Window scale for the guests' tcp_rmem of 16 MB.
WINDOW_SCALE = 9
MSS = 1448
SYN, RST = 2, 4


def _receives(order: str, name: str, more: str = "", port: int = 5200) -> str:
    """One download by `imtcp run ORDER`; its summary is the file NAME."""
    return (
        f"ns {PATH.tx} iperf3 -s -1 -p {port} >/dev/null & S=$!\nlistening {PATH.tx} {port}\n"
        f"ns {PATH.rx} imtcp run --json {order} -- iperf3 -c {SENDER} -p {port} -R {more}"
        f' >/dev/null 2>"$OUT/{name}"\nwait $S\n'
    )


def _summary(result: JobResult, name: str) -> dict:
    return json.loads(result.files[name].decode().splitlines()[-1])


@dataclass(frozen=True)
class Seen:
    """A packet at the sender: its own, by its data's end, or the receiver's, by what that takes."""

    t_s: float
    end: int | None = None
    acked: int = 0
    edge: int = 0


def _packets(result: JobResult, name: str) -> Iterator[Seen]:
    """Packets of the connection that carries the data, after its handshake."""
    captured = rows(result, name)
    sent: dict[str, int] = {}
    for row in captured:
        if row["out"] == "1":
            sent[row["dport"]] = sent.get(row["dport"], 0) + int(row["bytes"])
    port = max(sent, key=lambda p: sent[p])
    start_us = int(captured[0]["t_us"])
    for row in captured:
        t_s = (int(row["t_us"]) - start_us) / 1e6
        if int(row["flags"]) & (SYN | RST):
            continue
        if row["out"] == "1" and row["dport"] == port:
            yield Seen(t_s, end=int(row["seq"]) + int(row["bytes"]))
        elif row["out"] == "0" and row["sport"] == port:
            acked = int(row["ack"])
            yield Seen(t_s, acked=acked, edge=acked + (int(row["window"]) << WINDOW_SCALE))


def _beyond(a: int, b: int) -> int:
    """So far a is beyond b, modulo 2^32; negative where it is not."""
    return (a - b + 2**31) % 2**32 - 2**31


def _flight_segs(result: JobResult, name: str) -> float:
    """Under way in the last half of six seconds, on the mean.

    An offer is never taken back, and nothing is sent beyond it.
    """
    newest, end, samples = None, None, []
    for seen in _packets(result, name):
        if seen.end is None:
            if newest is not None:
                assert _beyond(seen.edge, newest.edge) >= 0, (newest, seen)
            newest = seen
            continue
        if newest is None:
            continue
        assert _beyond(seen.end, newest.edge) <= 0, (newest, seen)
        end = seen.end if end is None or _beyond(seen.end, end) > 0 else end
        if seen.t_s > 3:
            samples.append(_beyond(end, newest.acked) / MSS)
    return sum(samples) / len(samples)


@pytest.mark.parametrize("kernel", ["6.1", "6.12"])
def test_the_window_of_a_download_leaves_a_short_queue_and_is_never_taken_back(
    kernel: str,
) -> None:
    orders = {"both": "", "send": "--direction send"}
    script = UP + PATH.script()
    for number, (name, order) in enumerate(orders.items()):
        script += PATH.capture(f"{name}.csv")
        script += _receives(order, name, "-t 6", 5200 + number)
        script += "kill $CAPTURE; wait $CAPTURE || true\n"
    result = run(script, kernel)
    flight = {name: _flight_segs(result, f"{name}.csv") for name in orders}
    bdp_segs = 50e6 * RTT_S / 8 / 1514
    # Data in flight beyond that waits in the queue.
    at_most("steered, of what the path holds", flight["both"] / bdp_segs, 1.3)
    at_least("and otherwise", flight["send"] / bdp_segs, 3)
    received = {name: _summary(result, name)["bytes_received"] for name in orders}
    at_least("of what comes otherwise", received["both"] / received["send"], 0.9)


def test_the_ceiling_holds_for_the_sum_of_downloads_and_the_floor_lets_one_have_its_share() -> None:
    rival = (
        f"ns {PATH.tx} iperf3 -s -1 -p 5300 >/dev/null & R=$!\nlistening {PATH.tx} 5300\n"
        f"ns {PATH.rx} iperf3 -c {SENDER} -p 5300 -R -t 15 >/dev/null & C=$!\nsleep 2\n"
    )
    script = UP + PATH.script() + _receives("--max-rate 5M", "ceiling", "-t 6 -P 2", 5200)
    beside = {"floor": "--min-rate 25M", "yields": "", "plain": "--direction send"}
    for number, (name, order) in enumerate(beside.items()):
        script += rival + _receives(order, name, "-t 12", 5201 + number) + "wait $C $R\n"
    result = run(script)
    received = {name: _summary(result, name)["bytes_received"] for name in ("ceiling", *beside)}
    within("of the ceiling", received["ceiling"] * 8 / 6 / 5e6, 0.8, 1.05)
    # No receiver makes a sender faster than its own control does.
    at_least("the floor, of an ordinary one's share", received["floor"] / received["plain"], 0.8)
    at_most("without it, of that", received["yields"] / received["plain"], 0.4)
