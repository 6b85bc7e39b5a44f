"""A booted guest on disk: one boot per kernel, initramfs, machine and memory size.

A snapshot is a directory with ``ram`` (sparse; every run maps it privately), ``devices`` (some
kilobytes) and ``about.json``.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import tempfile
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from imtcp_lab.engine import paths, processors
from imtcp_lab.engine.lock import locked
from imtcp_lab.job import GuestCrashed, LabError
from imtcp_lab.vm import devicestate, qemu
from imtcp_lab.vm.guest import Memory
from imtcp_lab.vm.initramfs import Initramfs
from imtcp_lab.vm.kernels import Kernel
from imtcp_lab.vm.monitor import Monitor

#: Number of snapshots to keep, the last used ones; each takes 100 to 200 MB.
KEEP = 12
#: A boot counts as hung after this many wall-clock seconds without output.
BOOT_STALL_S = 300
#: Seed of the boot; a job's own seed takes effect after it.
BOOT_SEED = 1
#: Attempts at a boot until a save is good; on a busy machine some saves are not.
SAVES = 10
PARTIAL = ".partial-"
#: A partial snapshot of this age has no writer any more; saving takes seconds.
PARTIAL_AGE_S = 3600
BLOCK_BYTES = 1 << 20


@dataclass(frozen=True)
class Opened:
    """Open descriptors of a snapshot's files; they stay valid when it is pruned."""

    ram: int
    devices: int

    @property
    def ram_path(self) -> str:
        """The path by which a child with the inherited descriptor opens the memory."""
        return f"/dev/fd/{self.ram}"

    def close(self) -> None:
        """Closes both files."""
        os.close(self.ram)
        os.close(self.devices)


@dataclass(frozen=True)
class Snapshot:
    """A saved guest, and a description of its origin."""

    path: Path
    environment: dict[str, str]

    def open(self) -> Opened:
        """Opens it; raises FileNotFoundError if it was pruned."""
        os.utime(self.path)  # used now: pruned last
        ram = os.open(self.path / "ram", os.O_RDONLY | os.O_CLOEXEC)
        try:
            return Opened(ram, os.open(self.path / "devices", os.O_RDONLY | os.O_CLOEXEC))
        except OSError:
            os.close(ram)
            raise


def directory() -> Path:
    """The directory of all snapshots."""
    return paths.cache() / "snapshots"


def describe(kernel: Kernel, initramfs: Initramfs, memory_mb: int) -> dict[str, str]:
    """Everything that decides the guest's bytes."""
    machine = qemu.machine_arguments(memory_mb, BOOT_SEED, "ram", share=True)
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
    """The snapshot for these; boots the guest once if none exists."""
    environment = describe(kernel, initramfs, memory_mb)
    key = hashlib.sha256(json.dumps(environment, sort_keys=True).encode()).hexdigest()[:24]
    path = directory() / key
    while True:
        # Another process may prune it before the read.
        with suppress(FileNotFoundError):
            about = json.loads((path / "about.json").read_text())
            return Snapshot(path, environment | {"guest_sha256": about["guest_sha256"]})
        with locked(directory() / "locks" / key):
            if not path.is_dir():
                _make(path, kernel, initramfs, memory_mb, environment)
                prune()


def _make(
    path: Path, kernel: Kernel, initramfs: Initramfs, memory_mb: int, environment: dict[str, str]
) -> None:
    """Boots and saves the guest beside `path`, then moves it into place in one step."""
    started = time.monotonic()
    try:
        partial = Path(tempfile.mkdtemp(dir=directory(), prefix=f"{path.name}{PARTIAL}"))
        try:
            for _ in range(SAVES):
                digest = _boot_and_save(partial, kernel, initramfs, memory_mb)
                if digest is not None:
                    break
            else:
                raise LabError(f"QEMU's clock ran on in {SAVES} saves of {kernel.release}")
            about = {
                **environment,
                "series": kernel.series,
                "guest_sha256": digest,
                "boot_wall_s": f"{time.monotonic() - started:.2f}",
            }
            (partial / "about.json").write_text(json.dumps(about, indent=1) + "\n")
            partial.rename(path)
        finally:
            shutil.rmtree(partial, ignore_errors=True)
    except OSError as error:
        raise LabError(f"the snapshot cannot be written to {path}: {error.strerror}") from error


