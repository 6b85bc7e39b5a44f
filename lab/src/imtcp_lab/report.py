"""A report in one HTML file without other files: for a browser, a phone, paper."""

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
    """Text cells; the first columns name the row."""

    titles: Sequence[str]
    rows: Sequence[Sequence[str]]
    #: Rows to highlight, by their first cell.
    marked: frozenset[str] = frozenset()
    #: Number of these columns; the last one stays visible when the table scrolls.
    names: int = 1


def _data_uri(content: bytes) -> str:
    return "data:image/png;base64," + base64.b64encode(content).decode()


def render_page(template: str, **values: Any) -> str:  # noqa: ANN401 - what the template names
    """Fills one of our templates; HTML is escaped, Markdown is not."""
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("imtcp_lab"),
        autoescape=jinja2.select_autoescape(enabled_extensions=("html.j2",)),
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )
    environment.filters["data_uri"] = _data_uri
    return environment.get_template(template).render(**values)


def render(
    title: str,
    summary: Sequence[str],
    table: Table,
    pictures: Sequence[Picture],
    notes: Sequence[tuple[str, str]],
    details: Mapping[str, Any],
) -> str:
    """The report.  `notes` are (term, meaning); `details` describes the run."""
    return render_page(
        "report.html.j2",
        title=title,
        summary=summary,
        table=table,
        pictures=pictures,
        notes=notes,
        details=details,
    )
