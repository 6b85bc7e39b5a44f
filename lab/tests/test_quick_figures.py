"""The quick form of the papers' figures, from their first guests to a verdict.

All of them take a quarter of an hour on two cores.  So only CI runs all
(``IMTCP_TEST_FIGURES=all``).  Otherwise each commit runs one, chosen by its hash, and
``IMTCP_TEST_FIGURES=LP-T1,BG-F6`` runs these.
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from imtcp_lab import cli, vm
from imtcp_lab.experiments import PAPERS
from imtcp_lab.experiments.paper import DIFFERS, NOT_REPRODUCED, REPRODUCED
from vm_guests import runner

NAMES = [experiment.name for experiment in PAPERS if experiment.controls]


def commit() -> int:
    """The hash of the tested commit; 0 outside of a repository."""
    found = subprocess.run(
        ["git", "rev-parse", "HEAD"], cwd=Path(__file__).parent, capture_output=True, text=True
    )
    return int(found.stdout, 16) if found.returncode == 0 else 0


def chosen() -> list[str]:
    """The figures of this run."""
    asked = os.environ.get("IMTCP_TEST_FIGURES")
    if asked == "all":
        return NAMES
    if asked:
        return asked.split(",")
    return [turn(commit())]


def turn(number: int) -> str:
    """The figure that this hash selects."""
    return NAMES[number % len(NAMES)]


def test_each_figure_has_its_turn():
    assert sorted(turn(number) for number in range(len(NAMES))) == sorted(NAMES)
    assert chosen() and set(chosen()) <= set(NAMES)


@pytest.mark.vm
@pytest.mark.parametrize("name", chosen())
def test_a_quick_form_runs_to_its_verdict(name, tmp_path, capsys):
    kernel = vm.FAST if vm.is_built() else vm.DEFAULT_KERNEL
    runner(kernel)
    run = ["run", name, "--quick", "--kernel", kernel, "--jobs", "1", "--out", str(tmp_path)]
    assert cli.main(run) == 0
    lines = capsys.readouterr().out.splitlines()
    words = [line.removeprefix(f"{name}: ") for line in lines if line.startswith(f"{name}: ")]
    assert len(words) == 1
    assert any(words[0].startswith(word) for word in (REPRODUCED, DIFFERS, NOT_REPRODUCED))
    # Each claim has a verdict from numbers.
    claims = [line for line in lines if line.startswith(("  yes  ", "  no   "))]
    assert claims
    assert "(not measured)" not in "\n".join(claims)
