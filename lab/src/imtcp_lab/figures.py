"""Pictures from result files, in a light and a dark version."""

from __future__ import annotations

import io
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

import matplotlib

matplotlib.use("Agg")
from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.text import Annotation
from matplotlib.transforms import Bbox
from PIL import Image

from imtcp_lab import series
from imtcp_lab.controls import CONTROLS
from imtcp_lab.results import Point

DPI = 150
#: Colours in a file: the picture has a dozen, plus shades between them.
COLOURS = 128
#: Bins of throughput over time, in ms.
BIN_MS = 250
#: Places for a name beside its point in the plane; the name takes the first free one.
MARKER_PT, NEAR_PT = 9, 9
PLACES_PT = (
    *((0, 7), (0, -7), (9, 0), (-9, 0), (7, 7), (-7, 7), (7, -7), (-7, -7)),
    *((0, 20), (0, -20), (12, 20), (-12, 20), (12, -20), (-12, -20)),
    *((20, 32), (-20, 32), (20, -32), (-20, -32), (0, -44), (0, 44)),
)

#: One colour and marker per control, the same in every figure.
STYLES: dict[str, tuple[str, str]] = {
    "none": ("#7f7f7f", "o"),
    "reno": ("#8c564b", "^"),
    "reno_paced": ("#c49c94", "^"),
    "cubic": ("#d62728", "s"),
    "bbr": ("#ff7f0e", "D"),
    "vegas": ("#bcbd22", "v"),
    "tcp_lp": ("#9467bd", "P"),
    "cdg": ("#17becf", "<"),
    "nv": ("#e377c2", ">"),
    "imtcp": ("#1f77b4", "X"),
    "imtcp_bg": ("#0b6fd6", "*"),
    "imtcp_from_cubic": ("#0b6fd6", "<"),
    "rledbat": ("#888888", "<"),
    "cubic_half": ("#555555", "_"),
    "imtcp_from_reno": ("#0b6fd6", ">"),
    "imtcp_from_bbr": ("#0b6fd6", "v"),
    "imtcp_run": ("#0b6fd6", "P"),
    "imtcp_bg_g": ("#5aa9f7", "*"),
    "imtcp_fs": ("#003f8c", "p"),
    "imtcp_lp": ("#5e3c99", "d"),
    "imtcp_lpecn": ("#8073ac", "D"),
    "imtcp_nice": ("#1b9e77", "H"),
    "imtcp_ledbat": ("#a6761d", "1"),
    "imtcp_ledbatpp": ("#e6ab02", "2"),
    "paper": ("#2171b5", "X"),
    "paper_bg": ("#4292c6", "*"),
    "paper_cap": ("#6baed6", "8"),
    "paper_fs": ("#08306b", "p"),
    "paper_lp": ("#7a67ee", "d"),
    "paper_nice": ("#66c2a5", "H"),
    "imtcp_nocc": ("#000000", "x"),
    "highspeed": ("#666666", "x"),
    "westwood": ("#c51b7d", "+"),
    "priority": ("#2ca02c", "h"),
    "priority_bbr": ("#2ca02c", "H"),
}


@dataclass(frozen=True)
class Theme:
    """Colours of everything except data."""

    name: str
    paper: str
    ink: str
    grid: str
    shade: str


LIGHT = Theme("light", "#ffffff", "#1c1e21", "#d9dce1", "#cfe3cf")
DARK = Theme("dark", "#15181c", "#e4e6ea", "#3a3f46", "#274027")


def themed(theme: Theme) -> AbstractContextManager[None]:
    """Gives these colours to all drawing within."""
    return plt.rc_context(_params(theme))


def _params(theme: Theme) -> dict[str, Any]:
    return {
        "figure.facecolor": theme.paper,
        "axes.facecolor": theme.paper,
        "savefig.facecolor": theme.paper,
        "text.color": theme.ink,
        "axes.labelcolor": theme.ink,
        "axes.edgecolor": theme.grid,
        "axes.titlecolor": theme.ink,
        "xtick.color": theme.ink,
        "ytick.color": theme.ink,
        "grid.color": theme.grid,
        "axes.grid": True,
        "axes.axisbelow": True,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.titlelocation": "left",
        "axes.titlesize": 10,
        "legend.facecolor": theme.paper,
        "legend.edgecolor": theme.grid,
        "font.size": 9,
        # Equal data gives an equal file.
        "svg.hashsalt": "imtcp",
    }


