"""The background makes room for what its own host sends by the same gateway, before any queue."""

from __future__ import annotations

from statistics import median

import pytest

from guests import UP, Path3, rows, run
from imtcp_lab.job import JobResult
from margins import at_least, at_most

pytestmark = pytest.mark.vm

PATH = Path3(forward="rate 50mbit limit 1000")
#: Behind the gateway and before the bottleneck, so that the foreground makes no queue there.
BEFORE_BOTTLENECK = "10.9.9.9"
#: The gateway itself: the foreground needs none.
NEIGHBOUR = "10.1.0.1"
FROM_S, UNTIL_S = 3.0, 5.0
#: 25 Mbit/s, half of the line.
WRITES = "p31250/10/200"


def _beside(address: str, series: str) -> JobResult:
    script = UP + PATH.script()
    script += f"ip -n {PATH.mid} addr add {BEFORE_BOTTLENECK}/32 dev lo\n"
    script += (
        f"( {PATH.transfer('imtcp_bg', 'w40000000', 'bg', 5000, send='-S 10')}) & BG=$!\n"
        f"sleep {FROM_S}\n"
        f'ns {PATH.mid} ./wire recv 5001 "$OUT/fg.recv" & RECV=$!\n'
        f"listening {PATH.mid} 5001\n"
        f'ns {PATH.tx} ./wire send -c reno {address} 5001 "$OUT/fg.send" {WRITES}\n'
        "wait $RECV $BG\n"
    )
    return run(script, series)


def _windows(result: JobResult) -> tuple[float, float, float]:
    """The background's window before, beside and after the foreground, segments."""
    foreground = [int(row["t_us"]) for row in rows(result, "fg.send")]
    began_us, ended_us = foreground[0], foreground[-1]
    sent = [(int(row["t_us"]), int(row["cwnd_segs"])) for row in rows(result, "bg.send")[1:-1]]

    def between(start_us: int, end_us: int) -> float:
        return median(segs for t_us, segs in sent if start_us <= t_us < end_us)

    return (
        between(began_us - 1_000_000, began_us),
        between(began_us + 30_000, began_us + 90_000),
        between(ended_us + 200_000, ended_us + 600_000),
    )


@pytest.mark.parametrize("series", ["6.1", "uml"])
def test_it_gives_its_own_hosts_foreground_room_at_once_and_takes_it_back(series: str) -> None:
    before, beside, after = _windows(_beside(BEFORE_BOTTLENECK, series))
    # 25 Mbit/s have 62 packets of 1514 bytes in flight in 30 ms.
    at_least("segments of room", before - beside, 25)
    at_least("the window afterwards over that before", after / before, 0.8)


def test_traffic_to_a_neighbour_on_the_same_network_costs_it_nothing() -> None:
    before, beside, _ = _windows(_beside(NEIGHBOUR, "uml"))
    at_most("the window before over that beside", before / beside, 1.15)
