"""Points with simple contents, as a run leaves them."""

from __future__ import annotations

import polars as pl

from imtcp_lab.ftp import FILE_BYTES, FtpScenario
from imtcp_lab.line import Line
from imtcp_lab.results import Point
from imtcp_lab.scenario import Scenario
from imtcp_lab.topology import FRAME_BYTES, PAYLOAD_BYTES, SHAPER_HANDLE

META = {
    "commit": "abc",
    "environment": {"kernel": "6.12.0-test", "kernel_package": "6.12", "qemu": "QEMU"},
}


def point(
    scenario: Scenario,
    background_bps: float = 0,
    slower: float = 1.0,
    foreground_bps: float = 20e6,
    **tables,
) -> Point:
    """A run with constant rates of foreground and background, in frames.

    Objects take `slower` times 100 ms.
    """
    end_us = round(scenario.times.total_s * 1e6)
    times = list(range(0, end_us + 1, 100_000))
    n = len(times)
    carried = [(foreground_bps + background_bps) / 8 * t / 1e6 for t in times]
    made = {
        "queue": pl.DataFrame(
            {
                "t_us": times,
                "handle": [SHAPER_HANDLE] * n,
                "backlog_bytes": [0] * n,
                "backlog_pkts": [10] * n,
                "drops": [0] * n,
                "sent_bytes": [round(b) for b in carried],
            }
        ),
        "web": pl.DataFrame(
            {
                "object": range(n),
                "start_us": times,
                "size_bytes": [20_000 + 40_000 * (i % 2) for i in range(n)],
                "duration_us": [round(100_000 * slower)] * n,
                "finished": [1] * n,
            }
        ),
    }
    if background_bps:
        frames = [background_bps / 8 * t / 1e6 / FRAME_BYTES for t in times]
        made["tcp"] = pl.DataFrame(
            {
                "t_us": times,
                "cookie": [1] * n,
                "bytes_received": [round(f * PAYLOAD_BYTES) for f in frames],
                "data_segs_in": [round(f) for f in frames],
            }
        )
    if isinstance(scenario.path, Line):
        line = scenario.path
        made |= {f"web{place}": made["web"] for place in range(len(line.web))}
        sent = (t and background_bps * 0.1 / 8 * PAYLOAD_BYTES / FRAME_BYTES for t in times)
        arrived = pl.DataFrame({"t_us": times, "bytes": [round(b) for b in sent]})
        made |= {f"bulk{place}": arrived for place in range(len(line.bulk))}
    if isinstance(scenario, FtpScenario):
        if background_bps:
            made |= sent_by_ftp(background_bps)
        flows = [(t, flow) for t in times for flow in range(scenario.flows)]
        made["bulk"] = pl.DataFrame(
            {
                "t_us": [t for t, _ in flows],
                "flow": [flow for _, flow in flows],
                "bytes": [100_000 for _ in flows],
            },
            schema={"t_us": pl.Int64, "flow": pl.Int64, "bytes": pl.Int64},
        )
    return Point(scenario, made | tables, META)


def sent_by_ftp(bps: float, off: tuple[int, ...] = (1, 0)) -> dict[str, pl.DataFrame]:
    """The tables of a complete file at a rate of the laboratory's network, and of the answers."""
    return {
        "ftp": pl.DataFrame({"bytes": [FILE_BYTES], "seconds": [FILE_BYTES * 8 / bps]}),
        "advice": pl.DataFrame({"off": list(off), "again_s": [5] * len(off)}),
    }
