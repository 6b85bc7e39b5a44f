"""A real ProFTPD that sends a file over a path that loses what a trace says [EN §5.2, §5.5].

::

    srv 10.1.0.2 ── wan ──┐
                          rt ══ link ══ rx 10.9.0.2 client, .3 receiver of other flows
    oth 10.2.0.2 ─────────┘

The losses are in ``wan``, behind the server alone, as in the thesis's 6-host configuration; delays
on the receivers' way back.  With advice, the service runs beside the server, with a history of past
days and the records of this one up to now: the guest's clock is that of the test.

Half an hour of the thesis's is a minute and a half here: time runs :data:`TIMES_FASTER` times
faster (trace, history, file), and rates are :data:`TIMES_SLOWER` times lower (link, trace, file,
socket buffers), which needs fewer packets and keeps round trips as they are.

The job leaves ``ftp.csv`` {bytes, seconds}, ``advice.csv`` {off, again_s} with a row per answer,
and with other flows ``bulk.csv``.
"""

from __future__ import annotations

import csv
import io
from dataclasses import dataclass
from datetime import datetime, timedelta

from imtcp_lab import day, loss_schedule, scenario
from imtcp_lab.job import Job
from imtcp_lab.network import (
    batch,
    delays_by_source,
    frame_burst_bytes,
    host_settings,
    prelude,
    shaper,
)
from imtcp_lab.queues import DROPTAIL, discipline
from imtcp_lab.scenario import SETUP_LIMIT_S, Scenario
from imtcp_lab.topology import PAYLOAD_BYTES, bdp_pkts
from imtcp_lab.traffic import BULK_PORT, greedy_receiver

TIMES_FASTER, TIMES_SLOWER = 20, 5
#: [EN §5.2.2]: 100 Mbit/s Ethernet; [EN tables 2 and 11]: delays and buffers.
LINK_BPS = 100e6 / TIMES_SLOWER
FTP_RTT_MS, OTHER_RTT_MS = 50.0, 10.0
FTP_BUFFER_BYTES, OTHER_BUFFER_BYTES = (1 << 20) // TIMES_SLOWER, (128 << 10) // TIMES_SLOWER
#: 16 GB as the thesis counts them: its 45.68 Mbit/s for 47:48 minutes are 16.4e9 bytes.
FILE_BYTES = round(16.4e9) // (TIMES_FASTER * TIMES_SLOWER)
#: The longest of its transfers takes 3 h 7 min.
LONGEST = timedelta(hours=4)
#: Past days: four weeks, so that the same weekday comes four times.
PAST_DAYS = 28
#: What the history holds of each day before the time of the test, and the service's settings; all
#: in the thesis's time.
BEFORE, HORIZON_S, FRESH_S = timedelta(hours=1), 3600, 600
#: Ours, for the thesis does not tell its own: asks about as often as its table 4.
EPSILON = "2%"

SERVER, OTHER_SENDER, CLIENT, OTHER_RECEIVER = "10.1.0.2", "10.2.0.2", "10.9.0.2", "10.9.0.3"


@dataclass(frozen=True)
class FtpPath:
    """The link and the ways to it."""

    capacity_bps: float = LINK_BPS
    #: Ours: two round trips of the server's, where a window of all its buffer does not overflow it.
    buffer_pkts: int = round(2 * bdp_pkts(LINK_BPS, FTP_RTT_MS / 1e3))

    def script(self) -> str:
        """POSIX sh that builds it; defines ``ns NAME COMMAND…``."""
        hosts = ("srv", "oth", "rx")
        queue = discipline(DROPTAIL, self.buffer_pkts, self.capacity_bps)
        link = [
            shaper("rt-rx", self.capacity_bps, frame_burst_bytes(self.capacity_bps)),
            f"qdisc add dev rt-rx parent 1:1 handle 10: {queue}",
        ]
        return "\n".join(
            (
                prelude((*hosts, "wan", "rt")),
                _LINKS,
                host_settings(hosts),
                _buffers("rx", "tcp_rmem", FTP_BUFFER_BYTES),
                _buffers("oth", "tcp_wmem", OTHER_BUFFER_BYTES),
                batch("rt", link),
                batch("wan", [f"qdisc add dev wan-rt root netem {NETEM}"]),
                delays_by_source("rx", "rx0", {CLIENT: FTP_RTT_MS, OTHER_RECEIVER: OTHER_RTT_MS}),
                "",
            )
        )


