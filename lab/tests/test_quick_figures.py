"""The quick form of each of the papers' figures, from its first guest to its verdict."""

from __future__ import annotations

import pytest

from imtcp_lab import cli
from imtcp_lab.experiments import PAPERS
from imtcp_lab.experiments.paper import DIFFERS, NOT_REPRODUCED, REPRODUCED
from vm_guests import runner

RUN = [experiment for experiment in PAPERS if experiment.controls]


@pytest.mark.vm
@pytest.mark.parametrize("name", [experiment.name for experiment in RUN])
def test_a_quick_form_runs_to_its_verdict(name, tmp_path, capsys):
    runner()
    assert cli.main(["run", name, "--quick", "--jobs", "1", "--out", str(tmp_path)]) == 0
    lines = capsys.readouterr().out.splitlines()
    words = [line.removeprefix(f"{name}: ") for line in lines if line.startswith(f"{name}: ")]
    assert len(words) == 1
    assert any(words[0].startswith(word) for word in (REPRODUCED, DIFFERS, NOT_REPRODUCED))
    # Each claim has been judged, on numbers.
    claims = [line for line in lines if line.startswith(("  yes  ", "  no   "))]
    assert claims
    assert "(not measured)" not in "\n".join(claims)
