"""One HTML file that holds everything: opens from disk, on a phone, on paper."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import jinja2


@dataclass(frozen=True)
class Picture:
    """A figure in both themes."""

    title: str
    caption: str
    light_png: bytes
    dark_png: bytes


@dataclass(frozen=True)
class Table:
    """Text cells; the first column names the row."""

    titles: Sequence[str]
    rows: Sequence[Sequence[str]]
    #: Rows that stand out, by their first cell.
    marked: frozenset[str] = frozenset()


def _data_uri(content: bytes) -> str:
    return "data:image/png;base64," + base64.b64encode(content).decode()


def render(
    title: str,
    summary: Sequence[str],
    table: Table,
    pictures: Sequence[Picture],
    notes: Sequence[tuple[str, str]],
    details: Mapping[str, Any],
) -> str:
    """The report.  `notes` are (term, meaning); `details` says how it was made."""
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("imtcp_lab"),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )
    environment.filters["data_uri"] = _data_uri
    return environment.get_template("report.html.j2").render(
        title=title,
        summary=summary,
        table=table,
        pictures=pictures,
        notes=notes,
        details=details,
    )
