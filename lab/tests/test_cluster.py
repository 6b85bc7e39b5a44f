"""Sweeps on a Dask cluster give what they give here."""

from __future__ import annotations

import threading

import pytest
from distributed import Client, LocalCluster

from imtcp_lab.cluster import ClusterRunner
from imtcp_lab.job import Job, JobResult, LabError


class Echo:
    """Answers with the job's seed, or fails."""

    def run(self, job, progress=None):
        if job.script == "fail":
            raise LabError("it failed there")
        return JobResult({"seed": str(job.seed).encode()}, "", 0, {})


RELEASE = threading.Event()


class Slow(Echo):
    """Answers when it is let."""

    def run(self, job, progress=None):
        RELEASE.wait(10)
        return super().run(job)


@pytest.fixture(scope="module")
def runner():
    cluster = LocalCluster(
        n_workers=1, threads_per_worker=3, processes=False, dashboard_address=None
    )
    with cluster, Client(cluster) as client:
        yield ClusterRunner(Echo(), client)


def test_jobs_come_back_from_the_workers(runner):
    assert runner.slots == 3
    results = [runner.run(Job("", seed=seed)) for seed in (1, 2)]
    assert [r.files["seed"] for r in results] == [b"1", b"2"]


def test_a_failure_there_is_a_failure_here(runner):
    with pytest.raises(LabError, match="it failed there"):
        runner.run(Job("fail"))


def test_a_caller_that_gives_up_is_not_kept_waiting(runner):
    class Enough(Exception):
        pass

    def give_up(seconds):
        raise Enough

    try:
        with pytest.raises(Enough):
            ClusterRunner(Slow(), runner.client).run(Job(""), give_up)
    finally:
        RELEASE.set()
