"""``lab run EXPERIMENT``: measure, print the table, keep the results."""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import sys
from pathlib import Path
from typing import Any

from imtcp_lab import results, sweep
from imtcp_lab.controls import CONTROLS, Control, named
from imtcp_lab.engine import paths
from imtcp_lab.experiments import EXPERIMENTS, cpu
from imtcp_lab.experiments.base import Experiment
from imtcp_lab.job import MissingPrerequisite, Runner
from imtcp_lab.netns import NetnsRunner, has_netem
from imtcp_lab.results import Point
from imtcp_lab.scenario import Scenario
from imtcp_lab.tables import summaries, text_table
from imtcp_lab.vm import VmRunner


def register(subparsers: argparse._SubParsersAction) -> None:
    """Add ``lab run`` with a subcommand per experiment, and ``lab bench``."""
    parser = subparsers.add_parser("run", help="run an experiment and print its table")
    experiments = parser.add_subparsers(dest="experiment", metavar="EXPERIMENT", required=True)
    for experiment in EXPERIMENTS:
        _add(experiments, experiment.name, experiment, experiment.help)
    _add(subparsers, "bench", cpu.EXPERIMENT, f"{cpu.EXPERIMENT.help} (the experiment cpu)")


def _add(
    subparsers: argparse._SubParsersAction, name: str, experiment: Experiment, text: str
) -> None:
    """One experiment under a name."""
    one = subparsers.add_parser(name, help=text, description=text)
    one.add_argument("--seeds", type=int, default=experiment.seeds, help="runs per point")
    one.add_argument("--first-seed", type=int, default=1, help="the seeds count from here (1)")
    one.add_argument("--controls", default=",".join(experiment.controls), metavar="A,B,…")
    one.add_argument("--kernel", default="6.12", help="kernel series of the guest")
    one.add_argument(
        "--netns",
        action="store_true",
        help="in real time in namespaces of the running kernel, not in virtual time",
    )
    one.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="guests at once")
    one.add_argument("--cluster", metavar="ADDRESS", help="run on a Dask cluster (tcp://host:8786)")
    one.add_argument("--json", action="store_true", help="print rows as JSON")
    one.add_argument("--fresh", action="store_true", help="run again what is saved already")
    one.add_argument(
        "--redraw", action="store_true", help="from saved results, whatever made them: run nothing"
    )
    one.add_argument("--out", type=Path, help="directory (default: out/EXPERIMENT)")
    experiment.add_arguments(one)
    one.set_defaults(handler=main, declared=experiment)


def seed_numbers(args: argparse.Namespace) -> range:
    """The seeds of an experiment: those reported are not those that something was tuned with."""
    return range(args.first_seed, args.first_seed + args.seeds)


def choose(experiment: Experiment, names: str, *, to_run: bool = True) -> list[Control]:
    """The wanted controls, with *none* where it is the yardstick."""
    controls = named(names)
    if experiment.needs_none and not any(c.is_none for c in controls):
        controls.insert(0, CONTROLS["none"])
    program = paths.programs() / "imtcp"
    if to_run and not program.is_file() and any(c.needs_imtcp for c in controls):
        raise MissingPrerequisite(f"{program} is missing: run make build first")
    return controls


def _where(args: argparse.Namespace) -> tuple[str, Runner]:
    """The runner and its name in the names of files."""
    if args.netns:
        return "netns", NetnsRunner()
    return args.kernel, VmRunner(kernel=args.kernel)


def _points(
    args: argparse.Namespace, scenarios: list[Scenario], runner: Runner, directory: Path
) -> list[Point]:
    """Saved or measured, as the arguments say."""
    if args.netns and not has_netem():
        scenarios = [
            dataclasses.replace(s, path=dataclasses.replace(s.path, delay_line=True))
            for s in scenarios
        ]
    if args.redraw:
        return sweep.load_all(scenarios, directory)
    jobs = args.jobs
    if args.cluster:
        from imtcp_lab.cluster import ClusterRunner

        runner = ClusterRunner.connect(runner, args.cluster)
        jobs = runner.slots
    label = args.declared.name
    return sweep.run_all(scenarios, runner, directory, jobs=jobs, fresh=args.fresh, label=label)


def main(args: argparse.Namespace) -> int:
    """Run one experiment as the arguments say."""
    experiment: Experiment = args.declared
    try:
        if args.seeds < 1 or args.jobs < 1:
            raise ValueError("--seeds and --jobs are at least 1")
        args.seed_numbers = seed_numbers(args)
        args.chosen = choose(experiment, args.controls, to_run=not args.redraw)
        scenarios = experiment.scenarios(args)
    except ValueError as error:
        print(f"lab run {experiment.name}: {error}", file=sys.stderr)
        return 2
    out = args.out or paths.checkout() / "out" / experiment.name
    place, runner = _where(args)
    points = _points(args, scenarios, runner, out / f"points-{place}")
    rows = experiment.rows(points)
    record: dict[str, Any] = {
        "schema": results.SCHEMA_VERSION,
        "experiment": experiment.name,
        "place": place,
        "commits": results.commits(points),
        "environment": dict(points[0].meta["environment"]),
        "rows": rows,
        "summaries": [
            {k: vars(v) if hasattr(v, "half_width_95") else v for k, v in summary.items()}
            for summary in summaries(rows, experiment.by, experiment.columns)
        ],
    }
    results.write_json(out / f"results-{place}.json", record)
    for name, content in experiment.figures(rows, points).items():
        results.write_bytes(out / name, content)
    if args.json:
        print(json.dumps(results.plain(record), indent=2))
    else:
        print(text_table(rows, experiment.by, experiment.columns))
    return 0
