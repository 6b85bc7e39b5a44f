"""Rows of numbers as plain text tables, with their spread."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from imtcp_lab.stats import Ensemble, ensemble

Row = Mapping[str, Any]

#: Names of the keys that distinguish groups of rows; other keys stand for themselves.
SETTINGS = {
    "available_mbps": "available, Mbit/s",
    "buffer_pkts": "buffer, pkts",
    "capacity_mbps": "capacity, Mbit/s",
    "hour": "time of day",
    "loss_pct": "loss, %",
    "period_s": "period, s",
    "rtt_ms": "round trip, ms",
    "used_pct": "used, %",
}


def as_number(value: float, digits: int = 2) -> str:
    """A plain number, or a dash if it was not measured."""
    return "-" if math.isnan(value) else f"{value:.{digits}f}"


def as_percent(value: float) -> str:
    """A share as a percentage. Small shares have one more digit, and -0.0 is shown as 0.0."""
    if math.isnan(value):
        return "-"
    return f"{value * 100:z.1f} %" if abs(value) < 0.095 else f"{value * 100:.0f} %"


def as_mbps(value: float) -> str:
    """bit/s as Mbit/s."""
    return as_number(value / 1e6, 1)


def as_setting(value: object) -> str:
    """A value that distinguishes a group of rows; numbers are rounded."""
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def as_time(hours: float) -> str:
    """Hours since midnight as a clock time."""
    hour, minute = divmod(round(hours * 60), 60)
    return f"{hour}:{minute:02}"


#: Settings with their own format.
SHOWN: dict[str, Callable[[Any], str]] = {"hour": as_time}


@dataclass(frozen=True)
class Column:
    """One quantity of the rows."""

    key: str
    title: str
    show: Callable[[float], str] = as_number


def cell(e: Ensemble, column: Column) -> str:
    """The mean, and with several seeds the least and greatest value."""
    if e.count == 0:
        return "-"
    if e.count == 1:
        return column.show(e.mean)
    return f"{column.show(e.mean)} ({column.show(e.lowest)} … {column.show(e.highest)})"


def groups(rows: Iterable[Row], by: Sequence[str]) -> dict[tuple[Any, ...], list[Row]]:
    """Rows by the values of some keys, in order of appearance."""
    out: dict[tuple[Any, ...], list[Row]] = {}
    for row in rows:
        out.setdefault(tuple(row[key] for key in by), []).append(row)
    return out


def summaries(
    rows: Iterable[Row], by: Sequence[str], columns: Sequence[Column]
) -> list[dict[str, Any]]:
    """One record per group: the statistics of each column over the seeds."""
    return [
        {
            **dict(zip(by, names, strict=True)),
            "seeds": len(part),
            **{c.key: ensemble(row.get(c.key) for row in part) for c in columns},
        }
        for names, part in groups(rows, by).items()
    ]


def summary_records(
    rows: Iterable[Row], by: Sequence[str], columns: Sequence[Column]
) -> list[dict[str, Any]]:
    """The same for JSON, with the statistics as records."""
    return [
        {k: vars(v) if isinstance(v, Ensemble) else v for k, v in summary.items()}
        for summary in summaries(rows, by, columns)
    ]


def text_cells(
    rows: Iterable[Row], by: Sequence[str], columns: Sequence[Column], samples: str = "seeds"
) -> tuple[list[str], list[list[str]]]:
    """Titles, and one line of cells per group. A cell has mean (least … greatest) over seeds, or
    over other samples."""
    titles = [*(SETTINGS.get(key, key) for key in by), *(c.title for c in columns), samples]
    lines = [
        [SHOWN.get(key, as_setting)(record[key]) for key in by]
        + [cell(record[c.key], c) for c in columns]
        + [str(record["seeds"])]
        for record in summaries(rows, by, columns)
    ]
    return titles, lines


def aligned(titles: Sequence[str], lines: Sequence[Sequence[str]], left: int) -> str:
    """Columns side by side; the first `left` columns are left-aligned, the others right-aligned."""
    widths = [max(len(line[i]) for line in (titles, *lines)) for i in range(len(titles))]

    def layout(line: Sequence[str]) -> str:
        names = [text.ljust(w) for text, w in zip(line[:left], widths, strict=False)]
        figures = [text.rjust(w) for text, w in zip(line[left:], widths[left:], strict=True)]
        return "  ".join(names + figures).rstrip()

    rule = "  ".join("─" * w for w in widths)
    return "\n".join([layout(titles), rule, *(layout(line) for line in lines)])


def text_table(
    rows: Iterable[Row], by: Sequence[str], columns: Sequence[Column], samples: str = "seeds"
) -> str:
    """The table as aligned text."""
    return aligned(*text_cells(rows, by, columns, samples), left=len(by))
