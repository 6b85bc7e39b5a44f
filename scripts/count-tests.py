#!/usr/bin/env python3
"""Counts tests in a runner's output: prints passed, failed and skipped.

Understands the closing lines of cmocka, cargo test, pytest and the plain
"N passed, N failed[, N skipped]".  A Rust test that cannot run prints "skipped: NAME: reason", and
its runner takes it for passed.
"""

import re
import sys
from pathlib import Path

PATTERNS = {
    "passed": [r"^\[  PASSED  \] (\d+) test", r"(\d+) passed"],
    "failed": [r"^\[  FAILED  \] (\d+) test", r"(\d+) failed"],
    "skipped": [r"^\[  SKIPPED \] (\d+) test", r"(\d+) (?:skipped|ignored)"],
}
#: Lines that close a run: cmocka's, then any with "N passed" or "N failed".
CLOSING = re.compile(r"^\[  (PASSED|FAILED|SKIPPED )\s*\] \d+ test|\b\d+ (passed|failed|skipped)\b")
SKIPPED = re.compile(r"^skipped: [\w:]+: ", re.M)
TOTAL = re.compile(r"^[\w-]+: \d+ passed, \d+ failed")


def count(text: str) -> dict[str, int]:
    totals = dict.fromkeys(PATTERNS, 0)
    lines = text.splitlines()
    # A total over several programs stands for all of them.
    if total := [line for line in lines if TOTAL.search(line)]:
        lines = total[-1:]
    for line in lines:
        if not CLOSING.search(line):
            continue
        for kind, patterns in PATTERNS.items():
            for pattern in patterns:
                if match := re.search(pattern, line):
                    totals[kind] += int(match[1])
                    break
    skipped = len(SKIPPED.findall(text))
    totals["skipped"] += skipped
    totals["passed"] -= skipped
    return totals


if __name__ == "__main__":
    counts = count(Path(sys.argv[1]).read_text(errors="replace"))
    print(counts["passed"], counts["failed"], counts["skipped"])
