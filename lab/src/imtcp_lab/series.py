"""Rates over time from sampled counters."""

from __future__ import annotations

import itertools

import polars as pl

from imtcp_lab.metrics import value_at
from imtcp_lab.topology import FRAME_BYTES, SHAPER_HANDLE

#: (times in s at the middle of each bin, rates in bit/s)
Series = tuple[list[float], list[float]]


def binned(times_us: list[int], counter_bytes: list[float], bin_ms: int, end_us: int) -> Series:
    """Mean rate of a growing byte counter in each bin; zero before its start."""
    if not times_us:
        return [], []
    step_us = bin_ms * 1000
    times_us, counter_bytes = _from_zero(times_us, counter_bytes)
    edges = list(range(0, end_us + 1, step_us))
    at_edge = [value_at(times_us, counter_bytes, edge) for edge in edges]
    middle_s = [(edge + step_us / 2) / 1e6 for edge in edges[:-1]]
    rates = [(after - before) * 8e6 / step_us for before, after in itertools.pairwise(at_edge)]
    return middle_s, rates


def _from_zero(times_us: list[int], values: list[float]) -> tuple[list[int], list[float]]:
    base = values[0] if times_us[0] <= 0 else 0.0
    if times_us[0] > 0:
        times_us, values = [0, *times_us], [0.0, *values]
    return times_us, [v - base for v in values]


def carried(queue: pl.DataFrame, bin_ms: int, end_us: int) -> Series:
    """Rate of whole frames out of the bottleneck."""
    part = queue.filter(pl.col("handle") == SHAPER_HANDLE).sort("t_us")
    return binned(part["t_us"].to_list(), part["sent_bytes"].to_list(), bin_ms, end_us)


def throughput(tcp: pl.DataFrame | None, bin_ms: int, end_us: int) -> Series:
    """Rate at the background's receivers, in whole frames.

    It counts segments, not bytes in order: behind a lost packet the latter stop and then jump.
    """
    total: Series = ([], [])
    if tcp is None or tcp.is_empty():
        return total
    for _, part in tcp.sort("t_us").group_by("cookie", maintain_order=True):
        arrived_bytes = (part["data_segs_in"] * FRAME_BYTES).to_list()
        times, rates = binned(part["t_us"].to_list(), arrived_bytes, bin_ms, end_us)
        if total[1]:
            rates = [a + b for a, b in zip(total[1], rates, strict=True)]
        total = (times, rates)
    return total


def available(alone_queue: pl.DataFrame, capacity_bps: float, bin_ms: int, end_us: int) -> Series:
    """Capacity less the foreground's rate without a background."""
    times, rates = carried(alone_queue, bin_ms, end_us)
    return times, [max(0.0, capacity_bps - rate) for rate in rates]


def estimate(watch: pl.DataFrame | None, column: str = "avail_smoothed_bps") -> Series:
    """imtcp's results: the median over its connections."""
    if watch is None or watch.is_empty():
        return [], []
    part = (
        watch.filter(pl.col(column).is_not_null() & (pl.col(column) > 0))
        .group_by("t_us")
        .agg(pl.col(column).median())
        .sort("t_us")
    )
    return [t / 1e6 for t in part["t_us"].to_list()], part[column].to_list()
