"""A real ProFTPD that sends a file, with one control or with the service's advice [EN §5.5].

As in the thesis, random loss limits TCP to the trace of a day.  On a *busy* path, other traffic
takes the rest of the link instead.  With advice, the service runs beside the server, with a history
of past days; the guest's clock shows the time of the test.  The service also gets reports during
the transfer: the trace's records, or on a busy path imtcp's own measurements by ``imtcp-agent``.

The laboratory's time runs :data:`TIMES_FASTER` times faster: trace, history and file.  Its rates
are :data:`TIMES_SLOWER` times lower: link, trace, file and socket buffers.  So a run needs fewer
packets, and round trips stay as they are.

The job leaves these files:

``ftp.csv``     bytes, seconds
``advice.csv``  off, again_s: one row per answer of the service
``bulk.csv``    with other flows
``udp.csv``     on a busy path
"""

from __future__ import annotations

import csv
import io
from dataclasses import dataclass
from datetime import datetime, timedelta

from imtcp_lab import day, loss_schedule, scenario
from imtcp_lab.ftp_path import (
    CLIENT,
    FTP_RTT_MS,
    LINK_BPS,
    LOSSY_DEVICE,
    NETEM,
    OTHER_RECEIVER,
    SERVER,
    TIMES_SLOWER,
)
from imtcp_lab.job import Job
from imtcp_lab.network import COUNTERS
from imtcp_lab.scenario import SETUP_LIMIT_S, Scenario
from imtcp_lab.topology import PAYLOAD_BYTES
from imtcp_lab.traffic import BULK_PORT, UDP_PORT, greedy_receiver, program

TIMES_FASTER = 20
#: The thesis's file of 16 GB; its rates and times give 16.4e9 bytes.
FILE_BYTES = round(16.4e9) // (TIMES_FASTER * TIMES_SLOWER)
#: Longer than the longest transfer of the thesis, 3 h 7 min.
LONGEST = timedelta(hours=4)
#: Four weeks of past days, so that each weekday comes four times.
PAST_DAYS = 28
#: In the thesis's time: how much of each day before the test is in the history, and settings of the
#: service.
BEFORE, HORIZON_S, FRESH_S = timedelta(hours=1), 3600, 600
#: Ours, because the thesis gives none: with it the service is asked about as often as in table 4.
EPSILON = "2%"

#: Controls that advice may choose: the thesis's, and ours where the service has measurements.
THESIS_CONTROLS = "off imtcp_nocc bg default"
OUR_CONTROLS = "off imtcp_fs bg imtcp_bg unknown default"


