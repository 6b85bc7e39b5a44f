"""``lab run EXPERIMENT``: measures, prints the table, stores the results."""

from __future__ import annotations

import argparse
import copy
import dataclasses
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from imtcp_lab import asked, results, sweep, vm
from imtcp_lab.controls import CONTROLS, Control, named
from imtcp_lab.engine import paths
from imtcp_lab.experiments import EXPERIMENTS, PAPERS, cpu, scoreboard
from imtcp_lab.experiments.base import Experiment
from imtcp_lab.job import LabError, MissingPrerequisite, Runner
from imtcp_lab.netns import NetnsRunner, has_netem
from imtcp_lab.options import add_options, out_directory
from imtcp_lab.results import Point
from imtcp_lab.scenario import Scenario
from imtcp_lab.tables import summary_records, text_table

EPILOG = """\
examples:
  lab run web --seeds 3 --controls none,reno,imtcp_bg
  lab run LP-T1 LP-F14 --quick       two of the papers' experiments, coarsely
  lab run --all --keep               all of them, for the report (lab report)

With --json several experiments print a document each, one after another (jq -s makes a list).
"""


def register(subparsers: argparse._SubParsersAction) -> None:
    """Adds ``lab run`` with a subcommand per experiment, ``lab bench`` and ``lab scoreboard``."""
    parser = subparsers.add_parser(
        "run",
        help="run an experiment and print its table",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--all", action="store_true", help="every experiment of the papers")
    _common(parser)
    parser.set_defaults(handler=_without_name)
    experiments = parser.add_subparsers(dest="experiment", metavar="EXPERIMENT")
    for experiment in EXPERIMENTS:
        _common(_add(experiments, experiment.name, experiment, experiment.help), inherited=True)
    text = f"{cpu.EXPERIMENT.help} (the experiment cpu)"
    _common(_add(subparsers, "bench", cpu.EXPERIMENT, text))
    _common(_add(subparsers, "scoreboard", scoreboard.EXPERIMENT, scoreboard.EXPERIMENT.help))


def _common(parser: argparse.ArgumentParser, *, inherited: bool = False) -> None:
    """Adds the options of every experiment. They also work before the experiment's name."""
    add = parser.add_argument
    actions = [
        add("--seeds", type=int, help="runs per point (the experiment's own; quick: 1)"),
        *add_options(parser, "--first-seed", "--kernel", "--jobs", "--json", "--fresh", "--redraw"),
        add(
            "--quick",
            action="store_true",
            help="one seed; the papers' figures also coarsely and briefly",
        ),
        add(
            "--netns",
            action="store_true",
            help="in real time in namespaces of the running kernel, not in virtual time",
        ),
        add(
            "--scheduler",
            "--cluster",
            dest="cluster",
            metavar="ADDRESS",
            help="run on a Dask cluster (tcp://host:8786)",
        ),
        add("--keep", action="store_true", help="keep the rows in lab/results, for lab report"),
    ]
    if inherited:
        # Without this, argparse would overwrite the inherited value with the default.
        for action in actions:
            action.default = argparse.SUPPRESS


def _add(
    subparsers: argparse._SubParsersAction, name: str, experiment: Experiment, text: str
) -> argparse.ArgumentParser:
    """Adds an experiment under a name."""
    one = subparsers.add_parser(name, help=text, description=text)
    if experiment.paper is not None:
        one.add_argument(
            "also",
            nargs="*",
            metavar="EXPERIMENT",
            type=_paper,
            help="more of the papers' experiments, one after another",
        )
    one.add_argument("--controls", metavar="A,B,…", help=",".join(experiment.controls))
    one.add_argument("--out", type=out_directory, help="directory (default: out/EXPERIMENT)")
    experiment.add_arguments(one)
    one.set_defaults(handler=_named, declared=experiment)
    return one


def _paper(name: str) -> str:
    """The name of an experiment of the papers, from its text."""
    if name not in {e.name for e in PAPERS}:
        raise argparse.ArgumentTypeError(f"{name!r} is none of the papers' (lab list shows them)")
    return name


def seed_numbers(args: argparse.Namespace) -> range:
    """The seeds of an experiment. Reported seeds differ from those used for tuning."""
    return range(args.first_seed, args.first_seed + args.seeds)


def choose(experiment: Experiment, names: str | list[str], *, to_run: bool = True) -> list[Control]:
    """The chosen controls, plus *none* if the experiment needs it as reference."""
    controls = named(names)
    if experiment.needs_none and not any(c.is_none for c in controls):
        controls.insert(0, CONTROLS["none"])
    program = paths.programs() / "imtcp"
    if to_run and not program.is_file() and any(c.needs_imtcp for c in controls):
        raise MissingPrerequisite(f"{program} is missing: {paths.BUILD_FIRST}")
    return controls


def _left_out(experiment: Experiment, chosen: Sequence[Control]) -> list[str]:
    """Controls of the experiment that are not chosen; a verdict needs all."""
    names = {control.name for control in chosen}
    return [name for name in experiment.controls if name not in names]


def _where(args: argparse.Namespace) -> tuple[str, Runner]:
    """The runner, and its name for file names."""
    if args.netns:
        return "netns", NetnsRunner()
    return args.kernel, vm.guests_of(args.kernel)


def _points(
    args: argparse.Namespace, scenarios: list[Scenario], runner: Runner, directory: Path
) -> list[Point]:
    """Reads or measures the points, as the arguments say."""
    if args.netns and not has_netem():
        try:
            scenarios = [
                dataclasses.replace(s, path=dataclasses.replace(s.path, delay_line=True))
                for s in scenarios
            ]
        except ValueError as error:
            raise MissingPrerequisite(
                f"the running kernel has no netem, and without it {args.declared.name} cannot be"
                f" run ({error}): leave --netns out"
            ) from error
    if args.redraw:
        return sweep.load_saved(scenarios, directory, partial=args.declared.partial)
    jobs = args.jobs
    if args.cluster:
        from imtcp_lab.cluster import ClusterRunner

        runner = ClusterRunner.connect(runner, args.cluster)
        jobs = runner.slots
    others = [] if args.out else sorted(directory.parents[1].glob("*/points-*"))
    try:
        return sweep.run_all(
            scenarios,
            runner,
            directory,
            jobs=jobs,
            fresh=args.fresh,
            label=args.declared.name,
            others=others,
        )
    except MissingPrerequisite:
        raise
    except LabError as error:
        if not args.declared.partial:
            raise
        print(f"lab: {error}", file=sys.stderr)
        return sweep.load_saved(scenarios, directory, partial=True)


def _environment(points: list[Point]) -> dict[str, Any]:
    """The environment that all points share."""
    shared = dict(points[0].meta["environment"]) if points else {}
    for own in ("params", "cost"):
        shared.pop(own, None)
    return shared


def _record(args: argparse.Namespace, place: str, points: list[Point]) -> dict[str, Any]:
    """The content of ``results-PLACE.json``."""
    experiment: Experiment = args.declared
    rows = experiment.rows(points)
    return {
        "schema": results.SCHEMA_VERSION,
        "experiment": experiment.name,
        "place": place,
        "quick": args.quick,
        "commits": results.commits(points),
        "asked": asked.digest([point.scenario for point in points]),
        "environment": _environment(points),
        "params": results.params(points),
        "rows": rows,
        "summaries": summary_records(rows, experiment.by, experiment.columns),
    }


def _refuse_to_keep_a_quick_one(name: str) -> None:
    """Refuses to replace a stored full form, which took hours; before any guest runs."""
    kept = results.kept(name)
    try:
        full = not json.loads(kept.read_text())["quick"]
    except (OSError, ValueError, KeyError):
        return  # none, or a broken one
    if full:
        raise ValueError(
            f"{kept} holds the full form, which a quick one does not replace: remove it first if"
            " it should, or leave --keep out"
        )


def _run(args: argparse.Namespace) -> int:
    """Runs one experiment as the arguments say."""
    experiment: Experiment = args.declared
    if args.seeds is None:
        args.seeds = 1 if args.quick else experiment.seeds
    try:
        if min(args.seeds, args.jobs, args.first_seed) < 1:
            raise ValueError("--seeds, --first-seed and --jobs are at least 1")
        if args.fresh and args.redraw:
            raise ValueError("--fresh runs all again and --redraw runs nothing: choose one")
        args.seed_numbers = seed_numbers(args)
        wanted = list(experiment.controls) if args.controls is None else args.controls
        args.chosen = choose(experiment, wanted, to_run=not args.redraw)
        left_out = _left_out(experiment, args.chosen)
        if args.keep and left_out:
            raise ValueError(f"--keep is of all its controls: {', '.join(left_out)} are missing")
        if args.keep and args.quick:
            _refuse_to_keep_a_quick_one(experiment.name)
        scenarios = experiment.scenarios(args)
    except ValueError as error:
        print(f"lab run {experiment.name}: {error}", file=sys.stderr)
        return 2
    out = args.out or paths.checkout() / "out" / experiment.name
    if not args.redraw:
        results.ready(out)
    place, runner = _where(args)
    if args.quick and experiment.paper is not None:
        # The quick form's points have the same names, but must not replace the full form's.
        place += "-quick"
    points = _points(args, scenarios, runner, out / f"points-{place}")
    record = results.plain(_record(args, place, points))
    rows = record["rows"]
    results.write_json(out / f"results-{place}.json", record)
    if args.keep:
        results.write_json(results.kept(experiment.name), record, indent=None)
    for name, content in experiment.figures(rows, points).items():
        results.write_bytes(out / name, content)
    code = 4 if len(points) < len(scenarios) and not args.redraw else 0
    verdict = None
    if experiment.paper is not None and not left_out:
        verdict = experiment.paper.verdict(rows)
    if args.json:
        judged = {"verdict": verdict.word, "claims": verdict.records} if verdict else {}
        print(json.dumps(record | judged, indent=2))
        return code
    if experiment.text is not None:
        print(experiment.text(rows))
    else:
        print(text_table(rows, experiment.by, experiment.columns))
    if verdict is not None:
        quick = " (quick form: a look, not a verdict)" if args.quick else ""
        print(f"\n{experiment.name}: {verdict.word}{quick}\n{verdict.told}")
    elif experiment.paper is not None:
        print(f"\n{experiment.name}: no verdict, which takes {', '.join(left_out)} too")
    return code


def _each(experiments: Sequence[Experiment], args: argparse.Namespace) -> int:
    """Runs experiments one after another; a failure does not stop the others."""
    failed = []
    for experiment in experiments:
        own = copy.copy(args)
        own.declared = experiment
        own.controls = own.out = None
        try:
            code = _run(own)
        except MissingPrerequisite:
            raise
        except LabError as error:
            print(f"lab run {experiment.name}: {error}", file=sys.stderr)
            code = 4
        if code == 2:
            return code
        if code:
            failed.append(experiment.name)
    if failed:
        raise LabError(f"failed: {', '.join(failed)}; all else is done, run again for these")
    return 0


def _named(args: argparse.Namespace) -> int:
    """``lab run NAME…``."""
    also = getattr(args, "also", [])
    if getattr(args, "all", False):
        print("lab run: --all, or experiments by name: choose one", file=sys.stderr)
        return 2
    if not also:
        return _run(args)
    if args.out or args.controls:
        print("lab run: --out and --controls are of one experiment", file=sys.stderr)
        return 2
    wanted = {args.declared.name, *also}
    return _each([e for e in PAPERS if e.name in wanted], args)


def _without_name(args: argparse.Namespace) -> int:
    """``lab run --all``."""
    if not args.all:
        print("lab run: name an experiment (lab list shows them), or --all", file=sys.stderr)
        return 2
    return _each(PAPERS, args)