#: More than a whole window of the server's can wait where it is not delayed.
NETEM = "limit 1000"


@dataclass(frozen=True)
class FtpScenario(Scenario):
    """A transfer at a time of day: with one congestion control, or with the service's advice."""

    #: [EN §5.5.1]: at least so much of the line is used.
    least_used_pct: int = 45
    hour: int = 7
    minute: int = 25
    #: The service's history set; empty: nobody asks it.
    history: str = ""
    #: Greedy flows of others beside it.
    flows: int = 0

    @property
    def key(self) -> str:
        """Names the point within its experiment; with advice the control is *off*'s."""
        return f"{self.variant}-s{self.seed}"

    @property
    def at(self) -> datetime:
        """When the transfer begins."""
        return day.at(self.hour, self.minute)

    def trace(self) -> day.Trace:
        """The past days and this one."""
        first = day.at(0, 0) - timedelta(days=PAST_DAYS)
        return day.trace(first, PAST_DAYS + 2, self.least_used_pct, self.seed)

    def job(self) -> Job:
        """The scenario's script with its history and its losses."""
        today = around(self.trace(), self.at, timedelta(0))
        losses = loss_schedule.schedule(
            [(at, bps / TIMES_SLOWER) for at, bps in today],
            FTP_RTT_MS / 1e3, PAYLOAD_BYTES, TIMES_FASTER,
        )  # fmt: skip
        return Job(
            script=self.script(),
            files={
                "history.csv": history(self.trace(), self.at),
                "losses.sh": loss_schedule.script(losses, "wan-rt", NETEM).encode(),
                "proftpd.conf": _PROFTPD.encode(),
            },
            warmup=scenario.loading(self.control),
            seed=self.seed,
            limit_virtual_s=SETUP_LIMIT_S + LONGEST.total_seconds() / TIMES_FASTER,
        )

    def script(self) -> str:
        """POSIX sh for the whole transfer."""
        parts = [self.path.script(), scenario.PROCESSES, "code=0", scenario.ALLOW_ALL_CONTROLS]
        # Past days' records are to be older than the service's start, today's may come.
        parts.append(_set_clock(self.at - timedelta(seconds=30)))
        if self.history:
            threshold_bps = day.THRESHOLD_MBPS[self.least_used_pct] * 1e6 / TIMES_SLOWER
            parts.append(_SERVICE.format(history=self.history, threshold_bps=threshold_bps))
        if not self.control.is_none:
            own = "reno" if self.history else self.control.congestion_control
            parts.append(_SERVER.format(own=own, engine="on" if self.history else "off"))
        if self.flows:
            parts.append(greedy_receiver("rx", f"{OTHER_RECEIVER}:{BULK_PORT}", "bulk.csv"))
        parts += ["sleep 2", _set_clock(self.at - timedelta(microseconds=scenario.LEAD_US))]
        parts.append(scenario.CLOCK)
        if self.flows:
            parts.append(
                f"ns oth imtcp-load bulk-client --to {OTHER_RECEIVER}:{BULK_PORT} --cc reno"
                f' --flows {self.flows} --at-us $T0 --duration 0 & STOP="$STOP $!"'
            )
        alone = f"imtcp-load sleep-until $((T0 + {self.times.total_s * 1e6:.0f}))"
        parts += [alone if self.control.is_none else _TRANSFER, _END]
        return "\n".join((*parts, ""))


def around(trace: day.Trace, moment: datetime, before: timedelta = BEFORE) -> day.Trace:
    """The part of a trace that a transfer from a moment on may meet; it begins with a record that
    holds at its start."""
    start, end = moment - before, moment + LONGEST
    inside = [(at, bps) for at, bps in trace if start < at <= end]
    earlier = [bps for at, bps in trace if at <= start]
    return [(start, earlier[-1]), *inside] if earlier else inside


def history(trace: day.Trace, moment: datetime) -> bytes:
    """CSV for ``imtcp advice import``: of each day what lies around the time of the test, as much
    faster as the transfer is."""
    out = io.StringIO()
    rows = csv.writer(out, lineterminator="\n")
    rows.writerow(("time", "available_bps"))
    for back in range(PAST_DAYS, -1, -1):
        then = moment - timedelta(days=back)
        for at, bps in around(trace, then):
            when = then + (at - then) / TIMES_FASTER
            rows.writerow((when.isoformat(), round(bps / TIMES_SLOWER)))
    return out.getvalue().encode()


