#!/usr/bin/env python3
"""Runs tests of the virtual machine with many seeds.

A test that passes with one seed may fail with the next.  A build with other bytes makes each seed
another sample.

    scripts/test-seeds.py                              all of them, 20 seeds
    scripts/test-seeds.py --seeds 5 tests/test_modes.py
    scripts/test-seeds.py -- -k token                  what stands after -- is pytest's

Prints how often each test passed, and how far what it found is from its bounds (tests/margins.py).
lab/results/test-seeds.json keeps each seed's results until something changes that a guest depends
on (scripts/guest-inputs.txt).  The same command goes on where it was ended, on another day too.
lab/results/test-seeds.md is the table.  Exits with 1 if a test failed.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ET
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from math import inf
from pathlib import Path
from statistics import fmean, stdev
from threading import Lock

ROOT = Path(__file__).resolve().parent.parent
KEPT = ROOT / "lab" / "results" / "test-seeds.json"
#: Those with chance in them; of test_kernels.py the verifier decides, which has none.
TESTS = tuple(
    f"tests/test_{name}.py"
    for name in ("connections", "modes", "nocc", "parameters", "rates", "token_bucket")
)

#: Guest inputs that are tests: each matters to its own results alone.
OTHER_TESTS = ("tests/test_", "lab/tests/test_")
#: Questions and verdicts of figures are no part of these tests.
FIGURES = ":!lab/src/imtcp_lab/experiments"


@dataclass(frozen=True)
class Outcome:
    """The outcome of a test with a seed."""

    #: Why it failed; ``""``: it passed.
    wrong: str
    #: (what, value, bound) of tests/margins.py.
    met: list[tuple[str, float, float]]


def outcomes(seed: int, arguments: list[str]) -> dict[str, Outcome]:
    """The outcome of each test with a seed."""
    with tempfile.NamedTemporaryFile(suffix=".xml") as report:
        command = [sys.executable, "-m", "pytest", "-q", "-m", "vm", "-p", "no:cacheprovider"]
        command += [f"--junit-xml={report.name}", *arguments]
        environment = {**os.environ, "IMTCP_TEST_SEED": str(seed)}
        subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, check=False)
        try:
            cases = ET.parse(report.name).getroot().iter("testcase")
        except ET.ParseError:
            raise SystemExit(f"test-seeds: seed {seed} ended without a report") from None
        found = {}
        for case in cases:
            wrong = [e.get("message", "") for e in case if e.tag in ("failure", "error", "skipped")]
            name = f"{case.get('classname', '').split('.')[-1]}::{case.get('name')}"
            told = " ".join((wrong[0] or "it failed").split())[:300] if wrong else ""
            properties = {p.get("name"): p.get("value", "") for p in case.iter("property")}
            found[name] = Outcome(told, json.loads(properties.get("margins") or "[]"))
        return found


def inputs(arguments: list[str]) -> str:
    """Names the state of all that a guest of these tests depends on."""
    of = (ROOT / "scripts" / "guest-inputs.txt").read_text().split()
    of = [path for path in of if path in arguments or not path.startswith(OTHER_TESTS)]
    of.append(FIGURES)
    changed = ["git", "status", "--porcelain", "--", *of]
    if subprocess.run(changed, cwd=ROOT, capture_output=True, check=True).stdout:
        raise SystemExit("test-seeds: commit what has changed first: results are kept by its state")
    listed = ["git", "ls-files", "--stage", "--", *of]
    files = subprocess.run(listed, cwd=ROOT, capture_output=True, check=True).stdout
    return hashlib.sha256(files).hexdigest()[:12]


class Kept:
    """Results of seeds: for the tests asked for, the inputs' state and each seed's failures."""

    def __init__(self, path: Path, arguments: list[str]) -> None:
        self.path, self.asked = path, " ".join(arguments)
        self.all = json.loads(path.read_text()) if path.exists() else {}
        now = inputs(arguments)
        if self.all.get(self.asked, {}).get("inputs") != now:
            self.all[self.asked] = {"inputs": now, "tests": [], "failed": {}, "met": {}}
        self.own = self.all[self.asked]
        self.lock = Lock()

    def add(self, seed: int, found: dict[str, Outcome]) -> None:
        with self.lock:
            self.own["tests"] = sorted({*self.own["tests"], *found})
            self.own["failed"][str(seed)] = {n: o.wrong for n, o in found.items() if o.wrong}
            for name, outcome in found.items():
                for what, value, bound in outcome.met:
                    key = f"{what} {bound:g}"
                    of_test = self.own["met"].setdefault(name, {})
                    of_test.setdefault(key, {})[str(seed)] = float(f"{value:.4g}")
            new = self.path.with_suffix(".new")
            new.write_text(json.dumps(self.all, indent=1, sort_keys=True) + "\n")
            new.rename(self.path)
            self.path.with_suffix(".md").write_text(self.table())

    def has(self, seed: int) -> bool:
        return str(seed) in self.own["failed"]

    def table(self) -> str:
        rows = {}
        for one in self.all.values():
            for name in one["tests"]:
                seeds = [seed for seed, failed in one["failed"].items() if name in failed]
                count = len(one["failed"])
                passed = f"{count - len(seeds)} of {count}"
                failed = ", ".join(sorted(seeds, key=int)) or "none"
                rows[name] = f"| `{name}` | {passed} | {failed} | `{one['inputs']}` |\n"
        return HEAD + "".join(rows[name] for name in sorted(rows)) + self.bounds()

    def bounds(self) -> str:
        """How far from its bounds what a test found is."""
        rows = []
        for one in self.all.values():
            for name, of_test in one["met"].items():
                for key, by_seed in of_test.items():
                    far = deviations(key, list(by_seed.values()))
                    rows.append((name, key, fmean(by_seed.values()), far))
        told = (
            f"| `{name}` | {key} | {mean:.4g} | {f'{far:.1f}' if far < inf else 'all equal'} |\n"
            for name, key, mean, far in sorted(rows)
        )
        return BOUNDS + "".join(told)


HEAD = """# Tests of the virtual machine by seed

