"""Pictures of the papers' figures, drawn only from rows, measured now or stored."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from imtcp_lab.controls import CONTROLS
from imtcp_lab.figures import LIGHT, STYLES, Theme, legend_of_all, png, themed
from imtcp_lab.stats import ensemble

Rows = Sequence[Mapping[str, Any]]
#: Fields of one line over time in the rows: times in s, values.
SERIES_KEYS = ("t_s", "value")

#: With more panels than this the picture has two columns, to fit on a page.
PANELS_BELOW = 5
#: With more lines than this the legend stands below the picture, where it covers no line.
LINES_BESIDE_LEGEND = 5


def _label(name: str | float, by: str) -> str:
    """A control's label, or another name; a number gets the name of its quantity."""
    if name in CONTROLS:
        return CONTROLS[name].label  # type: ignore[index]
    return name if isinstance(name, str) else f"{by} {name:g}"


def lines(
    rows: Rows,
    x: str,
    y: str,
    xlabel: str,
    ylabel: str,
    theme: Theme = LIGHT,
    *,
    log_x: bool = False,
    log_y: bool = False,
    by: str = "control",
    panels: str | None = None,
    below: Sequence[tuple[str, str]] = (),
) -> bytes:
    """A line per control (or per value of `by`): means over seeds, with their range.

    A line whose rows have no x is a constant level, dashed.  Each further value of `panels` adds a
    panel beside the first.  Each further column in `below`, with its label, adds panels underneath.
    """
    titles = list(dict.fromkeys(row[panels] for row in rows)) if panels else [""]
    down = [(y, ylabel), *below]
    with themed(theme):
        figure, grid = plt.subplots(
            len(down),
            len(titles),
            figsize=(6.4, 4.0 if len(down) == 1 else 2.6 * len(down)),
            sharex=True,
            sharey="row",
            squeeze=False,
        )
        for (column, label), across in zip(down, grid, strict=True):
            for axes, title in zip(across, titles, strict=True):
                shown = [r for r in rows if not panels or r[panels] == title]
                _draw_lines(axes, shown, x, column, by)
                axes.set_xscale("log" if log_x else "linear")
            across[0].set_ylabel(label)
            if log_y:
                across[0].set_yscale("log")
            else:
                # Room above the highest marker: the margin follows the data's range, not the axis.
                lowest = min([0, *(r[column] for r in rows if r.get(column) is not None)])
                across[0].set_ylim(1.05 * lowest, 1.05 * across[0].get_ylim()[1])
        for axes, title in zip(grid[0], titles, strict=True):
            axes.set_title(title)
        for axes in grid[-1]:
            axes.set_xlabel(xlabel)
        _legend(figure, grid)
        figure.tight_layout()
        return png(figure)


def _draw_lines(axes: Axes, rows: Rows, x: str, y: str, by: str) -> None:
    for name in dict.fromkeys(row[by] for row in rows):
        mine = [row for row in rows if row[by] == name and row.get(y) is not None]
        if not mine:
            continue
        colour, marker = STYLES.get(name, (None, "o"))
        if all(row[x] is None for row in mine):
            level = ensemble(row[y] for row in mine)
            (line,) = axes.plot([], [], "--", color=colour, label=_label(name, by))
            axes.axhline(level.mean, linestyle="--", color=line.get_color())
            axes.axhspan(
                level.lowest, level.highest, color=line.get_color(), alpha=0.15, linewidth=0
            )
            continue
        xs = sorted({row[x] for row in mine})
        seeds = [ensemble(row[y] for row in mine if row[x] == at) for at in xs]
        means = [e.mean for e in seeds]
        (line,) = axes.plot(xs, means, marker=marker, color=colour, label=_label(name, by))
        axes.fill_between(
            xs,
            [e.lowest for e in seeds],
            [e.highest for e in seeds],
            color=line.get_color(),
            alpha=0.15,
            linewidth=0,
        )


def _legend(figure: Figure, grid: Any) -> None:  # noqa: ANN401 - an array of Axes
    """One legend for all panels: inside of a single panel, or below if it would cover lines."""
    first = grid[0][0]
    count = len(first.get_lines())
    if not count:
        return
    if grid.size == 1 and count <= LINES_BESIDE_LEGEND:
        first.legend(frameon=False, fontsize=8)
        return
    _legend_below(figure, grid.flat)


def _legend_below(figure: Figure, panels: Iterable[Axes]) -> None:
    """Puts the legend below all panels, where it covers nothing."""
    legend_of_all(
        figure, panels, most_columns=5, fontsize=7, loc="upper center", bbox_to_anchor=(0.5, 0)
    )


