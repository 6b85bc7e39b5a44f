"""The two axes, U and I, and further metrics.

Each metric compares a run with the run of the same seed under *none*, the control without a
background.  The foreground's objects and arrivals are the same there.  Only readers, who wait for
an object before they ask for the next, ask for the same objects later.

U       the background's goodput over the spare capacity: capacity less the foreground's
        traffic under *none*.  The receiver counts goodput, scaled from TCP payload to whole
        frames (1514/1448), the unit of capacity.
I_mean  mean completion time of the objects relative to *none*, less 1.
I_p95   the same for the 95th percentile.
I_small the same for the mean over objects up to :data:`SMALL_BYTES`.
queue   mean length in packets of the queue in which the foreground waits; under strict
        priority, of the upper band.

An unfinished object counts with its time until the end of the run. So harm is understated, not
hidden; ``unfinished`` counts these objects.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import polars as pl

from imtcp_lab.stats import jain, quantile
from imtcp_lab.topology import FRAME_BYTES, HIGH_BAND_HANDLE, PAYLOAD_BYTES, SHAPER_HANDLE

#: Objects up to this size fit into two to three windows of slow start.
SMALL_BYTES = 30_000


@dataclass(frozen=True)
class Window:
    """The measured part of a run, in µs after its start."""

    start_us: int
    end_us: int

    @property
    def seconds(self) -> float:
        """Length of the window."""
        return (self.end_us - self.start_us) / 1e6


def value_at(times_us: list[int], values: list[float], t_us: float) -> float:
    """Value of a growing counter between two samples, by linear interpolation."""
    if not times_us:
        return 0.0
    if t_us <= times_us[0]:
        return values[0]
    for i in range(1, len(times_us)):
        if t_us <= times_us[i]:
            share = (t_us - times_us[i - 1]) / (times_us[i] - times_us[i - 1])
            return values[i - 1] + share * (values[i] - values[i - 1])
    return values[-1]


def background_bytes(tcp: pl.DataFrame | None, window: Window) -> dict[int, float]:
    """Payload bytes that arrived in the window, by connection cookie.

    The counter of a connection that opened in the window starts at zero.
    """
    if tcp is None or tcp.is_empty():
        return {}
    received: dict[int, float] = {}
    for (cookie,), part in tcp.sort("t_us").group_by("cookie", maintain_order=True):
        times = part["t_us"].to_list()
        values = part["bytes_received"].to_list()
        if times[0] > window.start_us:
            times, values = [window.start_us, *times], [0, *values]
        amount = value_at(times, values, window.end_us)
        amount -= value_at(times, values, window.start_us)
        received[cookie] = amount
    return received


def counted(rows: pl.DataFrame, column: str, window: Window) -> float:
    """Sum of a receiver's counts over the window; each row ends an interval."""
    return float(_ended(rows, window)[column].sum())


def _ended(rows: pl.DataFrame, window: Window) -> pl.DataFrame:
    return rows.filter((rows["t_us"] > window.start_us) & (rows["t_us"] <= window.end_us))


def mean_delay_s(udp: pl.DataFrame, window: Window) -> float:
    """Mean delay of the packets that arrived in the window."""
    delays_us, packets = (counted(udp, c, window) for c in ("delay_sum_us", "packets"))
    return delays_us / max(1, packets) / 1e6


def delay_quantile_s(udp: pl.DataFrame, window: Window, share: float) -> float:
    """Quantile of the packets' delays in the window; NaN without packets.

    It is exact only if each row has one packet: of several it takes the longest delay.
    """
    inside = _ended(udp, window).filter(pl.col("packets") > 0)
    return quantile(inside["delay_most_us"].to_list(), share) / 1e6


def goodput_bps(payload_bytes: float, window: Window) -> float:
    """Rate of the payload that arrived in the window, in whole frames like capacities."""
    return payload_bytes * 8 / window.seconds * FRAME_BYTES / PAYLOAD_BYTES


def carried_bps(queue: pl.DataFrame, window: Window, handle: int = SHAPER_HANDLE) -> float:
    """Rate of whole frames that left the bottleneck in the window."""
    part = queue.filter(pl.col("handle") == handle).sort("t_us")
    times, values = part["t_us"].to_list(), part["sent_bytes"].to_list()
    sent = value_at(times, values, window.end_us) - value_at(times, values, window.start_us)
    return sent * 8 / window.seconds


