"""``lab rules``: measures what each rule of imtcp_bg gains, by a build without it.

``lab/rules.toml`` lists the rules, each with the edits that remove it.  The edited sources are
copies below ``out/rules``.  Every build runs with the same seeds, beside web-like traffic and
alone.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tomllib
from argparse import Namespace
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from imtcp_lab import measured, results, sweep, vm
from imtcp_lab.controls import CONTROLS
from imtcp_lab.engine import paths
from imtcp_lab.experiments import alone, web
from imtcp_lab.experiments.base import judged_seconds
from imtcp_lab.job import LabError
from imtcp_lab.options import add_options, out_directory
from imtcp_lab.run import seed_numbers
from imtcp_lab.scenario import Scenario
from imtcp_lab.tables import Column, as_number, as_percent, summary_records, text_table
from imtcp_lab.topology import Dumbbell

#: The files that the build needs.
SOURCES = ("Cargo.toml", "Cargo.lock", "bpf", "core", "crates", "lab/load")
BUILD = (
    "cargo", "build", "--profile", "demo", "--locked", "-p", "imtcp", "-p", "imtcp-load",
)  # fmt: skip
PROGRAMS = ("imtcp", "imtcp-load")

COLUMNS = (
    Column("U", "U"),
    Column("I_mean", "I mean", as_percent),
    Column("I_p95", "I p95", as_percent),
    Column("utilisation", "five alone", lambda v: as_number(v, 3)),
    Column("queue_pkts_mean", "queue, pkts", lambda v: as_number(v, 1)),
    Column("jain", "Jain"),
)


@dataclass(frozen=True)
class Edit:
    """Replaces `old`, which stands exactly once in the file."""

    file: str
    old: str
    new: str

    def applied(self, text: str) -> str:
        """The file's text after the edit."""
        if text.count(self.old) != 1:
            raise LabError(
                f"{self.file} has {text.count(self.old)} times what lab/rules.toml looks for:"
                f" {self.old.strip()!r}. Write its entry anew"
            )
        return text.replace(self.old, self.new)


@dataclass(frozen=True)
class Rule:
    """One rule, with the edits that remove it."""

    name: str
    what: str
    edits: tuple[Edit, ...]


#: The build with all rules.
ALL = Rule("all-rules", "", ())


def load(root: Path) -> list[Rule]:
    """Reads the rules of a checkout."""
    declared = tomllib.loads((root / "lab" / "rules.toml").read_text(encoding="utf-8"))
    return [
        Rule(r["name"], r["what"], tuple(Edit(**e) for e in r["edit"])) for r in declared["rule"]
    ]


def register(subparsers: argparse._SubParsersAction) -> None:
    """Add ``lab rules``."""
    parser = subparsers.add_parser(
        "rules",
        help="what each rule of imtcp_bg earns: builds it without, and measures that",
        description="Takes the rules of lab/rules.toml away, one at a time, and measures each"
        " build beside web-like traffic (one flow, 1000 packets of buffer) and five flows alone.",
        epilog="example: lab rules cap slack --seeds 3",
    )
    add = parser.add_argument
    add("rules", nargs="*", metavar="RULE", help="names in lab/rules.toml (all)")
    add("--list", action="store_true", help="their names, and what each is")
    add("--seeds", type=int, default=5, help="runs per build (5)")
    judged_seconds(parser, 10)
    add_options(parser, "--first-seed", "--kernel", "--jobs", "--json")
    add("--out", type=out_directory, help="directory (default: out/rules)")
    parser.set_defaults(handler=main)


def copy_sources(root: Path, to: Path, edits: Sequence[Edit]) -> None:
    """Makes `to` an edited copy of the sources in a checkout.

    It writes only files that differ: build tools go by the times of files.
    """
    wanted: dict[Path, bytes] = {}
    for name in SOURCES:
        files = [root / name] if (root / name).is_file() else (root / name).rglob("*")
        wanted |= {f.relative_to(root): f.read_bytes() for f in files if f.is_file()}
    for edit in edits:
        text = wanted[Path(edit.file)].decode("utf-8")
        wanted[Path(edit.file)] = edit.applied(text).encode("utf-8")
    for there in [f for f in to.rglob("*") if f.is_file()]:
        if there.relative_to(to) not in wanted:
            there.unlink()
    for file, content in wanted.items():
        place = to / file
        if not place.is_file() or place.read_bytes() != content:
            results.write_bytes(place, content)


