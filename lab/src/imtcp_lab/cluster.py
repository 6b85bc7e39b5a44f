"""Runs jobs on a Dask cluster: the same sweep on more machines.

Each worker needs a checkout built like this one, in its work directory or at ``$IMTCP_ROOT``.
Everything else is in the job.
"""

from __future__ import annotations

import time

from distributed import Client

from imtcp_lab.job import Job, JobResult, LabError, Progress, Runner

#: Seconds between polls of a remote job.
POLL_S = 0.5


def run_there(runner: Runner, job: Job) -> JobResult:
    """Runs a job on a worker."""
    return runner.run(job)


class ClusterRunner:
    """A :class:`~imtcp_lab.job.Runner` that lets the workers of a cluster run jobs with another
    runner."""

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
        """Jobs that the cluster runs at once, one per core."""
        return max(1, sum(self.client.nthreads().values()))

    def run(self, job: Job, progress: Progress | None = None) -> JobResult:
        """Run `job` on some worker; `progress` learns only that the job still runs."""
        # Equal jobs run twice: only the caller may reuse a result.
        future = self.client.submit(run_there, self.inner, job, pure=False)
        try:
            while not future.done():
                if progress is not None:
                    progress(0)
                time.sleep(POLL_S)
            return future.result()
        finally:
            future.cancel()
