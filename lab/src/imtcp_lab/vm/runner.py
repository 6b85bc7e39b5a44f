"""Runs jobs in the virtual-time VM."""

from __future__ import annotations

import io
import tarfile
import threading
from contextlib import suppress
from dataclasses import dataclass, field

from imtcp_lab.engine import processors
from imtcp_lab.job import Job, JobResult, Progress
from imtcp_lab.vm import initramfs, kernels, qemu, snapshot
from imtcp_lab.vm.following import STALL_S, follow
from imtcp_lab.vm.guest import Memory

DEFAULT_KERNEL = "6.12"
DEFAULT_MEMORY_MB = 512


@dataclass
class VmRunner:
    """A :class:`~imtcp_lab.job.Runner` on a stock Debian kernel in virtual time.

    Equal jobs give equal bytes, even on a busy machine.  Runs in parallel threads and processes are
    independent; each uses one core.
    """

    #: Series of the guest's kernel, one of :data:`kernels.SERIES`.
    kernel: str = DEFAULT_KERNEL
    memory_mb: int = DEFAULT_MEMORY_MB
    stall_s: float = STALL_S
    _snapshots: dict[str, snapshot.Snapshot] = field(init=False, default_factory=dict, repr=False)
    _missing: tuple[str, ...] = field(init=False, default=(), repr=False)
    _lock: threading.Lock = field(init=False, default_factory=threading.Lock, repr=False)

    def __getstate__(self) -> dict[str, object]:
        """State for worker processes, without the objects of this process."""
        names = ("kernel", "memory_mb", "stall_s")
        return {name: getattr(self, name) for name in names}

    def __setstate__(self, state: dict[str, object]) -> None:
        self.__init__(**state)  # type: ignore[misc]

    def prepare(self, warmup: str = "") -> snapshot.Snapshot:
        """Boots a guest, runs `warmup` in it and saves it, unless a snapshot exists. :meth:`run`
        calls it."""
        with self._lock:
            saved = self._snapshots.get(warmup)
            # Another process may have pruned it meanwhile.
            if saved is None or not saved.path.is_dir():
                kernel = kernels.get(self.kernel)
                archive = initramfs.build(kernel, warmup)
                self._missing = archive.missing
                saved = self._snapshots[warmup] = snapshot.get(kernel, archive, self.memory_mb)
            return saved

    def _open(self, warmup: str) -> tuple[snapshot.Snapshot, snapshot.Opened]:
        """The snapshot, and its open files."""
        while True:
            saved = self.prepare(warmup)
            # Another process may prune it before the open.
            with suppress(FileNotFoundError):
                return saved, saved.open()

    def run(self, job: Job, progress: Progress | None = None) -> JobResult:
        """Runs `job`; `progress` gets virtual seconds, every half second.

        Raises :class:`JobTimeout` when the virtual time is used up, and :class:`GuestCrashed` when
        the guest panics, hangs or QEMU is killed.
        """
        saved, opened = self._open(job.warmup)
        environment = {"runner": "vm", **saved.environment, "seed": str(job.seed)}
        environment |= {"warmup": job.warmup, "missing": " ".join(self._missing)}
        archive = Memory("job", pack(job))
        arguments = [
            *qemu.machine_arguments(self.memory_mb, job.seed, opened.ram_path, share=False),
            *("-fw_cfg", f"name=opt/imtcp/job,file={archive.path}"),
            *("-incoming", f"fd:{opened.devices}"),
        ]
        try:
            inherited = [archive.fd, opened.ram, opened.devices]
            with processors.one(), qemu.running(arguments, inherited) as guest:
                return follow(guest, job, progress, environment, self.stall_s)
        finally:
            archive.close()
            opened.close()


def pack(job: Job) -> bytes:
    """The tar that the agent unpacks: an equal job gives equal bytes."""
    content = io.BytesIO()
    members = {
        "run/job.settings": f"{job.seed} {round(job.limit_virtual_s * 1000)}\n".encode(),
        "run/job.sh": job.script.encode(),
    }
    members.update({f"work/{name}": data for name, data in job.files.items()})
    with tarfile.open(fileobj=content, mode="w", format=tarfile.GNU_FORMAT) as tar:
        for name in sorted(members):
            info = tarfile.TarInfo(name)
            info.size = len(members[name])
            # Executable, so that a job can bring its own scripts.
            info.mode = 0o755
            tar.addfile(info, io.BytesIO(members[name]))
    return content.getvalue()