def png(figure: Figure) -> bytes:
    """The figure as a PNG file, without a date, so that equal figures are equal files.

    It includes parts outside of the axes.  A palette reduces it to a third of the size.
    """
    drawn, out = io.BytesIO(), io.BytesIO()
    figure.savefig(drawn, format="png", dpi=DPI, bbox_inches="tight")
    plt.close(figure)
    with Image.open(drawn) as image:
        colours = image.convert("RGB").quantize(COLOURS, dither=Image.Dither.NONE)
    colours.save(out, format="png", optimize=True)
    return out.getvalue()


def legend_of_all(
    figure: Figure,
    panels: Iterable[Axes],
    *,
    most_columns: int,
    **placed: Any,  # noqa: ANN401 - as Figure.legend takes them
) -> None:
    """One legend for all panels, with each label once."""
    entries = {}
    for axes in panels:
        handles, labels = axes.get_legend_handles_labels()
        entries |= dict(zip(labels, handles, strict=True))
    if entries:
        columns = min(len(entries), most_columns)
        figure.legend(entries.values(), entries.keys(), ncols=columns, frameon=False, **placed)


def throughput(points: Sequence[Point], alone: Point, theme: Theme = LIGHT) -> bytes:
    """Throughput and available bandwidth over time, with a panel per control."""
    shown = [p for p in points if not p.scenario.control.is_none]
    capacity_bps = alone.scenario.path.capacity_bps
    active_us = round(alone.scenario.times.active_s * 1e6)
    spare_t, spare = series.available(alone.tables["queue"], capacity_bps, BIN_MS, active_us)
    with themed(theme):
        rows = (len(shown) + 1) // 2
        figure, grid = plt.subplots(
            rows, 2, figsize=(9, 0.7 + 2.1 * rows), sharex=True, sharey=True, squeeze=False
        )
        panels = list(grid.flat)
        for axes, point in zip(panels, shown, strict=False):
            _panel(axes, point, (spare_t, spare), capacity_bps, active_us, theme)
        for axes in panels[len(shown) :]:
            axes.set_visible(False)
        for axes in grid[:, 0]:
            axes.set_ylabel("Mbit/s")
        # sharex hides tick labels above an invisible panel, so show them again.
        for axes in panels[max(0, len(shown) - 2) : len(shown)]:
            axes.tick_params(labelbottom=True)
            axes.set_xlabel("s")
        legend_of_all(figure, panels[: len(shown)], most_columns=4, loc="lower center")
        figure.tight_layout(rect=(0, 0.3 / figure.get_figheight(), 1, 1))
        return png(figure)


def _panel(
    axes: Axes,
    point: Point,
    spare: series.Series,
    capacity_bps: float,
    active_us: int,
    theme: Theme,
) -> None:
    control = point.scenario.control
    colour = STYLES[control.name][0]
    axes.fill_between(
        spare[0],
        [v / 1e6 for v in spare[1]],
        step="mid",
        color=theme.shade,
        linewidth=0,
        label="available bandwidth",
    )
    times, rates = series.throughput(point.tables.get("tcp"), BIN_MS, active_us)
    axes.plot(times, [r / 1e6 for r in rates], color=colour, linewidth=1.6, label="transfer")
    est_t, est = series.estimate(point.tables.get("watch"))
    inside = [(t, v) for t, v in zip(est_t, est, strict=True) if 0 <= t <= active_us / 1e6]
    if inside:
        axes.plot(
            [t for t, _ in inside],
            [v / 1e6 for _, v in inside],
            color=theme.ink,
            linewidth=1,
            linestyle="--",
            label="measured by imtcp",
        )
    axes.axvspan(0, point.scenario.times.warmup_s, color=theme.grid, alpha=0.35, linewidth=0)
    axes.set_ylim(0, capacity_bps * 1.08 / 1e6)
    axes.set_xlim(0, active_us / 1e6)
    axes.set_title(control.label)


