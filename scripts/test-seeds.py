#!/usr/bin/env python3
"""Runs tests of the virtual machine with many seeds: a test that passes with one seed may fail with
the next, and on a build with other bytes each seed is another sample.

    scripts/test-seeds.py                              all of them, 20 seeds
    scripts/test-seeds.py --seeds 5 tests/test_modes.py
    scripts/test-seeds.py -- -k token                  what stands after -- is pytest's

Prints how often each test passed, and keeps that in the table lab/results/test-seeds.md, with the
rows of tests that were not run now.  Exits with 1 where one failed.  What a seed gave is saved in
target/test-seeds: the same command on the same commit goes on where it was ended.
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
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TABLE = ROOT / "lab" / "results" / "test-seeds.md"
#: Those with chance in them; of test_kernels.py the verifier decides, which has none.
TESTS = tuple(
    f"tests/test_{name}.py"
    for name in ("connections", "modes", "nocc", "parameters", "rates", "token_bucket")
)


def outcomes(seed: int, arguments: list[str]) -> dict[str, str]:
    """What became of each test with a seed: ``""`` where it passed, else the reason."""
    with tempfile.NamedTemporaryFile(suffix=".xml") as report:
        command = [sys.executable, "-m", "pytest", "-q", "-m", "vm", "-p", "no:cacheprovider"]
        command += [f"--junit-xml={report.name}", *arguments]
        environment = {**os.environ, "IMTCP_TEST_SEED": str(seed)}
        subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, check=False)
        try:
            cases = ET.parse(report.name).getroot().iter("testcase")
        except ET.ParseError:
            return {f"pytest, seed {seed}": "it ended without a report"}
        found = {}
        for case in cases:
            wrong = [e.get("message", "") for e in case if e.tag in ("failure", "error", "skipped")]
            name = f"{case.get('classname', '').split('.')[-1]}::{case.get('name')}"
            found[name] = " ".join((wrong[0] or "it failed").split())[:300] if wrong else ""
        return found


def saved(seed: int, arguments: list[str], commit: str) -> dict[str, str]:
    """The same, run once for a clean commit."""
    asked = hashlib.sha256(" ".join(arguments).encode()).hexdigest()[:12]
    path = ROOT / "target" / "test-seeds" / commit / asked / f"{seed}.json"
    if path.exists():
        return json.loads(path.read_text())
    found = outcomes(seed, arguments)
    if not commit.endswith("-dirty"):
        path.parent.mkdir(parents=True, exist_ok=True)
        new = path.with_suffix(".new")
        new.write_text(json.dumps(found))
        new.rename(path)
    return found


HEAD = """# Tests of the virtual machine by seed

By `scripts/test-seeds.py`.  A build with other bytes is another sample of each.

| test | passed | failed with seeds | commit |
|---|---|---|---|
"""


def rows(by_seed: dict[int, dict[str, str]], commit: str) -> dict[str, str]:
    """By test: how often it passed, and with which seeds it did not."""
    of_test = {}
    for name in {name for found in by_seed.values() for name in found}:
        failed = [seed for seed, found in by_seed.items() if found.get(name)]
        ran = sum(name in found for found in by_seed.values())
        seeds = ", ".join(map(str, failed)) or "none"
        of_test[name] = f"| `{name}` | {ran - len(failed)} of {ran} | {seeds} | `{commit}` |"
    return of_test


def kept(table: Path) -> dict[str, str]:
    """The rows of a table by test."""
    text = table.read_text() if table.exists() else ""
    return {line.split("`")[1]: line for line in text.splitlines() if line.startswith("| `")}


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seeds", type=int, default=20, metavar="N")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), metavar="N")
    parser.add_argument("--output", type=Path, default=TABLE, metavar="FILE")
    parser.add_argument("arguments", nargs="*", default=list(TESTS), metavar="TEST")
    asked = parser.parse_args()
    head = ["git", "describe", "--always", "--dirty"]
    described = subprocess.run(head, cwd=ROOT, capture_output=True, text=True, check=False)
    commit = described.stdout.strip()
    by_seed: dict[int, dict[str, str]] = {}
    with ThreadPoolExecutor(asked.jobs) as pool:
        seeds = range(asked.seeds)
        running = pool.map(lambda seed: saved(seed, asked.arguments, commit), seeds)
        for seed, found in enumerate(running):
            by_seed[seed] = found
            failed = [name for name, reason in found.items() if reason]
            print(f"seed {seed}: {len(found)} tests, failed: {failed or 'none'}", flush=True)
    now = rows(by_seed, commit)
    both = kept(asked.output) | now
    asked.output.write_text(HEAD + "".join(f"{both[name]}\n" for name in sorted(both)))
    print(HEAD + "\n".join(now[name] for name in sorted(now)))
    wrong = [(seed, *one) for seed, found in by_seed.items() for one in found.items() if one[1]]
    for seed, name, reason in wrong:
        print(f"{name}, seed {seed}: {reason}")
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