def _in_window(queue: pl.DataFrame, window: Window, handle: int) -> pl.DataFrame:
    return queue.filter(
        (pl.col("handle") == handle) & pl.col("t_us").is_between(window.start_us, window.end_us)
    )


def foreground_queue_pkts(queue: pl.DataFrame, window: Window) -> float:
    """Mean packets in the queue in which the foreground waits."""
    banded = _in_window(queue, window, HIGH_BAND_HANDLE)
    part = banded if not banded.is_empty() else _in_window(queue, window, SHAPER_HANDLE)
    mean = part["backlog_pkts"].mean()
    return math.nan if mean is None else float(mean)  # type: ignore[arg-type]


def drops_pkts(queue: pl.DataFrame, window: Window) -> int:
    """Packets dropped at the bottleneck in the window."""
    part = _in_window(queue, window, SHAPER_HANDLE)
    if part.is_empty():
        return 0
    return int(part["drops"].max() - part["drops"].min())  # type: ignore[operator]


@dataclass(frozen=True)
class Interference:
    """Changes of the foreground's completion times, each relative to *none*, less 1."""

    mean: float
    p95: float
    small: float
    objects: int
    unfinished: int


def interference(
    web: pl.DataFrame, alone: pl.DataFrame, window: Window, *, same_starts: bool = True
) -> Interference:
    """Compares completion times object by object; both runs have the same seed.

    `same_starts`: objects start at the same times in both runs.
    """
    both = web.join(alone, on="object", suffix="_alone", how="inner").filter(
        (pl.col("start_us") >= window.start_us)
        & (pl.col("start_us") < window.end_us)
        & (pl.col("finished_alone") == 1)
    )
    differ = both.filter(
        (pl.col("size_bytes") != pl.col("size_bytes_alone"))
        | (same_starts & (pl.col("start_us") != pl.col("start_us_alone")))
    )
    if not differ.is_empty():
        raise ValueError("the two runs had different arrivals: they cannot be compared")

    def relative(part: pl.DataFrame, q: float | None = None) -> float:
        now, then = part["duration_us"].to_list(), part["duration_us_alone"].to_list()
        if not then:
            return math.nan
        if q is not None:
            return quantile(now, q) / quantile(then, q) - 1
        return sum(now) / sum(then) - 1

    return Interference(
        mean=relative(both),
        p95=relative(both, 0.95),
        small=relative(both.filter(pl.col("size_bytes") <= SMALL_BYTES)),
        objects=len(both),
        unfinished=int((both["finished"] == 0).sum()),
    )


def point_metrics(
    tables: Mapping[str, pl.DataFrame],
    alone: Mapping[str, pl.DataFrame],
    capacity_bps: float,
    window: Window,
    *,
    same_starts: bool = True,
) -> dict[str, float | int | None]:
    """All metrics of one run, relative to *none*."""
    queue = tables["queue"]
    flows = background_bytes(tables.get("tcp"), window)
    background_bps = goodput_bps(sum(flows.values()), window)
    foreground_bps = carried_bps(alone["queue"], window)
    spare_bps = capacity_bps - foreground_bps
    out: dict[str, float | int | None] = {
        "U": background_bps / spare_bps if spare_bps > 0 else None,
        "I_mean": None,
        "I_p95": None,
        "I_small": None,
        "queue_pkts_mean": foreground_queue_pkts(queue, window),
        "queue_pkts_alone": foreground_queue_pkts(alone["queue"], window),
        "drops_pkts": drops_pkts(queue, window),
        "jain": jain(list(flows.values())) if len(flows) > 1 else None,
        "background_bps": background_bps,
        "foreground_alone_bps": foreground_bps,
        "carried_bps": carried_bps(queue, window),
    }
    if "web" in tables and "web" in alone:
        harm = interference(tables["web"], alone["web"], window, same_starts=same_starts)
        out |= {
            "I_mean": harm.mean,
            "I_p95": harm.p95,
            "I_small": harm.small,
            "objects": harm.objects,
            "unfinished": harm.unfinished,
        }
    return out
