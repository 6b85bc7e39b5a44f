"""A booted guest in a file: one boot per kernel, initramfs, machine and memory."""

from __future__ import annotations

import hashlib
import json
import os
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from imtcp_lab.engine import paths
from imtcp_lab.engine.lock import locked
from imtcp_lab.job import GuestCrashed, LabError
from imtcp_lab.vm import qemu
from imtcp_lab.vm.initramfs import Initramfs
from imtcp_lab.vm.kernels import Kernel
from imtcp_lab.vm.monitor import Monitor

#: Snapshots kept, newest use first; each takes 100 to 200 MB.
KEEP = 8
#: Wall-clock seconds without any news after which a boot counts as hung.
BOOT_STALL_S = 300
SAVE_S = 120
#: Seed of the boot; a job's own seed stirs the guest after it.
BOOT_SEED = 1


@dataclass(frozen=True)
class Snapshot:
    """A saved guest and what it was made from."""

    path: Path
    environment: dict[str, str]

    def open(self) -> int:
        """A descriptor to read it from; it stays readable when pruned."""
        fd = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC)
        os.utime(fd)  # used now: pruned last
        return fd


def directory() -> Path:
    """Where snapshots are kept."""
    return paths.cache() / "snapshots"


def describe(kernel: Kernel, initramfs: Initramfs, memory_mb: int) -> dict[str, str]:
    """What decides about the guest's bytes."""
    machine = qemu.machine_arguments(memory_mb, BOOT_SEED, qemu.ICOUNT_RECORD)
    return {
        "kernel": kernel.release,
        "kernel_package": kernel.package_version,
        "qemu": qemu.version(),
        "machine": " ".join(machine),
        "command_line": qemu.COMMAND_LINE,
        "initramfs_sha256": initramfs.digest,
        "memory_mb": str(memory_mb),
    }


def get(kernel: Kernel, initramfs: Initramfs, memory_mb: int) -> Snapshot:
    """The snapshot for these; boots the guest once if there is none."""
    environment = describe(kernel, initramfs, memory_mb)
    key = hashlib.sha256(json.dumps(environment, sort_keys=True).encode()).hexdigest()[:24]
    path = directory() / f"{key}.vm"
    if not path.is_file():
        with locked(directory() / "locks" / f"{key}.lock"):
            if not path.is_file():
                _boot_and_save(path, kernel, initramfs, memory_mb, environment)
                prune()
    return Snapshot(path, environment)


def _boot_and_save(
    path: Path, kernel: Kernel, initramfs: Initramfs, memory_mb: int, environment: dict[str, str]
) -> None:
    started = time.monotonic()
    partial = path.with_suffix(".partial")
    archive = qemu.Memory("initramfs", initramfs.content)
    monitor = Monitor()
    arguments = [
        # Saving under rr aborts QEMU; a boot comes out the same without it.
        *qemu.machine_arguments(memory_mb, BOOT_SEED, qemu.ICOUNT),
        *monitor.arguments(),
        *("-kernel", str(kernel.image)),
        *("-initrd", archive.path),
        *("-append", qemu.COMMAND_LINE),
    ]
    try:
        inherited = [archive.fd, monitor.guest_end.fileno()]
        with qemu.running(arguments, inherited) as guest:
            monitor.connect(timeout_s=60)
            for kind, payload in guest.frames(BOOT_STALL_S):
                if kind == "S":
                    break
                raise GuestCrashed(
                    f"the guest failed to start: {payload.decode(errors='replace')}",
                    guest.console_tail(),
                )
            monitor.wait_event("STOP")
            booted_s = time.monotonic() - started
            fd = os.open(partial, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o644)
            try:
                monitor.save_to(fd, SAVE_S)
                os.fsync(fd)
            finally:
                os.close(fd)
        about = {**environment, "series": kernel.series, "boot_wall_s": f"{booted_s:.2f}"}
        about["missing"] = " ".join(initramfs.missing)
        path.with_suffix(".json").write_text(json.dumps(about, indent=1) + "\n")
        partial.replace(path)
    except OSError as error:
        raise LabError(f"the snapshot {path} cannot be written: {error.strerror}") from error
    finally:
        partial.unlink(missing_ok=True)
        archive.close()
        monitor.close()


def listing() -> list[dict[str, object]]:
    """The snapshots there are, last used first."""
    found = []
    for path in directory().glob("*.vm"):
        with suppress(OSError, ValueError):
            status = path.stat()
            about = json.loads(path.with_suffix(".json").read_text())
            about.update(path=str(path), bytes=status.st_size, used=status.st_mtime)
            found.append(about)
    return sorted(found, key=lambda about: -about["used"])


def prune(keep: int = KEEP) -> int:
    """Remove all but the `keep` last used ones and what a crash left; how many."""
    paths_kept = {Path(str(about["path"])) for about in listing()[:keep]}
    removed = 0
    for path in directory().glob("*.vm"):
        if path not in paths_kept:
            path.unlink(missing_ok=True)
            path.with_suffix(".json").unlink(missing_ok=True)
            removed += 1
    for partial in directory().glob("*.partial"):
        # A save takes seconds; an hour-old one lost its writer.
        with suppress(OSError):
            if time.time() - partial.stat().st_mtime > 3600:
                partial.unlink()
    return removed
