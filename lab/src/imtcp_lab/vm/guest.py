"""A guest's process: its channels to the host, and its end.

A channel is a file that the guest's program writes and the host reads.  The host polls the file's
length, which is cheaper than a wake-up for each byte.
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
from pathlib import Path

from imtcp_lab.job import GuestCrashed
from imtcp_lab.vm.frames import Frames

CONSOLE_TAIL_BYTES = 4000
#: Seconds between two polls of the channels.
POLL_S = 0.02


class Channel:
    """A file that grows while the host reads it."""

    def __init__(self, fd: int) -> None:
        self.fd = fd
        self._read = 0

    @classmethod
    def of(cls, path: Path) -> Channel:
        """A channel that another program writes by its file name."""
        return cls(os.open(path, os.O_RDONLY | os.O_CLOEXEC))

    def __enter__(self) -> Channel:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def news(self) -> bytes:
        """The text written since the last call."""
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
        """Closes the file."""
        os.close(self.fd)


class Memory(Channel):
    """An anonymous file that a child process opens through the descriptor."""

    def __init__(self, name: str, content: bytes = b"") -> None:
        super().__init__(os.memfd_create(name))
        view = memoryview(content)
        while view:
            view = view[os.write(self.fd, view) :]

    def resize(self, size: int) -> None:
        """Makes it `size` bytes long; added bytes read as zeros."""
        os.ftruncate(self.fd, size)

    @property
    def path(self) -> str:
        """The path by which a child with the inherited descriptor opens it."""
        return f"/dev/fd/{self.fd}"


@dataclass
class Guest:
    """A running guest, which is a process of the host."""

    #: Arguments of the program.
    name: str
    process: subprocess.Popen[bytes]
    frames_channel: Channel
    console: Channel
    errors: Channel
    _frames: Frames = field(default_factory=Frames)

    def frames(self, stall_s: float) -> Iterator[tuple[str, bytes]]:
        """Yields frames as they arrive.

        Raises when the guest is gone, or silent for `stall_s` wall-clock seconds (it ticks while it
        runs).
        """
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
        """The reason for the guest's end, or that it does not answer."""
        with suppress(subprocess.TimeoutExpired):
            self.process.wait(1)
        if self.process.returncode is None:
            return f"{self.name} does not answer"
        code = self.process.returncode
        errors = self.errors.tail(1000)
        reason = f": {errors}" if errors else ""
        if code < 0:
            return f"{self.name} was killed by {signal.Signals(-code).name}{reason}"
        if code > 0:
            return f"{self.name} ended with code {code}{reason}"
        return f"the guest kernel stopped before the job was done{reason}"

    def peak_memory_mb(self) -> float:
        """Peak memory of the guest's process so far; NaN after its end."""
        with suppress(OSError):
            status = Path(f"/proc/{self.process.pid}/status").read_text(encoding="ascii")
            for line in status.splitlines():
                if line.startswith("VmHWM:"):
                    return int(line.split()[1]) / 1024
        return math.nan

    def console_tail(self) -> str:
        """The end of the guest kernel's output."""
        return self.console.tail(CONSOLE_TAIL_BYTES)

    def kill(self) -> None:
        """Kills the guest now."""
        with suppress(ProcessLookupError):
            self.process.kill()
        self.process.wait()


@contextmanager
def running(
    name: str,
    command: Sequence[str],
    frames: Channel,
    console: Channel | None = None,
    inherited: Sequence[int] = (),
    where: Path | None = None,
) -> Iterator[Guest]:
    """Starts `command`, whose guest writes to `frames` and `console`; always ends it.

    Without a separate console, the console is the program's output.  The guest dies with the thread
    that started it, even if that thread is killed: setpriv asks the kernel for this between fork
    and exec.
    """
    errors = Memory("errors")
    try:
        process = subprocess.Popen(
            ["setpriv", "--pdeathsig", "KILL", *command],
            stdin=subprocess.DEVNULL,
            stdout=errors.fd,
            stderr=errors.fd,
            pass_fds=inherited,
            cwd=where,
            start_new_session=True,
        )
        guest = Guest(name, process, frames, console or errors, errors)
        try:
            yield guest
        finally:
            guest.kill()
    finally:
        errors.close()