@dataclass(frozen=True)
class FtpScenario(Scenario):
    """A transfer at a time of day, with one congestion control or with the service's advice."""

    #: [EN §5.5.1]: at least this share of the line is in use.
    least_used_pct: int = 45
    hour: int = 7
    minute: int = 25
    #: The service's history set; empty: without advice.
    history: str = ""
    #: Greedy flows of other hosts beside the transfer.
    flows: int = 0
    #: The path is congested below this rate, in the thesis's rates; None: the thesis's threshold.
    threshold_mbps: float | None = None
    #: Other traffic takes what the trace does not leave; otherwise random loss limits the transfer.
    busy: bool = False

    @property
    def key(self) -> str:
        """The name of the point within its experiment.

        With advice, `control` is the control that the answer *off* selects.
        """
        return f"{self.variant}-s{self.seed}"

    @property
    def at(self) -> datetime:
        """The time at which the transfer begins."""
        return day.at(self.hour, self.minute)

    @property
    def leaves(self) -> tuple[str, ...]:
        """The tables of the transfer and of the other traffic."""
        left = {
            "ftp": not self.control.is_none,
            "advice": bool(self.history),
            "bulk": self.flows > 0,
            "udp": self.busy,
        }
        return tuple(name for name, is_left in left.items() if is_left)

    def trace(self) -> loss_schedule.Trace:
        """The trace of the past days and of this one."""
        first = day.at(0, 0) - timedelta(days=PAST_DAYS)
        return day.trace(first, PAST_DAYS + 2, self.least_used_pct, self.seed)

    def today(self) -> loss_schedule.Trace:
        """The part of the trace that the transfer may meet, in the laboratory's rates."""
        met = around(self.trace(), self.at, timedelta(0))
        return [(at, bps / TIMES_SLOWER) for at, bps in met]

    def job(self) -> Job:
        """The job, with the script, the history and the losses."""
        losses = loss_schedule.schedule(self.today(), FTP_RTT_MS / 1e3, PAYLOAD_BYTES, TIMES_FASTER)
        none = "true\n" if self.busy else ""
        files = {
            "losses.sh": (none or loss_schedule.script(losses, LOSSY_DEVICE, NETEM)).encode(),
            "proftpd.conf": _PROFTPD.encode(),
        }
        if self.history:
            files["history.csv"] = history(self.trace(), self.at)
            files["token"] = _TOKEN.encode()
            files["reports.sh"] = self.reports().encode()
        return Job(
            script=self.script(),
            files=files,
            warmup=scenario.loading(self.control),
            seed=self.seed,
            limit_virtual_s=SETUP_LIMIT_S + LONGEST.total_seconds() / TIMES_FASTER,
        )

    def reports(self) -> str:
        """POSIX sh that reports the trace to the service; its argument is the run's $T0."""
        told = []
        for at, bps in self.today()[1:]:
            passed = (at - self.at) / TIMES_FASTER
            us = round(passed.total_seconds() * 1e6)
            told.append(f"tell {us} {(self.at + passed).isoformat()} {bps:.0f}")
        return "\n".join((_TELL, *told, ""))

    def script(self) -> str:
        """A POSIX sh script for the whole transfer."""
        parts = [self.path.script(), scenario.PROCESSES, "code=0", scenario.ALLOW_ALL_CONTROLS]
        if self.history:
            mbps = self.threshold_mbps or day.THRESHOLD_MBPS[self.least_used_pct]
            threshold_bps = mbps * 1e6 / TIMES_SLOWER
            # The import refuses records from the future, so the clock shows the test's time first.
            parts.append(_set_clock(self.at))
            parts.append(_HISTORY.format(history=self.history, threshold_bps=threshold_bps))
        # The service starts 30 s before the test: past records are older, today's are newer.
        parts.append(_set_clock(self.at - timedelta(seconds=30)))
        if self.history:
            parts.append(_SERVICE)
        if self.history and self.busy:
            parts.append(_AGENT)
        if not self.control.is_none:
            ordinary = "cubic" if self.busy else "reno"
            own = ordinary if self.history else self.control.congestion_control
            means = OUR_CONTROLS if self.busy else THESIS_CONTROLS
            engine = "on" if self.history else "off"
            parts.append(_SERVER.format(own=own, engine=engine, means=means))
        if self.flows:
            parts.append(greedy_receiver("rx", f"{OTHER_RECEIVER}:{BULK_PORT}", "bulk.csv"))
        if self.busy:
            parts.append(
                f"{program('rx')} imtcp-load udp-sink --listen {OTHER_RECEIVER}:{UDP_PORT}"
                ' --wake 200us --out "$OUT/udp.csv" & STOP="$STOP $!"'
            )
        parts += ["sleep 2", _set_clock(self.at - timedelta(microseconds=scenario.LEAD_US))]
        parts.append(scenario.CLOCK)
        if self.flows:
            parts.append(
                f"ns oth imtcp-load bulk-client --to {OTHER_RECEIVER}:{BULK_PORT} --cc reno"
                f' --flows {self.flows} --at-us $T0 --duration 0 & STOP="$STOP $!"'
            )
        if self.busy:
            parts.append(self._others())
        elif self.history:
            parts.append('ns srv dash "$PWD/reports.sh" "$T0" >&2 & STOP="$STOP $!"')
        alone = f"imtcp-load sleep-until $((T0 + {self.times.total_s * 1e6:.0f}))"
        most_s = self.times.total_s if self.busy else 0
        parts.append(alone if self.control.is_none else _TRANSFER.format(most_s=most_s))
        if self.history:
            parts.append(_WAS_ADVISED)
        return "\n".join((*parts, _END))

    def _others(self) -> str:
        start = self.at
        steps = ",".join(
            f"{(at - start).total_seconds() / TIMES_FASTER:g}:{max(0.0, LINK_BPS - bps):.0f}"
            for at, bps in self.today()
        )
        return (
            f"ns oth imtcp-load udp --to {OTHER_RECEIVER}:{UDP_PORT} --schedule {steps} --poisson"
            f' --seed {self.seed} --at-us $T0 --duration {self.times.total_s:g} & STOP="$STOP $!"'
        )


def around(
    trace: loss_schedule.Trace, moment: datetime, before: timedelta = BEFORE
) -> loss_schedule.Trace:
    """The part of a trace that a transfer may meet. Its first record holds at the start."""
    start, end = moment - before, moment + LONGEST
    inside = [(at, bps) for at, bps in trace if start < at <= end]
    earlier = [bps for at, bps in trace if at <= start]
    return [(start, earlier[-1]), *inside] if earlier else inside


