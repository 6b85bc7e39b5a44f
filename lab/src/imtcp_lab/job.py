"""A job of the laboratory, the same in the virtual-time VM and in namespaces.

A :class:`Job` is a shell script with its input files.  A :class:`Runner` runs it and returns the
files that the script left in ``$OUT``.  Experiments know only these two names, so an experiment
runs in virtual time (:class:`imtcp_lab.vm.VmRunner`) or in real time
(:class:`imtcp_lab.netns.NetnsRunner`) without a change.

The script's environment has these variables:

``OUT``               an empty directory; regular files left there are the results
``SEED``              :attr:`Job.seed`, decimal
``IMTCP_BPF_O``       path of the shipped BPF object, if it is built
``IMTCP_FTP_MODULE``  path of the module for ProFTPD, if it is built
``PATH``              the tools listed in the runner's ``environment`` (``tools``)

The work directory holds :attr:`Job.files`.  Programs that the host lacks are absent there, too: the
script fails with the shell's ``not found``, and ``environment["missing"]`` names them.

Control groups are at ``/sys/fs/cgroup``, pinned BPF objects at ``/sys/fs/bpf``.  ``ip netns exec``
hides both, because it mounts a bare ``/sys``.  A program that needs them must run by ``nsenter
--net=/run/netns/NAME``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import Protocol

#: A function that gets the virtual (VM) or real (namespaces) seconds done so far.
Progress = Callable[[float], None]


class LabError(Exception):
    """A failure of the laboratory itself; the text says how to fix it.

    ``console`` is the end of the guest's or the script's output, if any.
    """

    def __init__(self, message: str, console: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.console = console

    def __str__(self) -> str:
        if not self.console:
            return self.message
        return f"{self.message}\n--- end of the console ---\n{self.console}"


class MissingPrerequisite(LabError):
    """This machine lacks a program, package or kernel."""


class JobTimeout(LabError):
    """The job exceeded :attr:`Job.limit_virtual_s`."""


class GuestCrashed(LabError):
    """The guest's kernel panicked or hung, or QEMU ended."""


@dataclass(frozen=True)
class Job:
    """One script with its inputs."""

    #: POSIX sh; runs as root in its own work directory.
    script: str
    #: Input files by path relative to the work directory.
    files: Mapping[str, bytes] = field(default_factory=dict)
    #: Used for QEMU's ``-seed`` and the script's ``SEED``.
    seed: int = 1
    #: Seconds of the job's own clock (virtual in the VM) after which it is killed.
    limit_virtual_s: float = 300
    #: POSIX sh that runs before the script, outside of its work directory.  The VM runs it once for
    #: all jobs with the same text, and starts each of them at its end.
    warmup: str = ""

    def __post_init__(self) -> None:
        if not 0 <= self.seed < 1 << 64:
            raise ValueError(f"seed must be a 64-bit number, not negative: {self.seed}")
        if not self.limit_virtual_s > 0:
            raise ValueError(f"limit_virtual_s must be positive: {self.limit_virtual_s}")
        for name in self.files:
            path = PurePosixPath(name)
            if not path.parts or path.is_absolute() or ".." in path.parts:
                raise ValueError(f"a job's file needs a relative path inside it: {name!r}")


@dataclass(frozen=True)
class Cost:
    """A guest's use of the host."""

    #: Seconds from the start of the guest to the end of the job.
    wall_s: float
    #: Peak memory of the guest's process.
    memory_mb: float


@dataclass(frozen=True)
class JobResult:
    """The results of a job."""

    #: Regular files left in ``$OUT``, by path relative to it.
    files: Mapping[str, bytes]
    #: Standard output and error of the script, in order of writing.
    log: str
    #: The script's exit code (128 + n when signal n killed it).
    exit_code: int
    #: Where the job ran: exact kernel version, QEMU version, digests, machine line, and
    #: ``missing``: tools that this machine lacks.
    environment: Mapping[str, str]
    #: The cost of the run; it differs in every run.
    cost: Cost | None = field(default=None, compare=False)

    def check(self) -> JobResult:
        """Returns this result; raises :class:`LabError` if the script failed."""
        if self.exit_code != 0:
            raise LabError(f"the job ended with code {self.exit_code}", self.log[-4000:])
        return self


class Runner(Protocol):
    """An object that runs jobs.  Safe to call from several threads at once."""

    def run(self, job: Job, progress: Progress | None = None) -> JobResult:
        """Runs `job` to its end; `progress` gets the growing number of seconds done."""
        ...