def build(rule: Rule, root: Path, out: Path) -> Path:
    """Builds a checkout's programs without a rule; returns their directory."""
    sources = out / "source"
    copy_sources(root, sources, rule.edits)
    done = subprocess.run(
        BUILD,
        cwd=sources,
        env=os.environ | {"CARGO_TARGET_DIR": str(out / "target")},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise LabError(f"{' '.join(BUILD)} failed in {sources}:\n{done.stderr[-2000:]}")
    programs = out / "programs" / rule.name
    programs.mkdir(parents=True, exist_ok=True)
    for name in PROGRAMS:
        shutil.copy2(out / "target" / "demo" / name, programs / name)
    return programs


def scenarios(args: Namespace) -> tuple[list[Scenario], list[Scenario]]:
    """Scenarios beside the web, each with its run without a background; and scenarios alone."""
    seeds = seed_numbers(args)
    path = Dumbbell(capacity_bps=web.CAPACITY_BPS, background_rtt_ms=web.RTT_MS, buffer_pkts=1000)
    background = CONTROLS["imtcp_bg"]
    beside = [
        web.beside_web(path, web.LOAD, 1, control, args.measure_s, seed)
        for seed in seeds
        for control in (CONTROLS["none"], background)
    ]
    five = [alone.on_idle(path, 5, background, args.measure_s, seed) for seed in seeds]
    return beside, five


def measure(label: str, args: Namespace, out: Path) -> list[dict[str, Any]]:
    """Measures the build at ``IMTCP_PROGRAMS``: one row per seed."""
    beside, five = scenarios(args)
    points = sweep.run_all(
        [*beside, *five], vm.guests_of(args.kernel), out / "points" / label, jobs=args.jobs,
        fresh=False, label=label,
    )  # fmt: skip
    rows: dict[int, dict[str, Any]] = {}
    for row in measured.rows(points[: len(beside)]):
        if row["control"] != "none":
            rows[row["seed"]] = {"without": label} | {
                key: row[key] for key in ("seed", "U", "I_mean", "I_p95")
            }
    for row in alone.EXPERIMENT.rows(points[len(beside) :]):
        rows[row["seed"]] |= {key: row[key] for key in ("utilisation", "queue_pkts_mean", "jain")}
    return list(rows.values())


def main(args: Namespace) -> int:
    """Builds, measures, prints."""
    root = paths.checkout()
    rules = load(root)
    if args.list:
        for rule in rules:
            print(f"{rule.name:20} {rule.what}")
        return 0
    unknown = set(args.rules) - {r.name for r in rules}
    if unknown or args.seeds < 1 or args.jobs < 1:
        wrong = f"no rule {', '.join(sorted(unknown))}: lab rules --list" if unknown else ""
        print(f"lab rules: {wrong or '--seeds and --jobs are at least 1'}", file=sys.stderr)
        return 2
    out = (args.out or root / "out" / "rules").resolve()
    chosen = [ALL, *(r for r in rules if not args.rules or r.name in args.rules)]
    rows: list[dict[str, Any]] = []
    record: dict[str, Any] = {}
    for rule in chosen:
        print(f"{rule.name}: building", file=sys.stderr)
        os.environ["IMTCP_PROGRAMS"] = str(build(rule, root, out))
        rows += measure(rule.name, args, out)
        record = results.record(rows, summary_records(rows, ("without",), COLUMNS))
        results.write_json(out / "results.json", record)
    if args.json:
        print(json.dumps(record, indent=2))
    else:
        print(text_table(rows, ("without",), COLUMNS))
    return 0
