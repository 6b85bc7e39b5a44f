"""Locks between processes and threads, released by the kernel when a holder dies."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold the lock file `path` exclusively; waits for whoever holds it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    # A descriptor of its own per caller: flock then also excludes threads.
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)
        yield
    finally:
        os.close(fd)
