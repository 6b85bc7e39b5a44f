"""Each rule of lab/rules.toml can be removed from today's sources."""

from __future__ import annotations

import argparse

import pytest

from imtcp_lab import rules
from imtcp_lab.engine import paths
from imtcp_lab.job import LabError

RULES = rules.load(paths.checkout())


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)
def test_a_rule_that_is_listed_can_be_taken_from_the_sources(rule, tmp_path):
    root = paths.checkout()
    rules.copy_sources(root, tmp_path, rule.edits)
    files = {edit.file for edit in rule.edits}
    changed = {
        str(file.relative_to(tmp_path))
        for file in tmp_path.rglob("*")
        if file.is_file() and file.read_bytes() != (root / file.relative_to(tmp_path)).read_bytes()
    }
    assert changed == files != set()


def test_a_copy_writes_only_what_differs(tmp_path):
    root = paths.checkout()
    rules.copy_sources(root, tmp_path, ())
    before = {file: file.stat().st_mtime_ns for file in tmp_path.rglob("*.[hc]")}
    edit = RULES[0].edits[0]
    rules.copy_sources(root, tmp_path, (edit,))
    after = {file: file.stat().st_mtime_ns for file in before}
    assert {f for f in before if before[f] != after[f]} == {tmp_path / edit.file}


def test_an_edit_that_fits_nowhere_or_twice_is_an_error_that_says_so():
    edit = rules.Edit("core/x.h", "a rule", "none")
    with pytest.raises(LabError, match="0 times what"):
        edit.applied("something else")
    with pytest.raises(LabError, match="2 times"):
        edit.applied("a rule and a rule")


def test_an_unknown_rule_is_named_and_nothing_is_built(capsys, tmp_path):
    from imtcp_lab.cli import main

    assert main(["rules", "cap", "no-such-rule", "--out", str(tmp_path)]) == 2
    assert "no rule no-such-rule: lab rules --list" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_builds_are_measured_with_the_same_seeds_beside_the_web_and_alone():
    args = argparse.Namespace(first_seed=3, seeds=2, measure_s=10.0)
    beside, five = rules.scenarios(args)
    assert [(s.control.name, s.seed) for s in beside] == [
        ("none", 3), ("imtcp_bg", 3), ("none", 4), ("imtcp_bg", 4),
    ]  # fmt: skip
    assert [(s.control.name, s.seed, s.variant) for s in five] == [
        ("imtcp_bg", 3, "5flows"), ("imtcp_bg", 4, "5flows"),
    ]  # fmt: skip