By `scripts/test-seeds.py`.  The last column names the state of all that a guest depends on: with
other bytes each seed is another sample.

| test | passed | failed with seeds | state |
|---|---|---|---|
"""


def deviations(key: str, values: list[float]) -> float:
    """From the mean of these to their bound, in standard deviations; infinite if all are equal."""
    sign, bound = key.split()[-2:]
    room = (float(bound) - fmean(values)) * (1 if sign == "≤" else -1)
    deviation = stdev(values) if len(values) > 1 else 0.0
    return room / deviation if deviation else inf


BOUNDS = """
## How far from their bounds

What a test found with these seeds, on the mean, and how many standard deviations its bound is from
that.  Student's t for twenty of them has one in ten thousand beyond 4.7.

| test | what, and its bound | mean | deviations |
|---|---|---|---|
"""


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seeds", type=int, default=20, metavar="N")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), metavar="N")
    parser.add_argument("--output", type=Path, default=KEPT, metavar="FILE")
    parser.add_argument("arguments", nargs="*", default=list(TESTS), metavar="TEST")
    asked = parser.parse_args()
    kept = Kept(asked.output, asked.arguments)

    def run(seed: int) -> None:
        if not kept.has(seed):
            found = outcomes(seed, asked.arguments)
            kept.add(seed, found)
            failed = [name for name, outcome in found.items() if outcome.wrong]
            print(f"seed {seed}: {len(found)} tests, failed: {failed or 'none'}", flush=True)

    with ThreadPoolExecutor(asked.jobs) as pool:
        try:
            list(pool.map(run, range(asked.seeds)))
        except KeyboardInterrupt:
            pool.shutdown(cancel_futures=True)
            return 130
    print(kept.table())
    wrong = [(seed, *one) for seed, all in kept.own["failed"].items() for one in all.items()]
    for seed, name, reason in wrong:
        print(f"{name}, seed {seed}: {reason}")
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
