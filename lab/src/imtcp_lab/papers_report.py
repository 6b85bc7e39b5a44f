"""The report on the papers' figures: one HTML page, and the same as Markdown."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from imtcp_lab import report
from imtcp_lab.experiments.base import Experiment
from imtcp_lab.experiments.paper import DIFFERS, NOT_REPRODUCED, REPRODUCED, Paper, Verdict
from imtcp_lab.figures import DARK, LIGHT
from imtcp_lab.tables import text_cells

NOT_RUN = "not run"


@dataclass(frozen=True)
class Section:
    """One table or figure."""

    name: str
    title: str
    paper: Paper
    #: None: nothing is kept.
    verdict: Verdict | None = None
    table: report.Table | None = None
    picture: report.Picture | None = None
    details: Mapping[str, str] | None = None

    #: From one seed and a coarse sweep: less than a verdict.
    quick: bool = False

    @property
    def word(self) -> str:
        """The verdict in a word or two."""
        return self.verdict.word if self.verdict else NOT_RUN

    @property
    def reason(self) -> str:
        """Why ours differs; empty where it does not."""
        return self.paper.why(self.verdict) if self.verdict else ""

    @property
    def shown(self) -> str:
        """The same, with how much it rests on."""
        return f"{self.word} (quick form)" if self.quick else self.word


def section(experiment: Experiment, record: Mapping[str, Any] | None) -> Section:
    """From the kept rows, if there are any."""
    paper = experiment.paper
    assert paper is not None
    title = experiment.help[0].upper() + experiment.help[1:]
    if record is None:
        return Section(experiment.name, title, paper)
    rows = record["rows"]
    table = report.Table(*text_cells(rows, experiment.by, experiment.columns))
    picture = report.Picture(
        experiment.name,
        f"After {paper.source}; lines and bars are means, shades and strokes the range of seeds.",
        paper.draw(rows, LIGHT),
        paper.draw(rows, DARK),
    )
    environment = record["environment"]
    seeds = sorted({row["seed"] for row in rows})
    details = {
        "again": _again(experiment, seeds, quick=record["quick"]),
        "seeds": ", ".join(map(str, seeds)),
        "kernel": str(environment.get("kernel", "none: computed")),
        "commit": ", ".join(record["commits"]) or "-",
        "form": "quick" if record["quick"] else "full",
    }
    return Section(
        experiment.name,
        title,
        paper,
        paper.verdict(rows),
        table,
        picture,
        details,
        quick=record["quick"],
    )


def _again(experiment: Experiment, seeds: Sequence[int], *, quick: bool) -> str:
    """The command that makes these rows, no fewer seeds and no more."""
    command = f"lab run {experiment.name} --keep"
    if quick:
        return command + " --quick"
    # Without controls nothing is run, and a seed is a number of a row.
    if experiment.controls and len(seeds) != experiment.seeds:
        command += f" --seeds {len(seeds)}"
    return command


def files(sections: Sequence[Section]) -> dict[str, bytes]:
    """``papers.html``, which holds everything, and ``papers.md`` with its pictures."""
    words = (REPRODUCED, DIFFERS, NOT_REPRODUCED, NOT_RUN)
    counts = {word: sum(s.word == word for s in sections) for word in words}
    html = report.render_page("papers.html.j2", sections=sections, counts=counts)
    markdown = report.render_page("papers.md.j2", sections=sections, counts=counts)
    out = {"papers.html": html.encode(), "papers.md": markdown.encode()}
    out |= {f"{s.name}.png": s.picture.light_png for s in sections if s.picture}
    return out