def bars(
    rows: Rows,
    y: str,
    xlabel: str,
    theme: Theme = LIGHT,
    *,
    panels: str | None = None,
) -> bytes:
    """A bar per control: the mean over seeds, with their range; a panel per value of `panels`."""
    known = [row for row in rows if row.get(y) is not None]
    titles = list(dict.fromkeys(row[panels] for row in known)) if panels else [""]
    names = list(dict.fromkeys(row["control"] for row in known))
    size = (6.4, 1.2 + 0.35 * len(names))
    with themed(theme):
        figure, grid = plt.subplots(
            1, max(1, len(titles)), figsize=size, sharex=True, sharey=True, squeeze=False
        )
        for axes, title in zip(grid.flat, titles, strict=False):
            shown = [row for row in known if not panels or row[panels] == title]
            for at, name in enumerate(names):
                e = ensemble(row[y] for row in shown if row["control"] == name)
                axes.barh(at, e.mean, color=STYLES[name][0], height=0.6)
                axes.hlines(at, e.lowest, e.highest, color=theme.ink, linewidth=1.2)
                # Otherwise a very small bar would be invisible.
                axes.annotate(
                    f"{e.mean:.3g}",
                    (e.highest, at),
                    (3, 0),
                    textcoords="offset points",
                    va="center",
                    fontsize=7,
                )
            axes.set_yticks(range(len(names)), [CONTROLS[name].label for name in names])
            axes.grid(axis="y", visible=False)
            axes.set_title(title)
            axes.set_xlabel(xlabel)
            axes.margins(x=0.15)
        grid.flat[0].invert_yaxis()
        figure.tight_layout()
        return png(figure)


def over_time(
    rows: Rows, key: str, ylabel: str, theme: Theme = LIGHT, *, title: str = "control"
) -> bytes:
    """A panel per control (or other row, named by `title`), a line per flow or quantity.

    The first seed's rows hold the series: ``row[key]`` is a list of lines, each ``{"t_s": […],
    "value": […]}``, with a ``"name"`` if they need a legend.
    """
    first = min(row["seed"] for row in rows)
    shown = [row for row in rows if row["seed"] == first and row.get(key)]
    with themed(theme):
        columns = 1 if len(shown) <= PANELS_BELOW else 2
        down = -(-len(shown) // columns)
        figure, grid = plt.subplots(
            down, columns, figsize=(6.4, 1.6 * down + 0.6), sharex=True, sharey=True, squeeze=False
        )
        # Fill one column before the next.
        panels = list(grid.T.flat)
        for axes in panels[len(shown) :]:
            axes.set_visible(False)
        for axes, row in zip(panels[: len(shown)], shown, strict=True):
            for line in row[key]:
                axes.plot(
                    *(line[k] for k in SERIES_KEYS), linewidth=1.1, label=line.get("name", "_")
                )
            axes.set_title(_label(row[title], title), fontsize=None if columns == 1 else 7)
            axes.set_ylabel(ylabel)
        # All panels share one scale; set its limit last, when all data is drawn.
        panels[0].set_ylim(bottom=0)
        for axes in grid[-1]:
            axes.set_xlabel("time, s")
        _legend_below(figure, panels[: len(shown)])
        figure.tight_layout()
        return png(figure)


def distribution(
    rows: Rows,
    key: str,
    xlabel: str,
    theme: Theme = LIGHT,
    *,
    by: str = "control",
    of: str = "objects",
    log_x: bool = True,
) -> bytes:
    """Cumulative distribution per control (or value of `by`), over all seeds' `row[key]`
    together."""
    pooled: dict[str, list[float]] = {}
    for row in rows:
        pooled.setdefault(row[by], []).extend(row.get(key) or ())
    with themed(theme):
        figure, axes = plt.subplots(figsize=(6.4, 4.0))
        for name, found in pooled.items():
            if not found:
                continue
            ordered = sorted(found)
            share = [(i + 1) / len(ordered) for i in range(len(ordered))]
            axes.plot(ordered, share, color=STYLES.get(name, (None,))[0], label=_label(name, by))
        if log_x:
            axes.set_xscale("log")
        axes.set_xlabel(xlabel)
        axes.set_ylabel(f"share of the {of}")
        axes.set_ylim(0, 1)
        if axes.get_lines():
            axes.legend(frameon=False, fontsize=8)
        figure.tight_layout()
        return png(figure)