def _set_clock(at: datetime) -> str:
    return f"date -u -s @{at.timestamp():.0f} >/dev/null"


def _buffers(namespace: str, which: str, buffer_bytes: int) -> str:
    """Those of programs that ask for so much: the kernel doubles it, and half of a receiver's is
    its window."""
    size = 2 * buffer_bytes
    return f"ns {namespace} sh -c 'echo \"4096 {size} {size}\" >/proc/sys/net/ipv4/{which}'"


_LINKS = """\
ip -batch - <<'EOF'
link add srv0 netns srv type veth peer name wan-srv netns wan
link add wan-rt netns wan type veth peer name rt-wan netns rt
link add oth0 netns oth type veth peer name rt-oth netns rt
link add rx0 netns rx type veth peer name rt-rx netns rt
EOF
ip -n srv -batch - <<'EOF'
link set lo up
addr add 10.1.0.2/24 dev srv0
link set srv0 up
route add default via 10.1.0.1
EOF
ip -n wan -batch - <<'EOF'
addr add 10.1.0.1/24 dev wan-srv
addr add 10.3.0.2/24 dev wan-rt
link set wan-srv up
link set wan-rt up
route add default via 10.3.0.1
EOF
ip -n oth -batch - <<'EOF'
link set lo up
addr add 10.2.0.2/24 dev oth0
link set oth0 up
route add default via 10.2.0.1
EOF
ip -n rt -batch - <<'EOF'
addr add 10.3.0.1/24 dev rt-wan
addr add 10.2.0.1/24 dev rt-oth
addr add 10.9.0.1/24 dev rt-rx
link set rt-wan up
link set rt-oth up
link set rt-rx up
route add 10.1.0.0/24 via 10.3.0.2
EOF
ip -n rx -batch - <<'EOF'
link set lo up
addr add 10.9.0.2/24 dev rx0
addr add 10.9.0.3/24 dev rx0
link set rx0 up
route add default via 10.9.0.1
EOF
ns srv ethtool -K srv0 tso off gso on gro off >/dev/null
ns oth ethtool -K oth0 tso off gso on gro off >/dev/null
ns rx ethtool -K rx0 tso off gso on gro off >/dev/null
for n in wan rt; do ns $n sh -c 'echo 1 >/proc/sys/net/ipv4/ip_forward'; done"""

_SERVICE = f"""\
imtcp advice import --db history.db --path {CLIENT} history.csv >&2
imtcp advice set --db history.db history={{history}} threshold={{threshold_bps:.0f}} \\
  epsilon={EPSILON} horizon_s={HORIZON_S // TIMES_FASTER} freshness_s={FRESH_S // TIMES_FASTER} >&2
ns srv imtcp advice serve --db history.db --no-ping >&2 & STOP="$STOP $!"
"""

_SERVER = f"""\
mkdir files
chmod 755 . files
truncate -s {FILE_BYTES} files/file
ns srv sh -c 'echo {{own}} >/proc/sys/net/ipv4/tcp_congestion_control'
sed -i -e "s|@PWD@|$PWD|" -e "s|@MODULES@|$(dirname "$IMTCP_FTP_MODULE")|" \\
  -e 's|@ENGINE@|{{engine}}|' proftpd.conf
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
ImtcpControls off imtcp_nocc bg default measure default
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
ns rx curl -sS --interface {CLIENT} -o /dev/null \\
  -w '%{{size_download}},%{{time_total}}\\n' ftp://{SERVER}/file >>"$OUT/ftp.csv" || code=$?
cat imtcp.log >&2
echo off,again_s >"$OUT/advice.csv"
again='asking again in \\([0-9]*\\) s'
sed -n -e "s/.*: congestion control off, for .*$again.*/1,\\1/p" \\
  -e "s/.*: \\(bg\\|measure\\), for .*$again.*/0,\\2/p" imtcp.log >>"$OUT/advice.csv"
"""

_END = """\
for pid in $STOP; do kill "$pid" 2>/dev/null || true; done
for pid in $STOP; do wait "$pid" || true; done
exit $code
"""
