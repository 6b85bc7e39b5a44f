"""One QEMU process: its machine, its channels to the guest, its end.

Every channel is an anonymous memory file that the child inherits, so a run
leaves nothing behind, whatever happens to it.  The debug console writes byte by
byte into one; the host looks at its length now and then instead of being woken
for each byte.
"""

from __future__ import annotations

import math
import os
import signal
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from imtcp_lab.engine import tools
from imtcp_lab.job import GuestCrashed, MissingPrerequisite
from imtcp_lab.vm.frames import Frames

PROGRAM = "qemu-system-x86_64"
MACHINE = "microvm,isa-serial=on,rtc=on,pit=on,pic=on"
#: rr=record makes the main loop's events part of the instruction count; without
#: it one run in three differs.  Nothing is ever replayed, hence /dev/null.
ICOUNT = "shift=0,sleep=off,rr=record,rrfile=/dev/null"
#: All that QEMU can emulate but fast strings: the kernel then copies and clears with them, and
#: what a processor does in blocks is one turn through QEMU's loop, and one virtual nanosecond, for
#: each byte. Without them Reno beside the web (`lab run web --measure-s 3 --buffers 1000 --flows 1
#: --controls reno --seeds 1`) took 33 s of a processor, 47 with them.
PROCESSOR = "max,-erms"
COMMAND_LINE = (
    "console=ttyS0 quiet panic=-1 nokaslr mitigations=off nr_cpus=1 tsc=reliable "
    "reboot=t random.trust_cpu=on rcupdate.rcu_expedited=1 apparmor=0 audit=0 no_timer_check"
)
CONSOLE_TAIL_BYTES = 4000
#: How often the channels are looked at, seconds.
POLL_S = 0.02


@cache
def program() -> str:
    """QEMU's path."""
    found = tools.which(PROGRAM)
    if found is None:
        raise MissingPrerequisite(f"{PROGRAM} is missing: apt-get install qemu-system-x86")
    return str(found)


@cache
def version() -> str:
    """QEMU's version line."""
    done = subprocess.run([program(), "--version"], capture_output=True, text=True, check=True)
    return done.stdout.splitlines()[0]


def machine_arguments(memory_mb: int, seed: int, ram: str, *, share: bool) -> list[str]:
    """The part of the command that saving and resuming have in common.

    The guest's memory is the file `ram`: shared while it boots, so that the file
    is the saved memory; private in a run, which then starts at once and copies
    only the pages that it writes.
    """
    backend = f"id=ram,size={memory_mb}M,mem-path={ram},share={'on' if share else 'off'}"
    return [
        *("-M", f"{MACHINE},memory-backend=ram"),
        *("-object", f"memory-backend-file,{backend}"),
        *("-accel", "tcg"),
        *("-cpu", PROCESSOR),
        *("-smp", "1"),
        *("-m", f"{memory_mb}M"),
        "-nodefaults",
        "-no-user-config",
        *("-display", "none"),
        *("-vga", "none"),
        "-no-reboot",
        *("-seed", str(seed)),
        *("-rtc", "base=2024-01-01T00:00:00,clock=vm"),
        *("-icount", ICOUNT),
        *("-action", "panic=pause"),
        *("-device", "pvpanic"),
        *("-device", "isa-debugcon,iobase=0xe9,chardev=frames"),
        *("-serial", "chardev:console"),
        # What xen-save-devices-state writes has neither a configuration nor the
        # run state in it, and the loading side must not wait for them.
        *("-global", "migration.send-configuration=off"),
        *("-global", "migration.store-global-state=off"),
    ]


