"""The files of a job as tables; times in µs after the run's ``t0``."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator, Mapping
from typing import Any

import polars as pl

from imtcp_lab.job import JobResult, LabError

#: Tables that a job may leave as CSV; with a number for each span of a line (line.py).
CSV_TABLES = (
    "queue", "tcp", "web", "bulk", "rival", "back", "udp", "segments", "ftp", "advice",
    *(f"{name}{place}" for name in ("web", "bulk") for place in range(3)),
)  # fmt: skip

#: Fields kept from each line of ``imtcp watch --json``; null if a version lacks one.
WATCH_COLUMNS: dict[str, type[pl.DataType]] = {
    "t_us": pl.Int64,
    "cookie": pl.String,
    "src": pl.String,
    "dst": pl.String,
    "mode": pl.String,
    "avail_last_bps": pl.Float64,
    "avail_smoothed_bps": pl.Float64,
    "valid": pl.Boolean,
    "age_us": pl.Float64,
    "capacity_bps": pl.Float64,
    "cwnd_segs": pl.Float64,
    "cap_segs": pl.Float64,
    "srtt_us": pl.Float64,
    "min_rtt_us": pl.Float64,
    "delivery_bps": pl.Float64,
    "bytes_acked": pl.Float64,
}

#: Fields kept from each line of ``imtcp watch --events --json``, one per finished measurement.
EVENT_COLUMNS: dict[str, type[pl.DataType]] = {
    "t_us": pl.Int64,
    "cookie": pl.String,
    "mode": pl.String,
    "outcome": pl.String,
    "avail_bps": pl.Float64,
    "smoothed_bps": pl.Float64,
    "range_low_bps": pl.Float64,
    "range_high_bps": pl.Float64,
    "capacity_bps": pl.Float64,
    "delivery_bps": pl.Float64,
    "validity_pct": pl.Float64,
    "srtt_us": pl.Float64,
    "min_rtt_us": pl.Float64,
    "hold_us": pl.Float64,
}

#: The kernel's counts of each BPF program since it was loaded.
PROGRAM_COLUMNS: dict[str, type[pl.DataType]] = {
    "t_us": pl.Int64,
    "id": pl.Int64,
    "name": pl.String,
    "runs": pl.Int64,
    "run_ns": pl.Int64,
}

#: Streams of JSON lines, and the fields kept from them.
JSON_TABLES = {"watch": WATCH_COLUMNS, "events": EVENT_COLUMNS}

Tables = dict[str, pl.DataFrame]


def read_tables(result: JobResult) -> Tables:
    """All tables of one run."""
    try:
        t0_us = int(result.files["t0"])
    except (KeyError, ValueError):
        raise LabError("the run left no start time", result.log[-4000:]) from None
    pressed = memory_pressures(result.files.get("netstat", b""))
    if pressed:
        raise LabError(
            f"TCP ran short of memory {pressed} times (TCPMemoryPressures): its buffers were kept"
            " small, and not by a congestion control. Raise the sysctl net.ipv4.tcp_mem"
        )
    tables: Tables = {}
    for name in CSV_TABLES:
        content = result.files.get(f"{name}.csv")
        if content is None or b"\n" not in content:
            continue
        table = pl.read_csv(io.BytesIO(content))
        if "t_us" in table.columns:
            table = table.with_columns(pl.col("t_us").cast(pl.Int64) - t0_us)
        tables[name] = table
    for name, columns in JSON_TABLES.items():
        lines = result.files.get(f"{name}.jsonl")
        if lines:
            tables[name] = read_json_lines(lines, columns, t0_us)
    uptime = result.files.get("uptime")
    if uptime:
        rows = [[float(v) for v in line.split()] for line in uptime.splitlines()]
        tables["uptime"] = pl.DataFrame(rows, schema=["uptime_s", "idle_s"], orient="row")
    looks = [result.files.get(f"programs{i}") for i in range(2)]
    if all(looks):
        tables["programs"] = pl.concat(read_programs(look, t0_us) for look in looks)
    return tables


def memory_pressures(netstat: bytes) -> int:
    """How often TCP's memory ran short, on all hosts together.

    In ``/proc/net/netstat`` a line of names precedes each line of numbers.
    """
    lines = [line.split() for line in netstat.decode().splitlines()]
    counted = [dict(zip(*two, strict=True)) for two in zip(lines[::2], lines[1::2], strict=True)]
    return sum(int(counters.get("TCPMemoryPressures", 0)) for counters in counted)


def read_programs(look: bytes, t0_us: int) -> pl.DataFrame:
    """Number and duration of each BPF program's runs: a time, then ``bpftool -j prog show``."""
    t_us, _, listed = look.partition(b"\n")
    # Programs that have not run have no counts.
    ran = [program for program in json.loads(listed) if "run_cnt" in program]
    rows = [
        (int(t_us) - t0_us, p["id"], p.get("name", ""), p["run_cnt"], p["run_time_ns"]) for p in ran
    ]
    return pl.DataFrame(rows, schema=PROGRAM_COLUMNS, orient="row")


def params_in_force(result: JobResult) -> dict[str, Any]:
    """Parameters by mode, as imtcp reported them for its connections; empty without imtcp."""
    told = _json_records(result.files.get("connections.jsonl", b""))
    return {record["mode"]: record["params"] for record in told if record.get("params")}


def _json_records(lines: bytes) -> Iterator[Mapping[str, Any]]:
    """The objects in a stream of JSON lines; an incomplete last line is ignored."""
    for line in lines.splitlines():
        try:
            record = json.loads(line)
        except ValueError:
            continue
        if isinstance(record, Mapping):
            yield record


def read_json_lines(
    lines: bytes, columns: Mapping[str, type[pl.DataType]], t0_us: int
) -> pl.DataFrame:
    """The records that have a time; unknown keys are ignored."""
    rows = [
        {name: _cast(record.get(name), kind) for name, kind in columns.items()}
        for record in _json_records(lines)
        if isinstance(record.get("t_us"), int | float)
    ]
    table = pl.DataFrame(rows, schema=dict(columns))
    return table.with_columns(pl.col("t_us") - t0_us)


def _cast(value: Any, kind: type[pl.DataType]) -> Any:  # noqa: ANN401 - any JSON value
    if value is None:
        return None
    if kind == pl.String:
        return str(value)
    if kind == pl.Boolean:
        return bool(value)
    try:
        return int(value) if kind == pl.Int64 else float(value)
    except (TypeError, ValueError):
        return None
