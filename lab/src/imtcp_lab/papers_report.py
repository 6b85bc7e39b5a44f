"""The report on the papers' figures: one HTML page, and the same as Markdown."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from imtcp_lab import report, results
from imtcp_lab.experiments.base import Experiment
from imtcp_lab.experiments.paper import DIFFERS, NOT_REPRODUCED, REPRODUCED, Paper, Verdict
from imtcp_lab.figures import DARK, LIGHT
from imtcp_lab.tables import text_cells

NOT_RUN, NOT_READABLE = "not run", "not readable"

#: Explanations of names in tables and texts.
WORDS = {
    "[IM], [BG], [LP], [EN], [SL]": "the papers: ImTCP, ImTCP-bg, TCP-LP, ENABLE, and the slides of"
    " ImTCP-bg (docs/reference/paper-to-code.md)",
    "U": "the share of the spare bandwidth that the background uses",
    "I": "the added time of the web's objects, relative to the time without a background: mean,"
    " 95th percentile (p95), and mean of objects up to 30 kB (small)",
    "imtcp_bg, imtcp_fs, imtcp_lp, imtcp_lpecn, imtcp_nice": "this project's ImTCP-bg, full speed,"
    " TCP-LP by delay and by marks, TCP Nice, in pictures with (imtcp) or imtcp before the name",
    "paper, paper_bg, paper_fs": "ImTCP, ImTCP-bg and full speed as their papers print them",
    "tcp_lp": "the kernel's own TCP-LP, in pictures TCP-LP (kernel)"
    " (docs/explanation/tcp-lp-in-linux.md)",
    "none": "the same run without a background",
    "pause=0": "a parameter of a connection (docs/reference/parameters.md): no pause between"
    " measurements",
}


@dataclass(frozen=True)
class Section:
    """One table or figure."""

    name: str
    title: str
    paper: Paper
    #: None: no stored rows.
    verdict: Verdict | None = None
    table: report.Table | None = None
    picture: report.Picture | None = None
    details: Mapping[str, str] | None = None
    #: The commits at which the rows were measured.
    commits: Sequence[str] = ()
    #: The rows are of one seed and a coarse sweep: too little for a verdict.
    quick: bool = False
    #: Seeds behind each number; 0: the numbers are computed.
    seeds: int = 0
    #: The fault of the stored rows, and the remedy; empty: none.
    problem: str = ""

    @property
    def word(self) -> str:
        """The verdict in a word or two."""
        if self.verdict is None:
            return NOT_READABLE if self.problem else NOT_RUN
        return self.verdict.word

    @property
    def reason(self) -> str:
        """The reason why ours differs; empty if it does not."""
        return self.paper.why(self.verdict) if self.verdict else ""

    @property
    def facts(self) -> dict[str, str]:
        """The details, and the commits since then, which come from git."""
        assert self.details is not None
        return {**self.details, "commit": results.told_of(self.commits)}

    @property
    def shown(self) -> str:
        """The verdict, with the number of claims that hold and of seeds."""
        if self.verdict is None:
            return self.word
        claims = self.verdict.claims
        rests = f"{sum(c.holds for c in claims)} of {len(claims)} claims"
        if self.quick:
            rests += ", quick form"
        elif not self.seeds:
            rests += ", computed"
        else:
            rests += ", one seed" if self.seeds == 1 else f", {self.seeds} seeds"
        return f"{self.word} ({rests})"


def section(
    experiment: Experiment,
    record: Mapping[str, Any] | None,
    *,
    pictures: bool = True,
    problem: str = "",
) -> Section:
    """The section of an experiment from its stored rows. `problem`: the reason why they are
    unreadable."""
    paper = experiment.paper
    assert paper is not None
    title = experiment.help[0].upper() + experiment.help[1:]
    if record is None:
        return Section(experiment.name, title, paper, problem=problem)
    rows = record["rows"]
    cells = text_cells(rows, experiment.by, experiment.columns)
    table = report.Table(*cells, names=len(experiment.by))
    picture = _picture(experiment, rows) if pictures else None
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
        record["commits"],
        quick=record["quick"],
        # A model is computed, so it has no seeds.
        seeds=len(seeds) if experiment.controls else 0,
    )


def _picture(experiment: Experiment, rows: Sequence[Mapping[str, Any]]) -> report.Picture:
    paper = experiment.paper
    assert paper is not None
    caption = (
        f"After {paper.source}. Lines over time are of the first seed, and distributions of all"
        " seeds together. Other lines and bars are means, with the range of the seeds if there are"
        " several."
    )
    return report.Picture(experiment.name, caption, paper.draw(rows, LIGHT), paper.draw(rows, DARK))


def _again(experiment: Experiment, seeds: Sequence[int], *, quick: bool) -> str:
    """The command that makes these rows again, with as many seeds."""
    command = f"lab run {experiment.name} --keep"
    if quick:
        return command + " --quick"
    # An experiment without controls runs nothing; its seeds only number the rows.
    if experiment.controls and len(seeds) != experiment.seeds:
        command += f" --seeds {len(seeds)}"
    return command


def files(sections: Sequence[Section], board: str = "") -> dict[str, bytes]:
    """``papers.html`` with everything, and ``papers.md`` with its pictures.

    `board`: the page of the scoreboard beside it, if there is one.
    """
    words = {
        REPRODUCED: "reproduced",
        DIFFERS: "that differ",
        NOT_REPRODUCED: "not reproduced",
        NOT_RUN: "not run",
        NOT_READABLE: "not readable",
    }
    counts = {
        told: sum(s.word == word for s in sections if not s.quick) for word, told in words.items()
    }
    if not counts["not readable"]:
        del counts["not readable"]
    counts["in their quick form alone"] = sum(s.quick for s in sections)
    told = {"sections": sections, "counts": counts, "words": WORDS, "board": board}
    html = report.render_page("papers.html.j2", **told)
    markdown = report.render_page("papers.md.j2", **told)
    out = {"papers.html": html.encode(), "papers.md": markdown.encode()}
    out |= {f"{s.name}.png": s.picture.light_png for s in sections if s.picture}
    return out
