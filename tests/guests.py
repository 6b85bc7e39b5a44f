"""Guests for end-to-end tests: a path of three namespaces, and readers of what comes back.

::

    tx 10.1.0.2 ── mid ══ forward ══▶ rx 10.2.0.2
                       ◀══ back ═══

The sender's device splits large segments as a network card does, so the path
sees packets of the MTU.
"""

from __future__ import annotations

import csv
import io
import json
import os
import shutil
import subprocess
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from math import comb
from pathlib import Path
from typing import Any

import pytest

from imtcp_lab import scenario, vm
from imtcp_lab.job import Job, JobResult
from vm_guests import runner

ROOT = Path(__file__).resolve().parent.parent
IMTCP = ROOT / "target" / "release" / "imtcp"
RECEIVER = "10.2.0.2"
#: The number of this sample of the tests: no two samples have guests with the same seed.
SAMPLE = int(os.environ.get("IMTCP_TEST_SEED", "0"))
SEEDS_OF_A_SAMPLE = 100

Row = dict[str, str]

#: Loads imtcp.  A script that begins with it starts from a guest in which that was done.
UP = scenario.UP

_PRELUDE = """\
set -eu
ns() { _ns=$1; shift; nsenter --net=/var/run/netns/"$_ns" "$@"; }
# listening NS PORT: wait for a server there
listening() {
	until ns "$1" ss -Hltn "sport = :$2" | grep -q .; do sleep 0.01; done
}
"""


@cache
def wire() -> bytes:
    """The program at both ends of a test's connections (guest/wire.c), static."""
    compiler = shutil.which(os.environ.get("CC", "cc"))
    if compiler is None:
        pytest.fail("no C compiler: apt-get install gcc libc6-dev")
    program = ROOT / "target" / "tests" / f"wire.{os.getpid()}"
    program.parent.mkdir(parents=True, exist_ok=True)
    flags = ["-std=gnu11", "-O2", "-Wall", "-Wextra", "-Werror", "-static", "-s"]
    source = ROOT / "tests" / "guest" / "wire.c"
    try:
        subprocess.run([compiler, *flags, "-o", program, source], check=True)
        return program.read_bytes()
    finally:
        program.unlink(missing_ok=True)


def run(
    script: str,
    kernel: str = vm.FAST,
    seed: int = 1,
    files: Mapping[str, bytes] | None = None,
    limit_s: float = 300,
) -> JobResult:
    """Run `script` in a guest with ``./wire`` and ``$OUT``; it must succeed.

    Fast guests show the behaviour of paths.  Stock kernels show what a verifier accepts.
    """
    job = Job(
        _PRELUDE + script.removeprefix(UP),
        {"wire": wire(), **(files or {})},
        warmup=UP if script.startswith(UP) else "",
        seed=seed + SEEDS_OF_A_SAMPLE * SAMPLE,
        limit_virtual_s=limit_s,
    )
    return runner(kernel).run(job).check()


@dataclass(frozen=True)
class Path3:
    """A path; with names of its own, several fit into one guest."""

    #: Arguments of netem, on the way to the receiver and on the way back.
    forward: str = "rate 50mbit limit 200"
    back: str = "delay 30ms limit 10000"
    #: Another queueing discipline in the place of forward's netem.
    shaper: str = ""
    #: Generic receive offload at the receiver.
    gro: bool = False
    #: An ACK for every packet.
    quickack: bool = False
    #: Distinguishes the namespaces of several paths in one guest.
    name: str = ""

    @property
    def tx(self) -> str:
        return f"tx{self.name}"

    @property
    def rx(self) -> str:
        return f"rx{self.name}"

    @property
    def mid(self) -> str:
        return f"mid{self.name}"

    def script(self) -> str:
        """POSIX sh that builds it."""
        tx, mid, rx = self.tx, self.mid, self.rx
        return f"""\
for n in {tx} {mid} {rx}; do ip netns add $n; ip -n $n link set lo up; done
ip -n {mid} link add m1 type veth peer name t0 netns {tx}
ip -n {mid} link add m2 type veth peer name r0 netns {rx}
ip -n {tx} addr add 10.1.0.2/24 dev t0
ip -n {rx} addr add 10.2.0.2/24 dev r0
ip -n {mid} addr add 10.1.0.1/24 dev m1
ip -n {mid} addr add 10.2.0.1/24 dev m2
ip -n {tx} link set t0 up
ip -n {rx} link set r0 up
ip -n {mid} link set m1 up
ip -n {mid} link set m2 up
ip -n {tx} route add default via 10.1.0.1
ip -n {rx} route add default via 10.2.0.1{" quickack 1" if self.quickack else ""}
ns {mid} sh -c 'echo 1 >/proc/sys/net/ipv4/ip_forward'
ns {tx} ethtool -K t0 tso off gso on gro off >/dev/null
ns {rx} ethtool -K r0 tso off gso on gro {"on" if self.gro else "off"} >/dev/null
for n in {tx} {rx}; do
	ns $n sh -c 'cd /proc/sys/net/ipv4
		echo "4096 131072 16777216" >tcp_rmem
		echo "4096 65536 16777216" >tcp_wmem
		echo 1 >tcp_no_metrics_save'
done
tc -n {mid} qdisc add dev m2 root {self.shaper or f"netem {self.forward}"}
tc -n {rx} qdisc add dev r0 root netem {self.back}
"""

    def capture(self, name: str) -> str:
        """Records the sender's packets from here until ``kill $CAPTURE; wait $CAPTURE``."""
        # Not through ns: the process to be told of the end is the program itself.
        return (
            f'nsenter --net=/var/run/netns/{self.tx} ./wire capture t0 "$OUT/{name}" & CAPTURE=$!\n'
        )

    def transfer(
        self,
        control: str,
        steps: str,
        label: str = "",
        port: int = 5000,
        send: str = "",
        recv: str = "",
    ) -> str:
        """One connection that writes by `steps`, to its end; results in files by `label`."""
        label = label or control
        return (
            f'ns {self.rx} ./wire recv {recv} {port} "$OUT/{label}.recv" & RECV=$!\n'
            f"listening {self.rx} {port}\n"
            f"ns {self.tx} ./wire send -c {control} {send} {RECEIVER} {port}"
            f' "$OUT/{label}.send" {steps}\nwait $RECV\n'
        )


