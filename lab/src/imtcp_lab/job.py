"""A job of the laboratory, the same in the virtual-time VM and in namespaces.

A :class:`Job` is a shell script with its input files; a :class:`Runner` runs
it somewhere and hands back what the script left in ``$OUT``.  Experiments know
only these names, so one experiment runs in virtual time
(:class:`imtcp_lab.vm.VmRunner`) or in real time
(:class:`imtcp_lab.netns.NetnsRunner`) without a change.

The script finds in its environment

``OUT``          an empty directory; regular files left there are the results
``SEED``         :attr:`Job.seed`, decimal
``IMTCP_BPF_O``  path of the shipped BPF object, when it is built
``IMTCP_FTP_MODULE``  path of the module for ProFTPD, when it is built
``PATH``         the tools listed in the runner's ``environment`` (``tools``)

and its work directory holds :attr:`Job.files`.  A program that is not
available on the host is absent in there, too: the script that needs it fails
with the shell's own ``not found``, and ``environment["missing"]`` names it.

Control groups are at ``/sys/fs/cgroup``, pinned BPF objects at ``/sys/fs/bpf``.
``ip netns exec`` hides both, because it mounts a bare ``/sys``: a program that
needs them runs by ``nsenter --net=/run/netns/NAME`` instead.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import Protocol

#: Called with the virtual (VM) or real (namespaces) seconds done so far.
Progress = Callable[[float], None]


class LabError(Exception):
    """Something in the laboratory itself failed; the text says what to do.

    ``console`` is the tail of what the guest or the script printed, if any.
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
    """A program, package or kernel that this machine lacks."""


class JobTimeout(LabError):
    """The job used up :attr:`Job.limit_virtual_s`."""


class GuestCrashed(LabError):
    """The guest kernel panicked, hung, or QEMU went away."""


@dataclass(frozen=True)
class Job:
    """One script to run with its inputs."""

    #: POSIX sh, run as root in a work directory of its own.
    script: str
    #: Input files by path relative to the work directory.
    files: Mapping[str, bytes] = field(default_factory=dict)
    #: Enters QEMU's ``-seed`` and the script's ``SEED``.
    seed: int = 1
    #: Seconds of the job's own clock (virtual in the VM) until it is killed.
    limit_virtual_s: float = 300
    #: POSIX sh that has been run before the script, outside of its work directory.  The VM runs it
    #: once for all jobs that have the same one, and begins each where it ended.
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
    """A guest's use of the machine that ran it."""

    #: From the start of the guest to the end of the job.
    wall_s: float
    #: Most that the guest's process had in memory.
    memory_mb: float


@dataclass(frozen=True)
class JobResult:
    """What a job left behind."""

    #: Regular files left in ``$OUT``, by path relative to it.
    files: Mapping[str, bytes]
    #: Standard output and error of the script, in the order written.
    log: str
    #: The script's exit code (128 + n when signal n killed it).
    exit_code: int
    #: Where it ran: exact kernel version, QEMU version, digests, machine line,
    #: and ``missing``: the tools that this machine did not have.
    environment: Mapping[str, str]
    #: Its cost; never the same twice.
    cost: Cost | None = field(default=None, compare=False)

    def check(self) -> JobResult:
        """Return this result; raise :class:`LabError` if the script failed."""
        if self.exit_code != 0:
            raise LabError(f"the job ended with code {self.exit_code}", self.log[-4000:])
        return self


class Runner(Protocol):
    """Anything that runs jobs.  Safe to call from several threads at once."""

    def run(self, job: Job, progress: Progress | None = None) -> JobResult:
        """Run `job` to its end; `progress` gets the seconds done, rising."""
        ...
