"""One measurement as a declaration: path, traffic, control, times and seed make a job.

The job leaves these results:

``t0``            start of the clock, CLOCK_MONOTONIC µs; all other times count from it
``queue.csv``     the bottleneck's queueing disciplines, every 10 ms
``tcp.csv``       the background's connections at their receiver, every 100 ms
``web.csv``       one row per web object (with :class:`~imtcp_lab.traffic.Web`)
``bulk.csv``, ``rival.csv``, ``back.csv``, ``udp.csv``  bytes per flow and interval
``watch.jsonl``   output of ``imtcp watch --json``, if imtcp was loaded
``uptime``        time and idle time at both ends of the window (``count_idle``)
``programs0``, ``programs1``  run counts of each BPF program before and after it (``count_idle``)
``segments.csv``  segments that reached each end of the background's connection (``trace_segments``)
``events.jsonl``  each measurement of imtcp (``imtcp watch --events --json``)
``connections.jsonl``  imtcp's connections once after the window, with parameters in force
``netstat``       the kernel's TCP counters of each host
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any

from imtcp_lab import segments
from imtcp_lab.controls import Control
from imtcp_lab.job import Job
from imtcp_lab.metrics import Window
from imtcp_lab.network import COUNTERS
from imtcp_lab.topology import BACKGROUND_SENDER, BOTTLENECK_DEVICE, Dumbbell
from imtcp_lab.traffic import Background, Foreground, Times

#: The verifier takes seconds of virtual time, and many seconds of real time.
UP = "imtcp up >&2\n"
#: The same, also with the mode that imtcp loads only on request.
UP_WITH_NOCC = "imtcp up --allow-nocc >&2\n"
#: Time for the guest to start every process before the clock starts.
LEAD_US = 1_000_000
DEFAULT_TIMES = Times()
#: bpftool runs this long before the window, so that its own work does not count.
PROGRAMS_LEAD_US = 1_000_000
#: Virtual seconds allowed beside the run itself (building, loading, files).
SETUP_LIMIT_S = 120


def loading(control: Control) -> str:
    """Commands that the guest runs first to load the control."""
    if not control.needs_imtcp:
        return ""
    return UP_WITH_NOCC if control.must_be_allowed else UP


@dataclass(frozen=True)
class Scenario:
    """Everything that decides the outcome, except the machine."""

    path: Dumbbell
    foreground: Foreground | None
    background: Background | None
    control: Control
    times: Times = DEFAULT_TIMES
    seed: int = 1
    #: Tells scenarios of one experiment apart, beside control and seed.
    variant: str = ""
    queue_every_ms: int = 10
    #: Interval of the connections' samples: the resolution of throughput over time.
    flows_every_ms: int = 100
    #: Interval of ``imtcp watch``; 0: it does not run.
    watch_every_ms: int = 250
    #: Leave ``uptime`` (/proc/uptime at both ends of the window) and ``programs``.
    count_idle: bool = False
    #: Leave ``segments.csv``: segments that reached each end of the background's connection.
    trace_segments: bool = False

    @property
    def window(self) -> Window:
        """The measured part of the run."""
        start_us = round(self.times.warmup_s * 1e6)
        return Window(start_us, start_us + round(self.times.measure_s * 1e6))

    @property
    def key(self) -> str:
        """The name of the point within its experiment."""
        parts = (self.variant, self.control.name, f"s{self.seed}")
        return "-".join(part for part in parts if part)

    @property
    def leaves(self) -> tuple[str, ...]:
        """Tables that a run must leave to be valid: a program that never ran would seem
        harmless."""
        theirs = self.foreground.leaves if self.foreground is not None else ()
        return (*theirs, "tcp") if self._has_background else theirs

    @property
    def _has_background(self) -> bool:
        return self.background is not None and not self.control.is_none

    def parameters(self) -> dict[str, Any]:
        """Plain data for the result's metadata."""
        data = dataclasses.asdict(self)
        for part in ("foreground", "background"):
            value = getattr(self, part)
            if value is not None:
                data[part] = _named(value, data[part])
        return data

    def job(self) -> Job:
        """The job; equal scenarios give equal jobs, byte for byte."""
        return Job(
            script=self.script(),
            warmup=loading(self.control),
            seed=self.seed,
            limit_virtual_s=SETUP_LIMIT_S + self.times.total_s,
        )

    def script(self) -> str:
        """A POSIX sh script for the whole measurement."""
        active = self.background if not self.control.is_none else None
        path = dataclasses.replace(
            self.path, priority=self.control.priority, paced=self.control.paced
        )
        parts = [path.script(), PROCESSES]
        parts.append(ALLOW_ALL_CONTROLS)
        if self.foreground is not None:
            parts.append(self.foreground.prepare(path))
        if active is not None:
            parts.append(active.prepare(path, self.control))
        if self.trace_segments:
            parts.append(segments.start())
        parts.append(CLOCK)
        if path.changes:
            parts.append(path.changing())
        parts.append(self._samplers(watch=active is not None and self.control.needs_imtcp))
        if self.foreground is not None:
            parts.append(self.foreground.start(path, self.times, self.seed))
        if active is not None:
            parts.append(active.start(path, self.control, self.times))
        if active is not None and self.control.needs_imtcp:
            parts.append(look_at_connections(self.times))
        parts.append(end(self.times, segments.keep() if self.trace_segments else ""))
        return "\n".join(parts)

    def _samplers(self, watch: bool) -> str:
        duration = f"--at-us $T0 --duration {self.times.total_s:g}"
        text = (
            f"ns rt imtcp-load qdisc-sample --dev {BOTTLENECK_DEVICE}"
            f' --every {self.queue_every_ms}ms {duration} --out "$OUT/queue.csv"'
            f' & WAIT="$WAIT $!"\n'
            f"ns rx imtcp-load tcp-sample --peer {BACKGROUND_SENDER}"
            f' --every {self.flows_every_ms}ms {duration} --out "$OUT/tcp.csv"'
            f' & WAIT="$WAIT $!"\n'
        )
        if self.count_idle:
            window = self.window
            text += _IDLE.format(
                before_us=max(0, window.start_us - PROGRAMS_LEAD_US),
                start_us=window.start_us,
                end_us=window.end_us,
            )
        if watch and self.watch_every_ms:
            interval_s = self.watch_every_ms / 1000
            text += (
                f"imtcp watch --json --interval {interval_s:g}"
                f' >"$OUT/watch.jsonl" & STOP="$STOP $!"\n'
                f'imtcp watch --events --json >"$OUT/events.jsonl" & STOP="$STOP $!"\n'
            )
        return text