def history(trace: loss_schedule.Trace, moment: datetime) -> bytes:
    """The history as CSV for ``imtcp-advice import``.

    It has the hours around the time of the test of each past day, and of the test's day those
    before. Time runs as fast as in the transfer.
    """
    out = io.StringIO()
    rows = csv.writer(out, lineterminator="\n")
    rows.writerow(("time", "available_bps"))
    for back in range(PAST_DAYS, -1, -1):
        then = moment - timedelta(days=back)
        for at, bps in around(trace, then):
            if at > moment:
                break
            when = then + (at - then) / TIMES_FASTER
            rows.writerow((when.isoformat(), round(bps / TIMES_SLOWER)))
    return out.getvalue().encode()


def _set_clock(at: datetime) -> str:
    return f"date -u -s @{at.timestamp():.0f} >/dev/null"


_HISTORY = f"""\
chmod 600 token
imtcp-advice import --db history.db --path {CLIENT} history.csv >&2
imtcp-advice set --db history.db history={{history}} threshold={{threshold_bps:.0f}} \\
  epsilon={EPSILON} horizon_s={HORIZON_S // TIMES_FASTER} freshness_s={FRESH_S // TIMES_FASTER} >&2
"""

_SERVICE = """\
ns srv imtcp-advice serve --db history.db --no-ping --token-file token >&2 & STOP="$STOP $!"
"""

_TELL = f"""\
tell() {{
  imtcp-load sleep-until $((T0 + $1))
  curl -sSf -o /dev/null -H "Authorization: Bearer $(cat token)" \\
    -d "{{\\"batch\\": \\"$2\\", \\"records\\": [{{\\"dst\\": \\"{CLIENT}\\",
        \\"time\\": \\"$2\\", \\"available_bps\\": $3}}]}}" http://127.0.0.1:8750/v1/reports
}}
T0=$1"""
#: Clients of the service must know it.
_TOKEN = "of-this-run-alone-and-no-secret\n"
_AGENT = """\
ns srv imtcp-agent feed --token-file token --spool spool --every 0 --interval 1 >&2 &
STOP="$STOP $!"
"""

_SERVER = f"""\
if [ -z "${{{{IMTCP_FTP_MODULE:-}}}}" ]; then
  echo "mod_imtcp.so is missing: make proftpd" >&2; exit 1
fi
mkdir files
chmod 755 . files
truncate -s {FILE_BYTES} files/file
ns srv sh -c 'echo {{own}} >/proc/sys/net/ipv4/tcp_congestion_control'
sed -i -e "s|@PWD@|$PWD|" -e "s|@MODULES@|$(dirname "$IMTCP_FTP_MODULE")|" \\
  -e 's|@ENGINE@|{{engine}}|' -e 's|@MEANS@|{{means}}|' proftpd.conf
ns srv proftpd -n -q -c "$PWD/proftpd.conf" >&2 & STOP="$STOP $!"
"""

_PROFTPD = f"""\
ServerType standalone
DefaultAddress {SERVER}
Port 21
UseIPv6 off
User nobody
Group nogroup
PidFile @PWD@/proftpd.pid
ScoreboardFile none
SystemLog none
TransferLog none
WtmpLog off
UseReverseDNS off
RequireValidShell off
UseFtpUsers off
ModulePath @MODULES@
LoadModule mod_imtcp.c
ImtcpEngine @ENGINE@
ImtcpControls @MEANS@
ImtcpTimeout 5000
ImtcpLog @PWD@/imtcp.log
<Anonymous @PWD@/files>
  User nobody
  Group nogroup
  UserAlias anonymous nobody
</Anonymous>
"""

_TRANSFER = f"""\
imtcp-load sleep-until $T0
# Not by sh: where that is busybox's, it has a tc of its own, which knows no netem.
ns wan dash "$PWD/losses.sh" & STOP="$STOP $!"
echo bytes,seconds >"$OUT/ftp.csv"
ns rx curl -sS --interface {CLIENT} --max-time {{most_s:g}} -o /dev/null \\
  -w '%{{{{size_download}}}},%{{{{time_total}}}}\\n' ftp://{SERVER}/file >>"$OUT/ftp.csv" || code=$?
# 28: the time that it was given is over.
[ $code != 28 ] || code=0
cat imtcp.log >&2
echo off,again_s >"$OUT/advice.csv"
again='asking again in \\([0-9]*\\) s'
sed -n -e "s/.*: congestion control off, for .*$again.*/1,\\1/p" \\
  -e "s/.*: \\(bg\\|measure\\|path unknown\\), for .*$again.*/0,\\2/p" imtcp.log >>"$OUT/advice.csv"
"""

_WAS_ADVISED = """\
[ "$(wc -l <"$OUT/advice.csv")" -gt 1 ] || { echo "no advice was given" >&2; code=1; }"""

_END = f"""\
for pid in $STOP; do kill "$pid" 2>/dev/null || true; done
for pid in $STOP; do wait "$pid" || true; done
{COUNTERS}exit $code
"""