def _boot_and_save(
    partial: Path, kernel: Kernel, initramfs: Initramfs, memory_mb: int
) -> str | None:
    """Saves memory and devices below `partial`; returns the digest of both.

    It returns None if QEMU's clock skipped during the save (see :mod:`devicestate`).
    """
    archive = Memory("initramfs", initramfs.content)
    # Do not write to the final file at once: on a full disk, writing to mapped memory would kill
    # QEMU without a message.
    ram, devices = Memory("ram"), Memory("devices")
    ram.resize(memory_mb << 20)
    monitor = Monitor()
    arguments = [
        *qemu.machine_arguments(memory_mb, BOOT_SEED, ram.path, share=True),
        *monitor.arguments(),
        *("-kernel", str(kernel.image)),
        *("-initrd", archive.path),
        *("-append", qemu.COMMAND_LINE),
    ]
    inherited = [memory.fd for memory in (archive, ram, devices)]
    try:
        with (
            # With a second processor, QEMU's main loop would always win the race that devicestate
            # describes, and no save would be good.
            processors.one(always=True),
            qemu.running(arguments, [*inherited, monitor.guest_end.fileno()]) as guest,
        ):
            monitor.connect(timeout_s=60)
            for kind, payload in guest.frames(BOOT_STALL_S):
                if kind == "S":
                    stopped_ns = int.from_bytes(payload, "big")
                    break
                raise GuestCrashed(
                    f"the guest failed to start: {payload.decode(errors='replace')}",
                    guest.console_tail(),
                )
            monitor.wait_event("STOP")
            monitor.save_devices(devices.path)
        state = devices.news()
        if not devicestate.is_where_it_stopped(state, stopped_ns):
            return None
        state = devicestate.without_host_clocks(state)
        (partial / "devices").write_bytes(state)
        return _copy_sparse(ram, partial / "ram", hashlib.sha256(state))
    finally:
        for memory in (archive, ram, devices):
            memory.close()
        monitor.close()


def _copy_sparse(memory: Memory, to: Path, digest: hashlib._Hash) -> str:
    """Writes `memory` to a sparse file; returns its digest, added to `digest`."""
    size = os.fstat(memory.fd).st_size
    zeros = bytes(BLOCK_BYTES)
    with to.open("wb") as file:
        for start in range(0, size, BLOCK_BYTES):
            block = os.pread(memory.fd, BLOCK_BYTES, start)
            digest.update(block)
            if block != zeros:
                file.seek(start)
                file.write(block)
        file.truncate(size)
        file.flush()
        os.fsync(file.fileno())
    return digest.hexdigest()


def listing() -> list[dict[str, object]]:
    """All snapshots, last used first."""
    found = []
    for path in directory().glob("*/about.json"):
        if PARTIAL in path.parent.name:
            continue
        with suppress(OSError, ValueError):
            about = json.loads(path.read_text())
            blocks = sum(file.stat().st_blocks for file in path.parent.iterdir())
            used = path.parent.stat().st_mtime
            about.update(path=str(path.parent), bytes=blocks * 512, used=used)
            found.append(about)
    return sorted(found, key=lambda about: -about["used"])


def prune(keep: int = KEEP) -> int:
    """Removes all but the `keep` last used ones, and the remains of crashes; returns their
    number."""
    removed = 0
    for about in listing()[keep:]:
        # Rename it at once, so that nobody opens an incomplete one.
        path = Path(str(about["path"]))
        with suppress(OSError):
            gone = path.rename(f"{path}{PARTIAL}gone-{os.getpid()}")
            shutil.rmtree(gone, ignore_errors=True)
            removed += 1
    for partial in directory().glob(f"*{PARTIAL}*"):
        with suppress(OSError):
            if time.time() - partial.stat().st_mtime > PARTIAL_AGE_S:
                shutil.rmtree(partial, ignore_errors=True)
    return removed
