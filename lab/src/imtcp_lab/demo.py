"""``lab demo``: one upload beside web traffic, under each control in turn."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from imtcp_lab import figures, measured, report, results, sweep, vm
from imtcp_lab.controls import CONTROLS, Control, named
from imtcp_lab.engine import paths
from imtcp_lab.figures import DARK, LIGHT
from imtcp_lab.job import MissingPrerequisite, Runner
from imtcp_lab.metrics import SMALL_BYTES
from imtcp_lab.options import add_options, out_directory
from imtcp_lab.results import Point
from imtcp_lab.scenario import Scenario
from imtcp_lab.tables import Column, as_number, as_percent, text_cells, text_table
from imtcp_lab.topology import Dumbbell
from imtcp_lab.traffic import Rsync, Times, Web

DEFAULT_CONTROLS = ("none", "cubic", "bbr", "tcp_lp", "imtcp_bg", "priority")
PATH = Dumbbell(capacity_bps=50e6, background_rtt_ms=30, buffer_pkts=1000)
WEB = Web(load=0.4)
#: Short, because somebody waits for the demo.
TIMES = Times(warmup_s=4, measure_s=9, drain_s=1.5)

COLUMNS = (
    Column("U", "U"),
    Column("I_mean", "I mean", as_percent),
    Column("I_p95", "I p95", as_percent),
    Column("I_small", "I small", as_percent),
    Column("queue_pkts_mean", "mean queue, packets", lambda v: as_number(v, 1)),
)
#: The keys of ``results.json``.
RESULT_KEYS = ("control", "seed", *(column.key for column in COLUMNS))

NOTES = (
    ("U", "The upload's goodput over the spare bandwidth: capacity less what the web traffic "
     "carries when nothing disturbs it. 1 means that the upload wastes nothing; more than 1 "
     "that it took from the web."),
    ("I mean, p95, small", "How much longer the web's objects took than without the upload: "
     f"mean, 95th percentile, and mean of objects up to {SMALL_BYTES // 1000} kB. "
     "The same objects arrive at the same times in every run of a seed."),
    ("mean queue", "Packets waiting at the bottleneck before each packet of the web traffic."),
    ("imtcp_bg", "The upload under “imtcp run --mode bg”; all others are the kernel's own "
     "congestion controls."),
    ("priority", "The bottleneck itself serves the web first. No sender can do better: "
     "this is the ideal."),
    ("small print", "Beneath a mean: the least and the greatest of the seeds."),
)  # fmt: skip


def register(subparsers: argparse._SubParsersAction) -> None:
    """Add ``lab demo``."""
    parser = subparsers.add_parser(
        "demo",
        help="upload with rsync beside web traffic, under each control in turn",
        epilog="IMTCP_PROGRAMS in the environment names the directory with imtcp and imtcp-load"
        " (default target/release, of make build; make demo has its own in target/demo).",
    )
    parser.add_argument("--seeds", type=int, default=3, help="runs per control (default 3)")
    parser.add_argument("--controls", default=",".join(DEFAULT_CONTROLS), metavar="A,B,…")
    parser.add_argument("--out", type=out_directory, help="directory (default: out/demo)")
    add_options(parser, "--kernel", "--jobs", "--fresh", "--redraw")
    parser.set_defaults(handler=main)


def scenarios(controls: Sequence[Control], seeds: int) -> list[Scenario]:
    """All points, in order of seed, so that the first complete set is there early."""
    return [
        Scenario(PATH, WEB, Rsync(), control, TIMES, seed=seed)
        for seed in range(1, seeds + 1)
        for control in controls
    ]


def available_controls(names: str, *, to_run: bool = True) -> list[Control]:
    """The controls of these names; an error if one is `to_run` and its imtcp is not built."""
    controls = named(names)
    if all(control.is_none for control in controls):
        raise ValueError("none is what the others are compared with: name one more in --controls")
    if not any(control.is_none for control in controls):
        controls.insert(0, CONTROLS["none"])
    needing = [control.name for control in controls if control.needs_imtcp]
    program = paths.programs() / "imtcp"
    if to_run and needing and not program.is_file():
        raise MissingPrerequisite(
            f"{', '.join(needing)} needs {program}: {paths.BUILD_FIRST}, or leave it out with"
            " --controls"
        )
    return controls


def main(args: argparse.Namespace) -> int:
    """Runs the demo, prints the table, writes the report."""
    if args.seeds < 1 or args.jobs < 1:
        print("lab demo: --seeds and --jobs are at least 1", file=sys.stderr)
        return 2
    try:
        controls = available_controls(args.controls, to_run=not args.redraw)
    except ValueError as error:
        print(f"lab demo: {error}", file=sys.stderr)
        return 2
    out = args.out or paths.checkout() / "out" / "demo"
    runner = vm.guests_of(args.kernel)
    if args.redraw:
        points = sweep.load_saved(scenarios(controls, args.seeds), out / "points")
    else:
        points = run(controls, args.seeds, runner, out, jobs=args.jobs, fresh=args.fresh)
    rows = measured.rows(points)
    print(text_table(rows, ("control",), COLUMNS))
    write_outputs(out, points, rows, args.seeds)
    print(f"\nreport: {_shown(out / 'report.html')}")
    return 0


def run(
    controls: Sequence[Control],
    seeds: int,
    runner: Runner,
    out: Path,
    *,
    jobs: int,
    fresh: bool,
) -> list[Point]:
    """Measures all points."""
    wanted = scenarios(controls, seeds)
    return sweep.run_all(wanted, runner, out / "points", jobs=jobs, fresh=fresh, label="demo")


def _shown(path: Path) -> str:
    try:
        return str(path.relative_to(Path.cwd()))
    except ValueError:
        return str(path)


def write_outputs(
    out: Path, points: Sequence[Point], rows: Sequence[dict[str, Any]], seeds: int
) -> None:
    """Writes ``results.json``, the pictures and the report, each either complete or not at all."""
    results.write_json(
        out / "results.json", [{key: row.get(key) for key in RESULT_KEYS} for row in rows]
    )
    first = [p for p in points if p.scenario.seed == 1]
    alone = next(p for p in first if p.scenario.control.is_none)
    pictures = [
        report.Picture(
            "Throughput over time",
            "Green: what the web traffic leaves free (from the run without upload, seed 1). "
            "Coloured: the upload. Dashed: the available bandwidth as imtcp measures it from "
            "the upload's own packets. Grey: not judged.",
            figures.throughput(first, alone, LIGHT),
            figures.throughput(first, alone, DARK),
        ),
        report.Picture(
            "The two axes",
            "Best is top left: all spare bandwidth used, the web unharmed. "
            "Lines: least to greatest of the seeds.",
            figures.plane(rows, LIGHT),
            figures.plane(rows, DARK),
        ),
    ]
    results.write_bytes(out / "throughput.png", pictures[0].light_png)
    results.write_bytes(out / "plane.png", pictures[1].light_png)
    results.write_text(out / "report.html", _html(points, rows, pictures, seeds))


def _html(
    points: Sequence[Point],
    rows: Sequence[dict[str, Any]],
    pictures: Sequence[report.Picture],
    seeds: int,
) -> str:
    environment = points[0].meta["environment"]
    titles, lines = text_cells(rows, ("control",), COLUMNS)
    table = report.Table(
        titles,
        lines,
        marked=frozenset({"imtcp_bg"}),
    )
    summary = (
        f"rsync uploads a file tree over a line of {PATH.capacity_bps / 1e6:.0f} Mbit/s "
        f"(round trip {PATH.background_rtt_ms:.0f} ms, buffer {PATH.buffer_pkts} packets = "
        f"{PATH.buffer_pkts / PATH.bdp_pkts:.0f} bandwidth-delay products), while web traffic "
        f"loads the same line to {WEB.load:.0%} on average. Each control gets the same web "
        f"traffic, {TIMES.measure_s:.0f} s of it judged, with {seeds} "
        f"{'seed' if seeds == 1 else 'seeds'}.",
    )
    details = {
        "kernel": f"{environment.get('kernel')} ({environment.get('kernel_package')})",
        "machine": f"{environment.get('qemu')}, virtual time: the same inputs give the same bytes",
        "commit": ", ".join(results.commits(points)),
        "web traffic": f"Poisson arrivals, Pareto sizes (shape {WEB.shape:g}, mean "
        f"{WEB.mean_bytes // 1000} kB, at most {WEB.max_bytes // 1_000_000} MB), a connection "
        f"each, {WEB.congestion_control.upper()}, round trips "
        + ", ".join(f"{ms:g}" for ms in PATH.foreground_rtts_ms)
        + " ms",
        "result files": "points/*/ beside this report: raw samples in Parquet, "
        "parameters in meta.json",
    }
    return report.render("An upload beside the web", summary, table, pictures, NOTES, details)
