"""Files of real programs are imported as they are."""

from __future__ import annotations

import subprocess
from datetime import UTC, datetime, timedelta
from pathlib import Path

import polars as pl
import pytest

from built import ADVICE

ROOT = Path(__file__).resolve().parent.parent
DST = "192.0.2.7"
FIRST = datetime(2026, 3, 20, 14, 0, 0, 123000, UTC)
ROWS = 1000


def imported(tmp_path: Path, file: Path) -> subprocess.CompletedProcess[str]:
    """Stands in a history of its own."""
    db = tmp_path / f"{file.name}.db"
    command = [ADVICE, "import", "--db", db, "--path", DST, file]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def exported(tmp_path: Path, file: Path) -> str:
    done = imported(tmp_path, file)
    assert done.returncode == 0, done.stderr
    assert done.stdout == f"{ROWS} records read: {ROWS} stored, 0 were there\n"
    db = tmp_path / f"{file.name}.db"
    command = [ADVICE, "export", "--db", db]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


@pytest.fixture
def history() -> pl.DataFrame:
    at = pl.Series("time", [FIRST + timedelta(minutes=i) for i in range(ROWS)])
    return pl.DataFrame(
        {
            "time": at.dt.cast_time_unit("ms"),
            "available_bps": [40_000_000 + 1000 * i for i in range(ROWS)],
            "rtt_us": [None if i % 7 == 0 else 30_000 + i for i in range(ROWS)],
            "loss": [i / 1000 for i in range(ROWS)],
            "source": ["käse"] * ROWS,
        }
    )


@pytest.fixture
def wanted(tmp_path: Path, history: pl.DataFrame) -> str:
    file = tmp_path / "plain.csv"
    history.write_csv(file, datetime_format="%Y-%m-%dT%H:%M:%S%.3fZ")
    return exported(tmp_path, file)


@pytest.mark.parametrize("compression", ["uncompressed", "snappy", "gzip", "zstd", "lz4", "brotli"])
def test_parquet_of_polars_is_read_in_each_compression(
    tmp_path: Path, history: pl.DataFrame, wanted: str, compression: str
) -> None:
    file = tmp_path / f"{compression}.parquet"
    history.write_parquet(file, compression=compression, row_group_size=300)
    assert exported(tmp_path, file) == wanted


def test_times_and_decimals_of_polars_are_read_in_each_type(
    tmp_path: Path, history: pl.DataFrame, wanted: str
) -> None:
    decimals = {
        "available_bps": pl.Decimal(20, 2),
        "rtt_us": pl.Decimal(9, 1),
        "loss": pl.Decimal(4, 3),
    }
    for name, other in {
        "us": history.with_columns(pl.col("time").dt.cast_time_unit("us")),
        "ns": history.with_columns(pl.col("time").dt.cast_time_unit("ns")),
        "epoch-ms": history.with_columns(pl.col("time").dt.timestamp("ms")),
        "decimals": history.cast(decimals),
        "berlin": history.with_columns(pl.col("time").dt.convert_time_zone("Europe/Berlin")),
        "nan": history.with_columns(pl.col("rtt_us").cast(pl.Float64).fill_null(float("nan"))),
        "nan32": history.with_columns(pl.col("rtt_us").cast(pl.Float32).fill_null(float("nan"))),
    }.items():
        file = tmp_path / f"{name}.parquet"
        other.write_parquet(file)
        assert exported(tmp_path, file) == wanted, name
    file = tmp_path / "naive.parquet"
    history.with_columns(pl.col("time").dt.replace_time_zone(None)).write_parquet(file)
    done = imported(tmp_path, file)
    assert done.returncode == 1
    assert "the column time has no zone: write it with the zone UTC" in done.stderr


def test_csv_of_polars_is_read_in_each_dialect(
    tmp_path: Path, history: pl.DataFrame, wanted: str
) -> None:
    rfc_3339 = {"datetime_format": "%Y-%m-%dT%H:%M:%S%.3fZ"}
    file = tmp_path / "sheet.csv"
    history.write_csv(
        file, separator=";", decimal_comma=True, include_bom=True, line_terminator="\r\n",
        quote_style="always", **rfc_3339,
    )  # fmt: skip
    assert exported(tmp_path, file) == wanted
    utf_16 = tmp_path / "utf-16.csv"
    utf_16.write_bytes(file.read_text("utf-8-sig").encode("utf-16"))
    assert exported(tmp_path, utf_16) == wanted
    epoch = tmp_path / "epoch.tsv"
    history.with_columns(pl.col("time").dt.timestamp("us")).write_csv(epoch, separator="\t")
    assert exported(tmp_path, epoch) == wanted