def rows(result: JobResult, name: str) -> list[Row]:
    """A CSV that the guest left."""
    return list(csv.DictReader(io.StringIO(result.files[name].decode())))


def lines(result: JobResult, name: str) -> list[dict[str, Any]]:
    """Objects that ``imtcp watch --json`` printed; the last one may be cut off."""
    found = []
    for line in result.files[name].decode().splitlines():
        try:
            found.append(json.loads(line))
        except json.JSONDecodeError:
            break
    return found


@dataclass(frozen=True)
class Transfer:
    """Both ends of one connection."""

    sent: list[Row]
    received: list[Row]

    @classmethod
    def of(cls, result: JobResult, label: str) -> Transfer:
        return cls(rows(result, f"{label}.send"), rows(result, f"{label}.recv"))

    @property
    def start_us(self) -> int:
        return int(self.sent[0]["t_us"])

    @property
    def end_us(self) -> int:
        """When the receiver had everything."""
        return int(self._received("end")["t_us"])

    @property
    def seconds(self) -> float:
        return (self.end_us - self.start_us) / 1e6

    @property
    def bps(self) -> float:
        return int(self._received("end")["bytes"]) * 8 / self.seconds

    @property
    def intact(self) -> bool:
        """Every byte that was written arrived as it was."""
        end = self._received("end")
        return end["right"] == "1" and end["bytes"] == self.sent[-1]["written"]

    def step_s(self, index: int) -> float:
        """How long step `index` (0 is the connection's setup) took."""
        steps = [row for row in self.sent if row["step"] not in ("sample", "block")]
        return (int(steps[index]["t_us"]) - int(steps[index - 1]["t_us"])) / 1e6

    def _received(self, what: str) -> Row:
        return next(row for row in self.received if row["what"] == what)


#: A test of what has chance in it may fail so often where nothing is wrong.
BY_ACCIDENT = 1e-4
#: Guests of an ensemble of measurements.
SEEDS = range(1, 4)
#: A valid result is at most so many times what the path carries: above, it is wrong.
ERROR = 1.15
#: At most one valid result in fifty is wrong.  Few transfers behind a token bucket have one
#: (lab/results/test-seeds.md).
WRONG = 0.02


def assert_seldom_wrong(valid_bps: list[int], carried_bps: float) -> None:
    """So many wrong results among these are compatible with the rate :data:`WRONG`.

    This fails by accident once in ten thousand times at most: :data:`BY_ACCIDENT`.
    """
    wrong, of = [bps for bps in valid_bps if bps > carried_bps * ERROR], len(valid_bps)
    fewer = sum(comb(of, n) * WRONG**n * (1 - WRONG) ** (of - n) for n in range(len(wrong)))
    assert 1 - fewer >= BY_ACCIDENT, (of, wrong)


def valid_bps(results: Iterable[JobResult], control: str, least_events: int) -> list[int]:
    """The valid results in order of size; each guest has so many events."""
    events = []
    for result in results:
        of_one = [e for e in lines(result, f"{control}.events") if "outcome" in e]
        assert len(of_one) >= least_events, (control, len(of_one))
        events += of_one
    return sorted(e["avail_bps"] for e in events if e["outcome"] == "valid")


def percentile(values: Iterable[float], pct: float) -> float:
    """The nearest rank."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, round(pct / 100 * (len(ordered) - 1)))]
