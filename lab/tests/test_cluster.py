"""Sweeps on a Dask cluster give the same results as here."""

from __future__ import annotations

import asyncio
import os
import queue
import signal
import sys
import tempfile
import threading
import time
from pathlib import Path

import cloudpickle
import pytest
from distributed import Client, LocalCluster
from tornado.ioloop import IOLoop

from imtcp_lab import sweep
from imtcp_lab.cluster import ClusterRunner
from imtcp_lab.controls import CONTROLS
from imtcp_lab.job import Job, JobResult, LabError
from imtcp_lab.scenario import Scenario
from imtcp_lab.topology import Dumbbell
from imtcp_lab.traffic import Bulk, Web
from test_results import FILES


class Echo:
    """Returns the job's seed, or fails."""

    def run(self, job, progress=None):
        if job.script == "fail":
            raise LabError("it failed there")
        return JobResult({"seed": str(job.seed).encode()}, "", 0, {})


def test_an_address_without_a_scheduler_is_told_in_a_line():
    with pytest.raises(LabError, match="no scheduler answers at 'nonsense://'"):
        ClusterRunner.connect(Echo(), "nonsense://")


RELEASE = threading.Event()


class Slow(Echo):
    """Returns when the test allows it."""

    def run(self, job, progress=None):
        RELEASE.wait(10)
        return super().run(job)


@pytest.fixture(scope="module")
def loop():
    """An event loop that has already started.

    Distributed gives its own loop ten seconds to start, which is too little on a busy machine.
    """
    begun: queue.SimpleQueue[tuple[IOLoop, asyncio.Event]] = queue.SimpleQueue()

    async def serve():
        end = asyncio.Event()
        begun.put((IOLoop.current(), end))
        await end.wait()

    thread = threading.Thread(target=asyncio.run, args=(serve(),))
    thread.start()
    loop, end = begun.get()
    yield loop
    loop.add_callback(end.set)
    thread.join()


@pytest.fixture(scope="module")
def runner(loop):
    cluster = LocalCluster(
        n_workers=1, threads_per_worker=3, processes=False, dashboard_address=None, loop=loop
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


class Marking:
    """Leaves a file with the seed and the process at each start of a job, and takes some time."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    def run(self, job, progress=None):
        handle, _ = tempfile.mkstemp(prefix=f"{job.seed}-{os.getpid()}-", dir=self.directory)
        os.close(handle)
        time.sleep(1.5)
        return JobResult(FILES, "", 0, {"kernel": "6.12.0"})


def started(directory):
    """(seed, process) of every start of a job."""
    return [tuple(map(int, f.name.split("-")[:2])) for f in directory.iterdir()]


def test_a_killed_worker_costs_no_point_and_none_counts_twice(tmp_path, loop):
    # The workers are other processes and cannot import this file.
    cloudpickle.register_pickle_by_value(sys.modules[__name__])
    starts, saved = tmp_path / "starts", tmp_path / "saved"
    starts.mkdir()
    wanted = [
        Scenario(Dumbbell(), Web(), Bulk(), CONTROLS["cubic"], seed=seed) for seed in range(1, 7)
    ]
    cluster = LocalCluster(
        n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None, loop=loop
    )
    with cluster, Client(cluster) as client:
        runner = ClusterRunner(Marking(starts), client)

        def kill_one():
            while not started(starts):
                time.sleep(0.05)
            os.kill(started(starts)[0][1], signal.SIGKILL)

        killer = threading.Thread(target=kill_one)
        killer.start()
        points = sweep.run_all(wanted, runner, saved, jobs=2)
        killer.join()
    assert [p.scenario.seed for p in points] == [1, 2, 3, 4, 5, 6]
    assert len(list(saved.iterdir())) == 6
    # The killed worker's job started again elsewhere.
    assert len(started(starts)) > 6
    assert {seed for seed, _ in started(starts)} == {1, 2, 3, 4, 5, 6}
