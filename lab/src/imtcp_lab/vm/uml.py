"""Runs jobs in User-mode Linux: the kernel is a program on the host, with its own time.

A guest's processor is infinitely fast: its clock stands still during computation, and jumps to the
next timer when all processes wait.  So the host's cost does not enter a measurement, a virtual
second takes only its real computation, and equal jobs give equal bytes.  QEMU's guests
(:mod:`imtcp_lab.vm.runner`) are stock kernels, whose processor takes time.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from imtcp_lab.engine import processors
from imtcp_lab.job import Job, JobResult, Progress
from imtcp_lab.vm import initramfs, uml_kernel
from imtcp_lab.vm.following import STALL_S, follow
from imtcp_lab.vm.guest import Channel, running
from imtcp_lab.vm.runner import pack

DEFAULT_MEMORY_MB = 768
#: 2024-01-01 in nanoseconds, as in the other guests.
STARTS_NS = 1704067200 * 10**9
ARGUMENTS = (
    "time-travel=inf-cpu",
    f"time-travel-start={STARTS_NS}",
    "con=null",
    "con0=null,fd:1",
    "quiet",
    "panic=-1",
    # Only the job's seed is random.
    "random.trust_cpu=on",
    "random.trust_bootloader=on",
    # Paths are relative, because the kernel's random numbers depend on its arguments.
    "initrd=initrd",
    "uml_dir=.",
    "umid=lab",
    # The kernel puts unknown arguments into the environment of /init.
    "IMTCP_HOST=/proc/self/cwd",
)


#: Prefix of the directory that guest and host share.
SHARED = "imtcp-uml-"


@contextmanager
def _directory() -> Iterator[Path]:
    """The directory that guest and host share; in memory if possible.

    This process keeps it locked, and removes the directories of killed ones.
    """
    memory = Path("/dev/shm")
    where = memory if os.access(memory, os.W_OK) else Path(tempfile.gettempdir())
    for path in where.glob(f"{SHARED}*"):
        if (lock := _lock(path)) is not None:
            shutil.rmtree(path, ignore_errors=True)
            os.close(lock)
    lock = None
    while lock is None:
        path = Path(tempfile.mkdtemp(prefix=SHARED, dir=where))
        lock = _lock(path)
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)
        os.close(lock)


def _lock(path: Path) -> int | None:
    """A descriptor that locks the directory; None if another process holds or removed it."""
    try:
        directory = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    except OSError:
        return None
    with suppress(BlockingIOError):
        fcntl.flock(directory, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if path.is_dir():
            return directory
    os.close(directory)
    return None


@dataclass
class UmlRunner:
    """A :class:`~imtcp_lab.job.Runner` in a guest whose processor is infinitely fast."""

    memory_mb: int = DEFAULT_MEMORY_MB
    stall_s: float = STALL_S
    _archives: dict[str, initramfs.Initramfs] = field(init=False, default_factory=dict, repr=False)
    _lock: threading.Lock = field(init=False, default_factory=threading.Lock, repr=False)

    def __getstate__(self) -> dict[str, object]:
        """State for worker processes, without the objects of this process."""
        return {"memory_mb": self.memory_mb, "stall_s": self.stall_s}

    def __setstate__(self, state: dict[str, object]) -> None:
        self.__init__(**state)  # type: ignore[misc]

    def prepare(self, warmup: str = "") -> initramfs.Initramfs:
        """Builds the kernel and makes the archive, unless both exist."""
        with self._lock:
            archive = self._archives.get(warmup)
            if archive is None:
                archive = self._archives[warmup] = initramfs.build(uml_kernel.get(), warmup)
            return archive

    def run(self, job: Job, progress: Progress | None = None) -> JobResult:
        """Runs `job` like :meth:`imtcp_lab.vm.runner.VmRunner.run`."""
        archive, kernel = self.prepare(job.warmup), uml_kernel.get()
        with _directory() as shared:
            (shared / "initrd").write_bytes(archive.content)
            (shared / "job.tar").write_bytes(pack(job))
            (shared / "frames").touch()
            command = [
                str(kernel.image),
                f"mem={self.memory_mb}M",
                *ARGUMENTS,
            ]
            environment = {
                "kernel": kernel.release,
                "kernel_package": kernel.package_version,
                "machine": " ".join(["User-mode Linux", *ARGUMENTS]),
                "initramfs_sha256": archive.digest,
                "memory_mb": str(self.memory_mb),
                "runner": "uml",
                "seed": str(job.seed),
                "warmup": job.warmup,
                "missing": " ".join(archive.missing),
            }
            with (
                processors.one(),
                Channel.of(shared / "frames") as frames,
                running("User-mode Linux", command, frames, where=shared) as guest,
            ):
                return follow(guest, job, progress, environment, self.stall_s)
