"""``lab list``, ``lab show``, ``lab report``: the papers' figures beside ours."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from imtcp_lab import asked, papers_report, results
from imtcp_lab.controls import named
from imtcp_lab.engine import paths
from imtcp_lab.experiments import EXPERIMENTS, PAPERS, scoreboard
from imtcp_lab.experiments.base import Experiment
from imtcp_lab.job import LabError, MissingPrerequisite
from imtcp_lab.options import out_directory
from imtcp_lab.scenario import Scenario
from imtcp_lab.sweep import SETUP_S, ProgressBar
from imtcp_lab.tables import aligned, text_table


def register(subparsers: argparse._SubParsersAction) -> None:
    """Add the three commands."""
    one = subparsers.add_parser("list", help="every experiment, and how the papers' came out")
    one.add_argument("--json", action="store_true", help="as JSON")
    one.set_defaults(handler=list_all)
    one = subparsers.add_parser(
        "show", help="an experiment of the papers: expectation, ours, verdict"
    )
    one.add_argument("experiment", choices=[e.name for e in PAPERS], metavar="EXPERIMENT")
    one.add_argument("--json", action="store_true", help="as JSON")
    one.set_defaults(handler=show)
    one = subparsers.add_parser(
        "report",
        help="one page (HTML and Markdown) with every figure of the papers beside ours, and the"
        " scoreboard",
        description="Draws what lab/results keeps (lab run EXPERIMENT --keep) and runs nothing.",
    )
    one.add_argument("--out", type=out_directory, help="directory (default: out/report)")
    one.set_defaults(handler=report)


def load_kept(experiment: Experiment) -> dict[str, Any] | None:
    """The stored rows; None if there are none."""
    path = results.kept(experiment.name)
    anew = f"lab run {experiment.name} --keep makes it anew"
    try:
        record: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise LabError(f"{path} cannot be read ({error}): {anew}") from error
    if not isinstance(record, dict) or record.get("schema") != results.SCHEMA_VERSION:
        raise LabError(f"{path} is of another schema: {anew}")
    if record.get("experiment") != experiment.name or not record.get("rows"):
        raise LabError(f"{path} holds no rows of {experiment.name}: {anew}")
    try:
        if experiment.paper is not None:
            papers_report.section(experiment, record, pictures=False)
    except (LookupError, TypeError, ValueError, AttributeError, ArithmeticError) as error:
        # The row's fields changed after the row was stored.
        raise LabError(f"{path} holds rows of another form ({error!r}): {anew}") from error
    lacking = _lacking(experiment, record["rows"])
    if lacking:
        raise LabError(f"{path} is not whole, {', '.join(lacking)} missing: {anew}")
    if experiment.paper is not None and "asked" in record:
        seeds = sorted({row["seed"] for row in record["rows"]})
        if record["asked"] != asked.digest(_scenarios(experiment, seeds, quick=record["quick"])):
            raise LabError(f"{path} is of other scenarios than {experiment.name} has now: {anew}")
    return record


def _lacking(experiment: Experiment, rows: Sequence[dict[str, Any]]) -> list[str]:
    """Controls that lack a row for some seed. Only some experiments have rows of *none*, so it may
    lack."""
    seeds = {row["seed"] for row in rows}
    there = {(row.get("control"), row["seed"]) for row in rows}
    return [
        control
        for control in experiment.controls
        if control != "none" and any((control, seed) not in there for seed in seeds)
    ]


def load_each(experiments: Sequence[Experiment]) -> tuple[dict[str, Any], dict[str, str]]:
    """Stored records by name, and the faults of unreadable ones. A fault does not stop the
    others."""
    records, wrong = {}, {}
    for experiment in experiments:
        try:
            records[experiment.name] = load_kept(experiment)
        except MissingPrerequisite:
            raise
        except LabError as error:
            wrong[experiment.name] = error.message
            print(f"lab: {error}", file=sys.stderr)
    return records, wrong


def _scenarios(experiment: Experiment, seeds: Sequence[int], *, quick: bool) -> list[Scenario]:
    """The scenarios of an experiment with these seeds and all its controls."""
    chosen = named(list(experiment.controls))
    args = argparse.Namespace(quick=quick, seed_numbers=seeds, chosen=chosen)
    return experiment.scenarios(args)


def _virtual_s(experiment: Experiment, *, quick: bool) -> float:
    """Virtual seconds of all guests together."""
    seeds = range(1, 1 + (1 if quick else experiment.seeds))
    return sum(s.times.total_s + SETUP_S for s in _scenarios(experiment, seeds, quick=quick))


def _told(experiment: Experiment, record: dict[str, Any] | None) -> dict[str, Any]:
    """The data that ``list`` and ``show`` print about one experiment."""
    told: dict[str, Any] = {"name": experiment.name, "help": experiment.help}
    paper = experiment.paper
    if paper is None:
        return told | {"source": None, "verdict": None}
    verdict = paper.verdict(record["rows"]) if record else None
    return told | {
        "source": paper.source,
        "expected": paper.expected,
        "choices": paper.choices,
        "reason": paper.reason,
        "virtual_s": _virtual_s(experiment, quick=False),
        "quick_virtual_s": _virtual_s(experiment, quick=True),
        "verdict": verdict.word if verdict else None,
        "claims": verdict.records if verdict else [],
        "quick": record["quick"] if record else None,
        "commits": record["commits"] if record else [],
    }


def list_all(args: argparse.Namespace) -> int:
    """``lab list``."""
    records, wrong = load_each(PAPERS)
    code = 4 if wrong else 0
    if args.json:
        print(json.dumps([_told(e, records.get(e.name)) for e in EXPERIMENTS], indent=2))
        return code
    rows = []
    for e in EXPERIMENTS:
        section = papers_report.section(e, records.get(e.name), pictures=False) if e.paper else None
        word = papers_report.NOT_READABLE if e.name in wrong else section.shown if section else ""
        rows.append([e.name, word, e.help])
    print(aligned(["experiment", "papers' figure", "what is run"], rows, 3))
    return code


def show(args: argparse.Namespace) -> int:
    """``lab show ID``."""
    experiment = next(e for e in PAPERS if e.name == args.experiment)
    record = load_kept(experiment)
    told = _told(experiment, record)
    if args.json:
        print(json.dumps(told | {"rows": record["rows"] if record else []}, indent=2))
        return 0
    paper = experiment.paper
    assert paper is not None
    print(f"{told['name']}: {told['help']}\n{told['source']}\n")
    print(f"expected  {told['expected']}\nchoices   {told['choices']}")
    print(
        f"cost      {told['virtual_s'] / 60:.0f} minutes of virtual time with its"
        f" {experiment.seeds} seeds, {told['quick_virtual_s'] / 60:.1f} with --quick"
    )
    if record is None:
        print(f"\nnothing is kept: lab run {experiment.name} --keep")
        return 0
    print(f"\n{text_table(record['rows'], experiment.by, experiment.columns)}\n")
    section = papers_report.section(experiment, record, pictures=False)
    assert section.verdict is not None
    print(f"verdict   {section.shown}\n{section.verdict.told}")
    if section.reason:
        print(f"reason    {section.reason}")
    for name, value in section.facts.items():
        print(f"{name:9} {value}")
    return 0


def report(args: argparse.Namespace) -> int:
    """``lab report``."""
    out: Path = args.out or paths.checkout() / "out" / "report"
    results.ready(out)
    records, wrong = load_each(PAPERS)
    sections = []
    # Drawing takes half a minute.
    progress = ProgressBar(len(PAPERS), "report")
    progress.points = len(PAPERS)
    for e in PAPERS:
        progress.show(progress.finished, force=e is PAPERS[0])
        sections.append(
            papers_report.section(e, records.get(e.name), problem=wrong.get(e.name, ""))
        )
        progress.finished += 1
    progress.close()
    board, broken = load_each([scoreboard.EXPERIMENT])
    kept = board.get(scoreboard.EXPERIMENT.name)
    standing = scoreboard.pages(kept["rows"], kept["environment"], kept["commits"]) if kept else {}
    made = papers_report.files(sections, "scoreboard.html" if standing else "") | standing
    for name, content in made.items():
        results.write_bytes(out / name, content)
    missing = [s.name for s in sections if s.word == papers_report.NOT_RUN]
    print(f"report: {', '.join(str(out / name) for name in made if not name.endswith('.png'))}")
    if missing:
        print(f"not run: {', '.join(missing)}", file=sys.stderr)
    return 4 if wrong or broken else 0