@dataclass
class Memory:
    """An anonymous file that QEMU opens by its descriptor's name."""

    name: str
    content: bytes = b""
    fd: int = field(init=False)
    _read: int = field(init=False, default=0)

    def __post_init__(self) -> None:
        self.fd = os.memfd_create(self.name)
        view = memoryview(self.content)
        while view:
            view = view[os.write(self.fd, view) :]
        self.content = b""

    def resize(self, size: int) -> None:
        """Make it `size` bytes long; what is added reads as zeros."""
        os.ftruncate(self.fd, size)

    @property
    def path(self) -> str:
        """How a child that inherited the descriptor opens it."""
        return f"/dev/fd/{self.fd}"

    def news(self) -> bytes:
        """What was written since the last call."""
        size = os.fstat(self.fd).st_size
        pieces = []
        while self._read < size:
            piece = os.pread(self.fd, size - self._read, self._read)
            pieces.append(piece)
            self._read += len(piece)
        return b"".join(pieces)

    def tail(self, most_bytes: int) -> str:
        """The last `most_bytes` as text."""
        size = os.fstat(self.fd).st_size
        data = os.pread(self.fd, most_bytes, max(0, size - most_bytes))
        return data.decode("utf-8", "replace").strip()

    def close(self) -> None:
        """Release it."""
        os.close(self.fd)


@dataclass
class Guest:
    """A running QEMU."""

    process: subprocess.Popen[bytes]
    frames_channel: Memory
    console: Memory
    errors: Memory
    _frames: Frames = field(default_factory=Frames)

    def frames(self, stall_s: float) -> Iterator[tuple[str, bytes]]:
        """Frames as they come; raises when the guest is gone or says nothing
        for `stall_s` wall-clock seconds (it ticks while it runs)."""
        heard = time.monotonic()
        while True:
            ended = self.process.poll() is not None
            data = self.frames_channel.news()
            if data:
                heard = time.monotonic()
                yield from self._frames.feed(data)
                continue
            if ended:
                raise GuestCrashed(self.obituary(), self.console_tail())
            if time.monotonic() - heard > stall_s:
                raise GuestCrashed(
                    f"the guest hangs: no sign of life for {stall_s:.0f} s", self.console_tail()
                )
            with suppress(subprocess.TimeoutExpired):
                self.process.wait(POLL_S)

    def obituary(self) -> str:
        """Why QEMU is gone (or, if it is not, that it does not answer)."""
        with suppress(subprocess.TimeoutExpired):
            self.process.wait(1)
        if self.process.returncode is None:
            return "QEMU does not answer"
        code = self.process.returncode
        errors = self.errors.tail(1000)
        reason = f": {errors}" if errors else ""
        if code < 0:
            return f"QEMU was killed by {signal.Signals(-code).name}{reason}"
        if code > 0:
            return f"QEMU ended with code {code}{reason}"
        return f"the guest kernel stopped before the job was done{reason}"

    def peak_memory_mb(self) -> float:
        """Most that its process had in memory so far; NaN of one that has ended already."""
        with suppress(OSError):
            status = Path(f"/proc/{self.process.pid}/status").read_text(encoding="ascii")
            for line in status.splitlines():
                if line.startswith("VmHWM:"):
                    return int(line.split()[1]) / 1024
        return math.nan

    def console_tail(self) -> str:
        """The end of what the guest kernel printed."""
        return self.console.tail(CONSOLE_TAIL_BYTES)

    def kill(self) -> None:
        """End it now."""
        with suppress(ProcessLookupError):
            self.process.kill()
        self.process.wait()


@contextmanager
def running(arguments: Sequence[str], inherited: Sequence[int] = ()) -> Iterator[Guest]:
    """Start QEMU with `arguments` and the guest's channels; always end it.

    It dies with the thread that started it, even when that is killed: setpriv
    asks the kernel for that between fork and exec.
    """
    channels = [Memory("frames"), Memory("console"), Memory("errors")]
    frames_channel, console, errors = channels
    command = [
        *("setpriv", "--pdeathsig", "KILL", program()),
        *("-chardev", f"file,id=frames,path={frames_channel.path}"),
        *("-chardev", f"file,id=console,path={console.path}"),
        *arguments,
    ]
    try:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=errors.fd,
            stderr=errors.fd,
            pass_fds=[frames_channel.fd, console.fd, *inherited],
            start_new_session=True,
        )
        guest = Guest(process, frames_channel, console, errors)
        try:
            yield guest
        finally:
            guest.kill()
    finally:
        for channel in channels:
            channel.close()
