"""Runs jobs in the virtual-time VM."""

from __future__ import annotations

import io
import tarfile
import threading
import time
from contextlib import suppress
from dataclasses import dataclass, field

from imtcp_lab.engine import processors
from imtcp_lab.job import Cost, GuestCrashed, Job, JobResult, JobTimeout, Progress
from imtcp_lab.vm import initramfs, kernels, qemu, snapshot
from imtcp_lab.vm.frames import named_file

DEFAULT_KERNEL = "6.12"
DEFAULT_MEMORY_MB = 512
#: Wall-clock seconds without a tick (one each half virtual second) after which
#: a guest counts as hung; heavy traffic takes some wall seconds per virtual one.
STALL_S = 300.0
LOG_TAIL_CHARS = 4000


@dataclass
class VmRunner:
    """A :class:`~imtcp_lab.job.Runner` on a stock Debian kernel in virtual time.

    The same job gives the same bytes, on a busy machine too.  Runs in parallel
    threads and processes do not know each other; each uses one core.
    """

    #: Series of the guest's kernel, one of :data:`kernels.SERIES`.
    kernel: str = DEFAULT_KERNEL
    memory_mb: int = DEFAULT_MEMORY_MB
    stall_s: float = STALL_S
    _snapshots: dict[str, snapshot.Snapshot] = field(init=False, default_factory=dict, repr=False)
    _missing: tuple[str, ...] = field(init=False, default=(), repr=False)
    _lock: threading.Lock = field(init=False, default_factory=threading.Lock, repr=False)

    def __getstate__(self) -> dict[str, object]:
        """Travels to worker processes without what only this process holds."""
        names = ("kernel", "memory_mb", "stall_s")
        return {name: getattr(self, name) for name in names}

    def __setstate__(self, state: dict[str, object]) -> None:
        self.__init__(**state)  # type: ignore[misc]

    def prepare(self, warmup: str = "") -> snapshot.Snapshot:
        """Boot a guest, run `warmup` in it and save it, unless that is done; :meth:`run` does it by
        itself."""
        with self._lock:
            saved = self._snapshots.get(warmup)
            # It may have been pruned by another process meanwhile.
            if saved is None or not saved.path.is_dir():
                kernel = kernels.get(self.kernel)
                archive = initramfs.build(kernel, warmup)
                self._missing = archive.missing
                saved = self._snapshots[warmup] = snapshot.get(kernel, archive, self.memory_mb)
            return saved

    def _open(self, warmup: str) -> tuple[snapshot.Snapshot, snapshot.Opened]:
        """The snapshot and what to load it from."""
        while True:
            saved = self.prepare(warmup)
            # Another process may prune it between the look and the open.
            with suppress(FileNotFoundError):
                return saved, saved.open()

    def run(self, job: Job, progress: Progress | None = None) -> JobResult:
        """Run `job`; `progress` gets virtual seconds, every half of one.

        Raises :class:`JobTimeout` when the virtual time is used up and
        :class:`GuestCrashed` when the guest panics, hangs or QEMU is killed.
        """
        saved, opened = self._open(job.warmup)
        archive = qemu.Memory("job", pack(job))
        arguments = [
            *qemu.machine_arguments(self.memory_mb, job.seed, opened.ram_path, share=False),
            *("-fw_cfg", f"name=opt/imtcp/job,file={archive.path}"),
            *("-incoming", f"fd:{opened.devices}"),
        ]
        try:
            inherited = [archive.fd, opened.ram, opened.devices]
            with processors.one(), qemu.running(arguments, inherited) as guest:
                return self._follow(guest, job, progress, saved.environment)
        finally:
            archive.close()
            opened.close()

    def _follow(
        self,
        guest: qemu.Guest,
        job: Job,
        progress: Progress | None,
        environment: dict[str, str],
    ) -> JobResult:
        started_s = time.monotonic()
        log: list[bytes] = []
        files: dict[str, bytes] = {}
        timed_out = False

        def tail() -> str:
            said = b"".join(log).decode("utf-8", "replace")[-LOG_TAIL_CHARS:]
            return "\n".join(part for part in (said.strip(), guest.console_tail()) if part)

        try:
            for kind, payload in guest.frames(self.stall_s):
                match kind:
                    case "T":
                        if progress is not None:
                            progress(int.from_bytes(payload, "big") / 1000)
                    case "L":
                        log.append(payload)
                    case "F":
                        name, content = named_file(payload)
                        files[name] = content
                    case "V":
                        timed_out = True
                    case "E":
                        raise GuestCrashed(
                            f"the guest's agent failed: {payload.decode(errors='replace')}"
                        )
                    case "X" if timed_out:
                        raise JobTimeout(
                            f"the job used up its {job.limit_virtual_s:g} virtual seconds"
                        )
                    case "X":
                        text = b"".join(log).decode("utf-8", "replace")
                        about = {"runner": "vm", **environment, "seed": str(job.seed)}
                        about["warmup"] = job.warmup
                        about["missing"] = " ".join(self._missing)
                        cost = Cost(time.monotonic() - started_s, guest.peak_memory_mb())
                        return JobResult(files, text, int.from_bytes(payload, "big"), about, cost)
        except (GuestCrashed, JobTimeout) as error:
            error.console = tail()
            raise
        raise AssertionError("frames() ends only by raising")


def pack(job: Job) -> bytes:
    """The tar that the agent unpacks: the same job gives the same bytes."""
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
