"""Each guest has its own processor, as long as there are enough."""

from __future__ import annotations

import os

import pytest

from imtcp_lab.engine import processors

ALLOWED = os.sched_getaffinity(0)


@pytest.fixture(autouse=True)
def cache(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))


def sysfs(root, cores, speeds=()):
    """Processor i is a thread of core ``cores[i]``."""
    for processor, core in enumerate(cores):
        topology = root / f"cpu{processor}" / "topology"
        topology.mkdir(parents=True)
        (topology / "physical_package_id").write_text("0\n")
        (topology / "core_id").write_text(f"{core}\n")
    for processor, khz in enumerate(speeds):
        scaling = root / f"cpu{processor}" / "cpufreq"
        scaling.mkdir()
        (scaling / "cpuinfo_max_freq").write_text(f"{khz}\n")
    return root


def test_each_core_gets_one_guest_before_any_gets_two(tmp_path):
    root = sysfs(tmp_path, [0, 0, 1, 1])
    assert processors.by_core({0, 1, 2, 3}, root) == [0, 2, 1, 3]
    assert processors.by_core({1, 2, 3}, root) == [1, 2, 3]


def test_fast_cores_come_before_slow_ones(tmp_path):
    root = sysfs(tmp_path, [0, 1, 2], speeds=[2_000_000, 2_000_000, 3_000_000])
    assert processors.by_core({0, 1, 2}, root) == [2, 0, 1]


def test_a_machine_that_does_not_tell_its_cores_has_an_order_too(tmp_path):
    assert processors.by_core({2, 0, 1}, tmp_path) == [0, 1, 2]


def test_nobody_gets_anothers_processor_and_all_is_given_back():
    with processors.one() as first:
        assert os.sched_getaffinity(0) == {first}
        os.sched_setaffinity(0, ALLOWED)  # as another thread sees it
        with processors.one() as second:
            assert second != first
    assert os.sched_getaffinity(0) == ALLOWED
    with processors.one() as again:
        assert again == first


def test_when_all_are_taken_the_next_may_run_anywhere_but_where_it_must_be_one(monkeypatch):
    monkeypatch.setattr(processors, "_try_lock", lambda processor: None)
    with processors.one() as none:
        assert none is None
        assert os.sched_getaffinity(0) == ALLOWED
    with processors.one(always=True) as some:
        assert os.sched_getaffinity(0) == {some}
    assert os.sched_getaffinity(0) == ALLOWED
