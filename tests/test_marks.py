"""Marks of a run's packets that queues see: the priority on its host, the DSCP on the wire."""

from __future__ import annotations

import re
from dataclasses import dataclass

import pytest

from guests import RECEIVER, UP, Path3, run
from imtcp_lab.job import JobResult

pytestmark = pytest.mark.vm

#: ARP, and what else a host says without being asked.
A_LITTLE = 1000
#: Runs and what they order; each sends half a megabyte.
RUNS = {
    "bg": "imtcp run -q -- iperf3 -n 500K",
    "own-mark": "imtcp run -q -- iperf3 -n 500K -S 0x48",
    "udp": "imtcp run -q -- iperf3 -u -b 20M -n 500K",
    "attached": "sh -c 'imtcp attach --pid $$ >&2; exec iperf3 -n 500K \"$@\"' sh",
    "detached": "sh -c 'imtcp attach --pid $$ >&2; imtcp detach --all >&2;"
    ' exec iperf3 -n 500K "$@"\' sh',
    "measure": "imtcp run -q --mode measure -- iperf3 -n 500K",
    "unmarked": "imtcp run -q --dscp none --priority none -- iperf3 -n 500K",
    "plain": "iperf3 -n 500K",
}


@dataclass(frozen=True)
class Sent:
    """Bytes by the band of the sender's own queue, and by their mark at the router."""

    bands: tuple[int, ...]
    lower_effort: int
    others: int


def _classes(text: str) -> list[int]:
    return [int(n) for n in re.findall(r"^ Sent (\d+) bytes", text, re.MULTILINE)]


def _sent(result: JobResult, name: str) -> Sent:
    def grown(at: str) -> list[int]:
        before, after = (
            _classes(result.files[f"{name}.{at}.{when}"].decode()) for when in ("before", "after")
        )
        return [b - a for a, b in zip(before, after, strict=True)]

    marked = grown("router")
    return Sent(tuple(grown("host")), marked[0], marked[1])


def _sends(path: Path3) -> str:
    script = (
        f"tc -n {path.tx} qdisc add dev t0 root handle 1: prio\n"
        f"tc -n {path.mid} filter add dev m2 parent 9: protocol ip u32"
        " match ip tos 0x04 0xfc flowid 9:1\n"
    )
    for number, (name, command) in enumerate(RUNS.items()):
        port = 5200 + number
        look = "".join(
            f'tc -n {ns} -s class show dev {dev} >"$OUT/{name}.{at}.@"\n'
            for ns, dev, at in ((path.tx, "t0", "host"), (path.mid, "m2", "router"))
        )
        script += (
            f"ns {path.rx} iperf3 -s -1 -p {port} >/dev/null & S=$!\nlistening {path.rx} {port}\n"
            + look.replace("@", "before")
            + f"ns {path.tx} {command} -c {RECEIVER} -p {port} >&2\nwait $S\n"
            + look.replace("@", "after")
        )
    return script


@pytest.mark.parametrize("kernel", ["6.1", "6.12"])
def test_what_yields_waits_behind_others_on_its_host_and_is_marked_and_nothing_else_is(
    kernel: str,
) -> None:
    # All but lower effort is in the second band.
    path = Path3(shaper="handle 9: prio bands 2 priomap" + 16 * " 1")
    result = run(UP + path.script() + _sends(path), kernel)
    sent = {name: _sent(result, name) for name in RUNS}
    for name in ("bg", "own-mark", "attached"):
        high, usual, low = sent[name].bands
        assert low > 500_000, (name, sent[name])
        assert high + usual < A_LITTLE, (name, sent[name])
        assert sent[name].lower_effort > 500_000, (name, sent[name])
        assert sent[name].others < A_LITTLE, (name, sent[name])
    for name in ("detached", "measure", "unmarked", "plain"):
        # The connection before it may still say its last word.
        assert sent[name].bands[2] < A_LITTLE, (name, sent[name])
        assert sent[name].lower_effort < A_LITTLE, (name, sent[name])
        assert sent[name].others > 500_000, (name, sent[name])
    # Its packets have the program's own mark: only sockets of TCP are given another.
    assert sent["udp"].bands[2] > 500_000, sent["udp"]
    assert sum(sent["udp"].bands[:2]) < A_LITTLE, sent["udp"]
