"""Runs jobs on a Dask cluster: the same sweep, on more machines.

Each worker needs a checkout that is built as here, found by its own work directory
or ``$IMTCP_ROOT``; jobs themselves carry everything else.
"""

from __future__ import annotations

import time

from distributed import Client

from imtcp_lab.job import Job, JobResult, LabError, Progress, Runner

#: Seconds between looks at a job that runs elsewhere.
POLL_S = 0.5


def run_there(runner: Runner, job: Job) -> JobResult:
    """What a worker does."""
    return runner.run(job)


class ClusterRunner:
    """A :class:`~imtcp_lab.job.Runner` that hands jobs to another one, elsewhere."""

    def __init__(self, inner: Runner, client: Client) -> None:
        self.inner = inner
        self.client = client

    @classmethod
    def connect(cls, inner: Runner, address: str) -> ClusterRunner:
        """Use the cluster whose scheduler is at `address` (``tcp://host:8786``)."""
        try:
            return cls(inner, Client(address))
        except (OSError, ValueError) as error:
            raise LabError(f"no scheduler answers at {address!r}: {error}") from error

    @property
    def slots(self) -> int:
        """Jobs that the cluster runs at once: a core each."""
        return max(1, sum(self.client.nthreads().values()))

    def run(self, job: Job, progress: Progress | None = None) -> JobResult:
        """Run `job` on some worker; `progress` hears only that it still runs."""
        # Two equal jobs are two runs: the caller decides what is run again.
        future = self.client.submit(run_there, self.inner, job, pure=False)
        try:
            while not future.done():
                if progress is not None:
                    progress(0)
                time.sleep(POLL_S)
            return future.result()
        finally:
            future.cancel()
