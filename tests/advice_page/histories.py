"""Services with made histories."""

from __future__ import annotations

import math
import re
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

from built import ADVICE

ROOT = Path(__file__).resolve().parent.parent.parent

DST = "192.0.2.7"
#: A path of one record, and one of active tests alone.
SINGLE, TESTS_ALONE = "192.0.2.8", "192.0.2.9"
#: A path with hops: the near one has the least bandwidth, the far one is congested.
HOPS, NEAR, FAR = "192.0.2.20", "198.51.100.1", "198.51.100.9"
#: Congested; an IPv6 address, whose colons are escaped in URLs.
CONGESTED = "2001:db8::7"

#: Paths of the large history: more than a page can hold, or a list show.
MANY = 20_000

Row = dict[str, object]

COLUMNS = ["time", "dst", "hop", "source", "available_bps", "capacity_bps", "rtt_us", "loss",
           "throughput_bps"]  # fmt: skip


def bring(db: Path, rows: list[Row]) -> None:
    lines = [",".join(COLUMNS)]
    lines += [",".join(str(row.get(column, "")) for column in COLUMNS) for row in rows]
    command = [ADVICE, "import", "--db", db, "-"]
    subprocess.run(command, input="\n".join(lines), text=True, check=True)


@contextmanager
def service(db: Path, *options: str | Path, listen: str = "127.0.0.1:0") -> Iterator[str]:
    serve = [ADVICE, "serve", "--db", db, "--listen", listen, "--no-ping"]
    with subprocess.Popen([*serve, *options], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout
        try:
            yield re.search(r"http://\S+/", process.stdout.readline())[0]
        finally:
            process.terminate()


def minute(back: int = 0) -> datetime:
    return datetime.now(UTC).replace(second=0, microsecond=0) - timedelta(minutes=back)


def wave(dst: str, bps: float, capacity_bps: int, every: int = 1, hop: str = "") -> list[Row]:
    """Nine days of minutes until now, with a daily wave."""
    rows: list[Row] = []
    for back in range(9 * 1440, -1, -every):
        at = minute(back)
        share = 1 + math.sin((at.hour * 60 + at.minute) / 1440 * math.tau) / 7
        rows.append({"time": at.isoformat(), "dst": dst, "hop": hop, "source": "here",
                     "available_bps": int(bps * share), "capacity_bps": capacity_bps,
                     "rtt_us": 30000})  # fmt: skip
    return rows


def active_tests(dst: str) -> list[Row]:
    """A ping every minute of three hours, one of them lost, and an iperf3 each hour."""
    pings: list[Row] = [
        {"time": minute(back).isoformat(), "dst": dst, "source": "here/ping",
         "rtt_us": 21500, "loss": 0}
        for back in range(180, 0, -1)
    ]  # fmt: skip
    lost: Row = {"time": minute().isoformat(), "dst": dst, "source": "here/ping", "loss": 1}
    transfers: list[Row] = [
        {"time": minute(back).isoformat(), "dst": dst, "source": "here/iperf3",
         "throughput_bps": 48_200_000}
        for back in range(170, 0, -60)
    ]  # fmt: skip
    return [*pings, lost, *transfers]