def plane(
    rows: Sequence[Mapping[str, Any]],
    theme: Theme = LIGHT,
    limit: Sequence[tuple[float, float]] = (),
) -> bytes:
    """The (I, U) plane: a point per control, a line from the least to the greatest seed, and a
    limit."""
    with themed(theme):
        figure, axes = plt.subplots(figsize=(6.4, 4.6))
        # Linear up to 1 %, logarithmic above: harm spans three decades.
        axes.set_xscale("symlog", linthresh=1.0, linscale=0.6)
        if limit:
            harm, used = [i * 100 for i, _ in limit], [u for _, u in limit]
            axes.plot(harm, used, color=theme.ink, linewidth=1, linestyle="--", zorder=1)
            axes.annotate(
                "what delayed information allows",
                (harm[0], used[0]),
                xytext=(0, -12),
                textcoords="offset points",
                ha="center",
            )
        shown: dict[str, tuple[float, float]] = {}
        for name in dict.fromkeys(row["control"] for row in rows):
            mine = [row for row in rows if row["control"] == name]
            both = [r for r in mine if r["I_mean"] is not None and r["U"] is not None]
            if not both or CONTROLS[name].is_none:
                continue
            harm = [row["I_mean"] * 100 for row in both]
            used = [row["U"] for row in both]
            colour, marker = STYLES[name]
            x, y = shown[name] = sum(harm) / len(harm), sum(used) / len(used)
            axes.hlines(y, min(harm), max(harm), color=colour, linewidth=1.2)
            axes.vlines(x, min(used), max(used), color=colour, linewidth=1.2)
            axes.plot(x, y, marker, color=colour, markersize=MARKER_PT)
        axes.set_xlabel("I: foreground's mean completion time, change in %")
        axes.set_ylabel("U: share of the spare bandwidth used")
        axes.set_ylim(0, max(1.1, axes.get_ylim()[1]))
        axes.set_xlim(left=-1)
        ticks = [0, 1, 3, 10, 30, 100, 300]
        axes.set_xticks(ticks, [str(t) for t in ticks])
        axes.minorticks_off()
        figure.tight_layout()
        _name_points(axes, shown, theme)
        return png(figure)


def _name_points(axes: Axes, shown: Mapping[str, tuple[float, float]], theme: Theme) -> None:
    """Puts each name where it overlaps least with other names and markers; far names get a line.

    It places names in the given order and never moves one again.  A library that optimises all
    places would need SciPy.
    """
    half = 0.6 * MARKER_PT * axes.figure.dpi / 72
    taken = [
        Bbox.from_bounds(x - half, y - half, 2 * half, 2 * half)
        for x, y in axes.transData.transform(list(shown.values()))
    ]
    for name, point in shown.items():
        tried = []
        for place in PLACES_PT:
            text = _beside(axes, name, point, place)
            # Names that touch read as one name.
            box = text.get_window_extent().padded(4, 0)
            tried.append((sum(_shared(box, other) for other in taken), len(tried), text, box))
        least = min(tried, key=lambda t: t[:2])
        taken.append(least[3])
        for _, index, text, _ in tried:
            if index != least[1]:
                text.remove()
        if max(map(abs, PLACES_PT[least[1]])) > NEAR_PT:
            line = {"arrowstyle": "-", "color": theme.ink, "linewidth": 0.6, "shrinkB": 4}
            _beside(axes, "", point, PLACES_PT[least[1]], line)


def _beside(
    axes: Axes,
    name: str,
    point: tuple[float, float],
    place_pt: tuple[float, float],
    line: Mapping[str, Any] | None = None,
) -> Annotation:
    dx, dy = place_pt
    return axes.annotate(
        name, point, place_pt, textcoords="offset points", fontsize=8, arrowprops=line,
        ha="left" if dx > 0 else "right" if dx < 0 else "center",
        va="bottom" if dy > 0 else "top" if dy < 0 else "center",
    )  # fmt: skip


def _shared(one: Bbox, other: Bbox) -> float:
    """The area of the overlap, in square pixels."""
    common = Bbox.intersection(one, other)
    return common.width * common.height if common is not None else 0.0