def _named(value: object, data: dict[str, Any]) -> dict[str, Any]:
    """A part's fields and its kind, and the same for its own parts."""
    named = {"kind": type(value).__name__, **data}
    if "parts" in data:
        pairs = zip(getattr(value, "parts", ()), data["parts"], strict=True)
        named["parts"] = [_named(part, fields) for part, fields in pairs]
    return named


PROCESSES = """\
STOP="" WAIT="" UPLOAD=""
"""

# A namespace's default control must be on this list. On a real machine the list belongs to the
# administrator and is read-only here.
ALLOW_ALL_CONTROLS = """\
cat /proc/sys/net/ipv4/tcp_available_congestion_control \
2>/dev/null >/proc/sys/net/ipv4/tcp_allowed_congestion_control || true
"""

CLOCK = f"""\
T0=$(($(imtcp-load now) + {LEAD_US}))
echo $T0 >"$OUT/t0"
"""

# The second number of /proc/uptime is the time for which the guest's processor slept. One virtual
# nanosecond is one instruction, so the remainder is work, and equal in every run.
_IDLE = """\
( programs() {{ imtcp-load now; bpftool -j prog show || echo '[]'; }}
  STATS=/proc/sys/kernel/bpf_stats_enabled
  COUNTED=$(cat $STATS); echo 1 >$STATS
  imtcp-load sleep-until $((T0 + {before_us})); programs >"$OUT/programs0"
  imtcp-load sleep-until $((T0 + {start_us})); cat /proc/uptime >"$OUT/uptime"
  imtcp-load sleep-until $((T0 + {end_us})); cat /proc/uptime >>"$OUT/uptime"
  programs >"$OUT/programs1"; echo "$COUNTED" >$STATS
) & WAIT="$WAIT $!"
"""


def look_at_connections(times: Times) -> str:
    """Looks once at imtcp's connections, after the window and while all still send."""
    look_us = round((times.active_s + times.drain_s / 2) * 1e6)
    return (
        f"( imtcp-load sleep-until $((T0 + {look_us}))\n"
        '  imtcp watch --json --once --interval 0.1 >"$OUT/connections.jsonl" ) & WAIT="$WAIT $!"\n'
    )


def end(times: Times, then: str = "") -> str:
    """Waits for traffic that ends by itself and for the clock, then ends the rest and runs
    `then`."""
    return _END.replace("@TOTAL_US@", f"{times.total_s * 1e6:.0f}").replace("@THEN@\n", then)


_END = f"""\
code=0
for pid in $WAIT; do wait "$pid" || code=$?; done
# Nothing is left to run when the foreground ended early: keep to the clock.
imtcp-load sleep-until $((T0 + @TOTAL_US@))
for pid in $UPLOAD $STOP; do kill "$pid" 2>/dev/null || true; done
for pid in $STOP; do wait "$pid" || true; done
{COUNTERS}@THEN@
exit $code
"""
